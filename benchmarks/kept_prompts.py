"""A kept prompt against the same prompt computed: time to the first token, by turns.

    python benchmarks/kept_prompts.py build/smollm2 docs/decisions/*.md

"load" is `Pair.use_prefix` (the file is mapped and its checksum compared), "first token" a text of
one token after it. All ways must give the same token, with the same log-probability.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import edgespec
from record import begin, write_result

LENGTHS = (256, 1024, 3000)  # tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--target-format")
    options, record = begin(parser)
    pair = edgespec.load(
        options.pair,
        threads=options.threads,
        target_format=options.target_format,
        capacity=max(LENGTHS) + 64,
    )
    text = "\n".join(path.read_text(encoding="utf-8") for path in options.texts)
    tokens = pair.encode(text, chat=False)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for length in LENGTHS:
            row = compared(pair, tokens[:length], Path(folder) / "prefix", options.repeats)
            rows.append(row)
            print(row, flush=True)
    write_result(options, record, target=pair.formats[0], repeats=options.repeats, rows=rows)


def compared(
    pair: edgespec.Pair, tokens: list[int], file: Path, repeats: int
) -> dict[str, float | int]:
    """Times of one length, in seconds, and the size of its file."""
    prompt = [*tokens, tokens[0]]  # it goes on after what was kept
    times: dict[str, list[float]] = {"computed": [], "load": [], "first_token": []}
    pair.save_prefix(tokens, file)
    for _ in range(repeats):
        pair.forget_prefix()
        seconds, expected = first_token(pair, prompt)
        times["computed"].append(seconds)
        pair.generate([tokens[-1]], max_new_tokens=1)  # nothing of it stays in the caches
        began = time.perf_counter()
        pair.use_prefix(file)
        times["load"].append(time.perf_counter() - began)
        seconds, found = first_token(pair, prompt)
        times["first_token"].append(seconds)
        assert (found.token_ids, found.logprobs) == (expected.token_ids, expected.logprobs)
    computed, load, first = (median(each) for each in times.values())
    caches = sum(
        array[:, :, : len(tokens)].nbytes
        for model in (pair.target, pair.draft)
        for array in getattr(model, "cache", {}).values()
    )
    features = getattr(pair.target, "features", None)  # what an EAGLE head reads
    caches += 0 if features is None else features[: len(tokens)].nbytes
    return {
        "tokens": len(tokens),
        "computed_s": computed,
        "load_s": load,
        "first_token_s": first,
        "load_over_computed": load / computed,
        "both_over_computed": (load + first) / computed,
        "bytes": file.stat().st_size,
        "bytes_over_caches": file.stat().st_size / caches,
    }


def first_token(pair: edgespec.Pair, prompt: list[int]) -> tuple[float, edgespec.Generation]:
    """Seconds to the first token of a prompt, and the text of one token."""
    began = time.perf_counter()
    text = pair.generate(prompt, max_new_tokens=1, draft=False, ignore_eos=True, logprobs=True)
    return time.perf_counter() - began, text


if __name__ == "__main__":
    main()
