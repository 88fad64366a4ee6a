"""Several texts at once: edgespec against llama.cpp's server and CTranslate2, with equal bits.

    benchmarks/peers/install .peers
    python benchmarks/many_peers.py chats build/smollm2 .peers/llama.cpp/bin/llama-server Q8_0.gguf
    pip install ctranslate2
    python benchmarks/many_peers.py lines build/en-de models/en-de-target --data en-de.tsv

`chats`: the same token ids, greedy, at most so many tokens each; as many requests at once as
edgespec makes texts. llama.cpp has as many slots and batches continuously. `lines`: CTranslate2
translates all lines with one call, in batches of each size in turn; the fastest counts. All ways
alternate; ratios are of total tokens per second, prompts included, medians of the repeats.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import edgespec
from peers.ctranslate2_model import ctranslate2_model
from peers.llama_http import free_port, post, wait_until_healthy
from record import begin, write_result
from same_texts import prompts_for

BATCHES = (8, 16, 32, 64, 128)  # sentences of a batch of CTranslate2
ROOM = 1024  # positions of each slot of llama.cpp

Way = Callable[[], int]  # makes all texts, returns how many tokens they have


@contextmanager
def llama_ways(
    options: argparse.Namespace, prompts: Sequence[Sequence[int]]
) -> Iterator[dict[str, Way]]:
    """llama.cpp, with as many slots as edgespec has texts."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    threads, slots = str(options.threads), str(options.texts)
    command = [
        *(options.server, "--model", options.model, "--host", "127.0.0.1", "--port", str(port)),
        *("--threads", threads, "--threads-batch", threads, "--parallel", slots),
        *("--ctx-size", str(options.texts * ROOM), "--cache-ram", "0"),
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def answer(prompt: Sequence[int]) -> int:
        request = {
            "prompt": list(prompt),
            "n_predict": options.tokens,
            "temperature": 0,
            "samplers": ["temperature"],
            "cache_prompt": False,
        }
        count: int = post(f"{url}/completion", request)["timings"]["predicted_n"]
        return count

    def at_once(requests: int) -> int:
        with ThreadPoolExecutor(requests) as pool:
            return sum(pool.map(answer, prompts))

    try:
        wait_until_healthy(url, server)
        yield {
            "llama.cpp, one at a time": lambda: at_once(1),
            f"llama.cpp, {slots} at once": lambda: at_once(options.texts),
        }
    finally:
        server.terminate()
        server.wait()


@contextmanager
def ctranslate2_ways(options: argparse.Namespace, lines: Sequence[str]) -> Iterator[dict[str, Way]]:
    """CTranslate2's int8, with each size of a batch."""
    translate = ctranslate2_model(options.checkpoint, "int8", options.threads)

    def tokens(batch: int) -> int:
        texts = translate(lines, max_batch_size=batch, max_decoding_length=options.tokens)
        return sum(map(len, texts))

    yield {f"CTranslate2 int8, batches of {size}": partial(tokens, size) for size in BATCHES}


def edgespec_ways(
    options: argparse.Namespace, prompts: Sequence[str] | Sequence[Sequence[int]]
) -> dict[str, Way]:
    pair = edgespec.load(options.pair, threads=options.threads)
    common = {"max_new_tokens": options.tokens}

    def one_at_a_time() -> int:
        return sum(len(pair.generate(prompt, **common).token_ids) for prompt in prompts)

    def at_once() -> int:
        results = pair.generate_many(prompts, texts=options.texts, **common)
        return sum(len(result.token_ids) for result in results)

    return {
        "edgespec, one at a time": one_at_a_time,
        f"edgespec, {options.texts} at once": at_once,
    }


def speeds(ways: dict[str, Way], repeats: int) -> dict[str, float]:
    """Tokens per second of each way, in turns."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(repeats + 1):  # the first is a warm-up
        for name, way in ways.items():
            began = time.perf_counter()
            tokens = way()
            if repeat:
                found[name].append(tokens / (time.perf_counter() - began))
    return {name: median(values) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="kind", required=True)
    chats = commands.add_parser("chats")
    chats.add_argument("pair", type=Path)
    chats.add_argument("server", type=Path, help="llama-server")
    chats.add_argument("model", type=Path, help="a GGUF file of the same weights")
    lines = commands.add_parser("lines")
    lines.add_argument("pair", type=Path)
    lines.add_argument("checkpoint", type=Path, help="that the pair's target was exported from")
    lines.add_argument("--data", type=Path, required=True, help="a line each, up to a tab")
    parser.add_argument("--texts", type=int, default=8, help="at once")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=96, help="of a text, at most")
    parser.add_argument("--repeats", type=int, default=3)
    options, record = begin(parser)
    if options.kind == "chats":
        encoder = edgespec.load(options.pair, threads=1)
        wanted = prompts_for(options.pair)[: options.prompts]
        prompts = [encoder.encode(prompt, True) for prompt in wanted]
        peers = llama_ways(options, prompts)
    else:
        text = options.data.read_text(encoding="utf-8").splitlines()
        prompts = [line.partition("\t")[0] for line in text[: options.prompts]]
        peers = ctranslate2_ways(options, prompts)
    with peers as ways:
        rows = speeds(ways | edgespec_ways(options, prompts), options.repeats)
    best = max(rate for name, rate in rows.items() if not name.startswith("edgespec"))
    for name, rate in rows.items():
        print(f"{name}: {rate:.0f} tokens/s, {rate / best:.2f} of the fastest peer")
    write_result(options, record, rows=rows)


if __name__ == "__main__":
    main()
