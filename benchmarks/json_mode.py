"""What a grammar costs: JSON answers against free ones, greedy, by the time of a token.

    python benchmarks/json_mode.py build/smollm2

Each question is answered freely, as a JSON string, as any JSON object, and by a schema that forces
much, in turn and several times; the last also with other keys in each answer, so that none was ever
spelled before. `process` is the time that the process computed, in all threads, `wall` the time
that passed; the former says more where other programs run. Both are of whole generations. Plain
decoding shows the cost of the mask, the default draft what forced tokens save.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import edgespec
from edgespec.core.decode import Loop, Round
from edgespec.core.requests import Score, TopScore
from record import begin, write_result
from same_texts import prompts_for

RECORD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "classification_of_the_question": {"enum": ["science", "history", "everyday life"]},
        "difficulty_of_the_question": {"enum": ["easy", "medium", "hard"]},
        "short_answer_to_the_question": {"type": "string", "maxLength": 80},
        "is_the_answer_certain": {"type": "boolean"},
    },
    "required": [
        "classification_of_the_question",
        "difficulty_of_the_question",
        "short_answer_to_the_question",
        "is_the_answer_certain",
    ],
    "additionalProperties": False,
}
PARAGRAPH = {"type": "string", "minLength": 200, "maxLength": 400}


def with_new_keys(schemas: Iterator[int]) -> dict[str, Any]:
    """`RECORD` with a number in its keys that none had before."""
    number = next(schemas)
    named = {f"{key}_{number}": value for key, value in RECORD["properties"].items()}
    return {**RECORD, "properties": named, "required": list(named)}


# The schema of an answer; it is made for each one.
ANSWERS: dict[str, Callable[[], Any]] = {
    "free": lambda: None,
    "a JSON string": lambda: PARAGRAPH,
    "any JSON object": lambda: {"type": "object"},
    "a schema that forces much": lambda: RECORD,
    "the same with new keys": partial(with_new_keys, count(100_000, 7919)),
}
DRAFTING: dict[str, dict[str, Any]] = {"plain": {"draft": False}, "default draft": {}}


class RequestCounts:
    """Drives a pair's loops and counts what they ask of the target."""

    def __init__(self, pair: edgespec.Pair) -> None:
        self.arg_max = self.rows = 0
        self._target = pair.target
        pair.text_engine.drive = lambda loop: (self.rounds(loop), None)

    def rounds(self, loop: Loop) -> Any:
        answer: Any = None
        while True:
            try:
                event = loop.send(answer)
            except StopIteration:
                return
            answer = None
            if isinstance(event, Round):
                yield event
                continue
            if event.model is self._target:
                self.arg_max += isinstance(event, TopScore)
                self.rows += isinstance(event, Score)
            answer = event.compute()


def compared(
    pair: edgespec.Pair, counts: RequestCounts, prompts: Sequence[str], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """A row for each way to draft and each kind of answer."""
    rows = []
    for drafting, drafts in DRAFTING.items():
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ANSWERS}
        asked = {name: [0, 0, 0] for name in ANSWERS}
        for _ in range(options.repeats):
            for name, schema_of in ANSWERS.items():
                before = counts.arg_max, counts.rows
                process, wall = time.process_time(), time.perf_counter()
                tokens = 0
                for prompt in prompts:
                    schema = schema_of()
                    grammar = {} if schema is None else {"grammar": edgespec.json_schema(schema)}
                    result = pair.generate(
                        prompt, chat=True, max_new_tokens=options.tokens, **grammar, **drafts
                    )
                    tokens += len(result.token_ids)
                times = time.process_time() - process, time.perf_counter() - wall
                found[name].append((1000 * times[0] / tokens, 1000 * times[1] / tokens))
                asked[name] = [counts.arg_max - before[0], counts.rows - before[1], tokens]
        free = {kind: median(times[kind] for times in found["free"]) for kind in (0, 1)}
        for name, times in found.items():
            ms = [median(one[kind] for one in times) for kind in (0, 1)]
            arg_max, whole, tokens = asked[name]
            rows.append(
                {
                    "drafting": drafting,
                    "answer": name,
                    "process ms a token": ms[0],
                    "wall ms a token": ms[1],
                    "process, times free": ms[0] / free[0],
                    "wall, times free": ms[1] / free[1],
                    "tokens": tokens,
                    "calls for the arg-max": arg_max,
                    "calls for whole rows": whole,
                }
            )
            print(
                f"{drafting:14} {name:26} {ms[0]:6.2f} ms process, {ms[1]:6.2f} ms wall: "
                f"{ms[0] / free[0]:.3f} and {ms[1] / free[1]:.3f} times free; {tokens} tokens, "
                f"{arg_max} calls for the arg-max, {whole} for whole rows",
                flush=True,
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pair", type=Path)
    parser.add_argument("--prompts", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=96, help="of a text, at most")
    parser.add_argument("--repeats", type=int, default=5)
    options, record = begin(parser)
    pair = edgespec.load(options.pair, threads=options.threads)
    counts = RequestCounts(pair)
    prompts = prompts_for(options.pair)[: options.prompts]
    pair.generate(prompts[0], chat=True, max_new_tokens=2, grammar=edgespec.json_schema({}))
    write_result(options, record, rows=compared(pair, counts, prompts, options))


if __name__ == "__main__":
    main()
