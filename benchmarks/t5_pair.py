"""The shipped pair: tokens/s with the draft over tokens/s without, and other libraries.

    benchmarks/peers/install .peers optimum
    python benchmarks/t5_pair.py build/en-de --data ../shared/data/en_de/valid.tsv --json FILE

Greedy, held-out sentences (first column of a TSV). All ways alternate on each sentence, so drift of
the machine affects all. Time is of whole generations, with the encoding of the source. Each way's
texts are compared with those of the plain target.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

import edgespec
from peers.ctranslate2_model import ctranslate2_model
from peers.protocol import Peer
from record import begin, write_result

ROOT = Path(__file__).parents[1]
MODELS, PEERS = ROOT / "models", ROOT / "benchmarks/peers"
LIMIT = 128

Way = Callable[[str], list[int]]


def edgespec_ways(folder: str, threads: int) -> dict[str, Way]:
    ways: dict[str, Way] = {}
    manifest = edgespec.load(folder).manifest
    for target_format in manifest.target.variants:
        for draft_format in manifest.draft.variants if manifest.draft else ():
            pair = edgespec.load(
                folder, threads=threads, target_format=target_format, draft_format=draft_format
            )
            plain = f"edgespec {target_format}, plain"
            if plain not in ways:
                ways[plain] = _way(pair, draft=False)
            drafted = f"edgespec {target_format}, draft {draft_format}"
            for gamma in (2, 3, 4):
                ways[f"{drafted}, γ {gamma}"] = _way(pair, draft="model", gamma=gamma)
            ways[f"{drafted}, γ auto"] = _way(pair, draft="both")  # what `generate` does
    return ways


def _way(pair: edgespec.Pair, **options: Any) -> Way:
    return lambda prompt: pair.generate(prompt, max_new_tokens=LIMIT, **options).token_ids


def transformers_ways(threads: int) -> dict[str, Way]:
    import torch
    from transformers import AutoTokenizer, T5ForConditionalGeneration

    torch.set_num_threads(threads)
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "en-de-target")
    target, draft = (
        T5ForConditionalGeneration.from_pretrained(MODELS / name, dtype=torch.float32).eval()
        for name in ("en-de-target", "en-de-draft")
    )

    def way(**options: Any) -> Way:
        def generate(prompt: str) -> list[int]:
            inputs = tokenizer(prompt, return_tensors="pt")
            with torch.inference_mode():
                ids = target.generate(
                    **inputs,
                    do_sample=False,
                    max_new_tokens=LIMIT,
                    **options,
                )
            return [int(token) for token in ids[0, 1:]]

        return generate

    return {
        "transformers fp32, plain": way(),
        "transformers fp32, assistant": way(assistant_model=draft),
    }


def ctranslate2_ways(threads: int) -> dict[str, Way]:
    """The fastest plain T5 on a CPU known to us; it has no speculation."""

    def way(compute_type: str) -> Way:
        translate = ctranslate2_model(MODELS / "en-de-target", compute_type, threads)
        return lambda prompt: translate([prompt], max_decoding_length=LIMIT)[0]

    return {
        "ctranslate2 fp32, plain": way("float32"),
        "ctranslate2 int8, plain": way("int8"),
    }


@contextmanager
def optimum_ways(python: Path, threads: int) -> Iterator[dict[str, Way]]:
    """optimum's models on ONNX Runtime under transformers' generation, in its own environment."""
    tokenizer = Tokenizer.from_file(str(MODELS / "en-de-target/tokenizer.json"))
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:

        def exported(name: str, *options: str) -> Path:
            folder = Path(scratch) / "-".join((name, *options))
            export = [python, PEERS / "optimum_export.py", "text2text-generation"]
            subprocess.run([*export, MODELS / name, folder, *options], check=True)
            return folder

        def way(target: Path, *options: str | Path) -> Way:
            command = [python, PEERS / "optimum_model.py", "seq2seq", target]
            log = Path(scratch) / "log"
            peer = Peer([*command, "--threads", str(threads), *options], log)
            stack.callback(peer.close)
            return lambda prompt: peer.generate(tokenizer.encode(prompt).ids, LIMIT).tokens

        target, draft = exported("en-de-target"), exported("en-de-draft")
        yield {
            "optimum fp32, plain": way(target),
            "optimum fp32, assistant": way(target, "--assistant", draft),
            "optimum int8, plain": way(exported("en-de-target", "--int8")),
        }


def measured(ways: dict[str, Way], prompts: list[str]) -> list[dict[str, Any]]:
    """A row for each way; all alternate on each prompt."""
    seconds = dict.fromkeys(ways, 0.0)
    tokens = dict.fromkeys(ways, 0)
    texts: dict[str, list[list[int]]] = {name: [] for name in ways}
    for repeat in range(2):  # the first pass is a warm-up
        for prompt in prompts if repeat else prompts[:5]:
            for name, generate in ways.items():
                began = time.perf_counter()
                text = generate(prompt)
                if repeat:
                    seconds[name] += time.perf_counter() - began
                    tokens[name] += len(text)
                    texts[name].append(text)
    rows = []
    for name in ways:
        base = f"{name.split(',')[0]}, plain"
        row = {
            "way": name,
            "tokens_per_second": tokens[name] / seconds[name],
            "over_own_plain": tokens[name] / seconds[name] * seconds[base] / tokens[base],
            "texts_equal_to_edgespec_fp32": sum(
                a == b for a, b in zip(texts[name], texts["edgespec fp32, plain"], strict=True)
            ),
            "texts_equal_to_own_plain": sum(
                a == b for a, b in zip(texts[name], texts[base], strict=True)
            ),
            "sentences": len(prompts),
            "tokens": tokens[name],
        }
        rows.append(row)
        print(
            f"{name:42} {row['tokens_per_second']:7.0f} tokens/s  ×{row['over_own_plain']:.2f}  "
            f"equal texts {row['texts_equal_to_own_plain']}/{len(prompts)}"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--optimum-python", type=Path, default=ROOT / ".peers/optimum/bin/python")
    options, record = begin(parser)
    lines = options.data.read_text(encoding="utf-8").splitlines()[: options.sentences]
    prompts = [line.split("\t")[0] for line in lines]
    with ExitStack() as stack:
        ways = {
            **edgespec_ways(options.pair, options.threads),
            **transformers_ways(options.threads),
        }
        if importlib.util.find_spec("ctranslate2"):
            ways |= ctranslate2_ways(options.threads)
        if options.optimum_python.exists():
            optimum = optimum_ways(options.optimum_python.absolute(), options.threads)
            ways |= stack.enter_context(optimum)
        rows = measured(ways, prompts)
    write_result(options, record, rows=rows)


if __name__ == "__main__":
    main()
