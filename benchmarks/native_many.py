"""Several texts at once in libedgespec beside Python's batch of the same pair: tokens a second.

    python benchmarks/native_many.py build/smollm2 --target-format int8 --texts 16

Needs `make native` and a quiet machine. Both make the same prompts of `same_texts.py`, so many at
once, greedily and sampled, plainly and with a draft of as many tokens as pay, in turns, so drift
of the machine affects both; their texts are compared, and each prompt's with a session's. Where the
machine is not quiet, times of the processor say more than those of the clock, with one thread.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import edgespec
from in_turns import Texts, compared
from record import begin, write_result
from same_texts import prompts_for

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
native_library = import_module("native_library")  # the same binding that the tests use

PYTHON: dict[str, dict[str, Any]] = {
    "plain": {"draft": False},
    "model": {"draft": "model"},
    "default": {},
}
NATIVE: dict[str, dict[str, Any]] = {"plain": {"draft": 0}, "model": {"draft": 1}, "default": {}}
SAMPLING: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampled": {"temperature": 0.8, "top_p": 0.95},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pair", type=Path)
    parser.add_argument("--target-format")
    parser.add_argument("--texts", type=int, default=16, help="at once")
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=96, help="of a text, at most")
    parser.add_argument("--rounds", type=int, default=5)
    options, record = begin(parser)
    pair = edgespec.load(options.pair, threads=options.threads, target_format=options.target_format)
    given = {"target_format": options.target_format} if options.target_format else {}
    model = native_library.NativeModel(options.pair, threads=options.threads, **given)
    prompts = [
        pair.tokenizer.encode(text).ids for text in prompts_for(options.pair)[: options.prompts]
    ]
    rows = {}
    for sampling, values in SAMPLING.items():
        for way in PYTHON:
            common = {"max_new_tokens": options.tokens, **values}
            rows[f"{sampling}, {way}"] = row = compared(
                lambda way=way, common=common: python_texts(
                    pair, prompts, options.texts, {**PYTHON[way], **common}
                ),
                lambda way=way, common=common: native_texts(
                    model, prompts, options.texts, {**NATIVE[way], **common}
                ),
                options.rounds,
            )
            print(f"{sampling}, {way}: {json.dumps(row)}", flush=True)
    session = model.session()
    alone = [session.text(one, draft=0, max_new_tokens=options.tokens) for one in prompts]
    together = native_texts(model, prompts, options.texts, {"max_new_tokens": options.tokens})
    if alone != together:
        sys.exit("the texts of a batch are not those of a session")
    write_result(options, record, rows=rows)


def python_texts(pair: edgespec.Pair, prompts: Texts, texts: int, given: dict[str, Any]) -> Texts:
    return [one.token_ids for one in pair.generate_many(prompts, texts=texts, seed=0, **given)]


def native_texts(model: Any, prompts: Texts, texts: int, given: dict[str, Any]) -> Texts:
    """Each text is added as soon as there is a place for it, as Python does."""
    batch, added = model.batch(texts), 0
    live = 0
    while live or added < len(prompts):
        while live < texts and added < len(prompts):
            batch.add(prompts[added], seed=added, **given)
            added, live = added + 1, live + 1
        number = batch.next()
        live -= bool(batch.made[number].ending)
    batch.close()
    return [batch.made[number].tokens for number in range(len(prompts))]


if __name__ == "__main__":
    main()
