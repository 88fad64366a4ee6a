"""The measurements of compare_chat.py: their order, their log and their summary."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

ALL = "all"


@dataclass(frozen=True)
class Measurement:
    """One generation by one way.

    Attributes:
        way: its name.
        opponent: the peer's way that this run of edgespec is compared with; else empty.
        tokens: the new token ids, without an end-of-text token.
        first_tokens: how many of them existed after `seconds_prefill`.
    """

    way: str
    opponent: str
    tokens: list[int]
    first_tokens: int
    seconds_prefill: float
    seconds_total: float


@dataclass(frozen=True)
class Turn:
    """Every way once, on one prompt. Repeat 0 only finds the lengths of the texts.

    Attributes:
        contest: its name, which says the number of bits.
        load: of the machine, before the turn.
    """

    contest: str
    category: str
    prompt: int
    repeat: int
    load: float
    measurements: list[Measurement]


def interleaved(
    ways: Sequence[str], opponents: Iterable[str], ours: str, repeat: int
) -> list[tuple[str, str]]:
    """The order of a turn as (way, opponent): `ours` runs again next to each opponent.

    Every other repeat is reversed, so `ours` is as often before an opponent as after it.
    """
    opponents = set(opponents)
    order: list[tuple[str, str]] = []
    for way in ways:
        order.append((way, ""))
        if way in opponents:
            order.append((ours, way))
    return order if repeat % 2 else order[::-1]


class Log:
    """Complete turns in a file of JSON lines, so that a stopped run can continue.

    Args:
        path: the file.
        settings: must be equal in all runs that share a file.

    Raises:
        ValueError: the file was measured with other settings.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self._path = path
        self._turns: dict[tuple[str, str, int, int], Turn] = {}
        if not path.exists():
            path.write_text(json.dumps(settings) + "\n", encoding="utf-8")
        lines = path.read_text(encoding="utf-8").splitlines()
        if json.loads(lines[0]) != settings:
            raise ValueError(f"{path} was measured with {lines[0]}; give --fresh to start again")
        for line in lines[1:]:
            fields = json.loads(line)
            fields["measurements"] = [Measurement(**each) for each in fields["measurements"]]
            self._store(Turn(**fields))

    def __iter__(self) -> Iterator[Turn]:
        return iter(self._turns.values())

    def find(self, contest: str, category: str, prompt: int, repeat: int) -> Turn | None:
        return self._turns.get((contest, category, prompt, repeat))

    def add(self, turn: Turn) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(turn)) + "\n")
        self._store(turn)

    def _store(self, turn: Turn) -> None:
        """A later turn replaces an earlier one, which had fewer ways."""
        self._turns[turn.contest, turn.category, turn.prompt, turn.repeat] = turn


def together(turns: Iterable[Turn]) -> list[Turn]:
    """The turns of all categories as one category, with the prompts numbered anew."""
    numbers: dict[tuple[str, int], int] = {}
    return [
        replace(
            turn,
            category=ALL,
            prompt=numbers.setdefault((turn.category, turn.prompt), len(numbers)),
        )
        for turn in turns
    ]


def summary(
    turns: Iterable[Turn], plain_of: dict[str, str], our_plain: str
) -> list[dict[str, Any]]:
    """A row for each way and category of one contest.

    A speed is the tokens of all the category's prompts over their seconds, median over the repeats.
    A ratio is that of two neighbouring runs, median over the repeats.

    Args:
        turns: of one contest, without repeat 0.
        plain_of: by way, the same model's way without speculation.
        our_plain: edgespec's way without speculation.
    """
    runs: dict[tuple[str, str], dict[int, list[Measurement]]] = defaultdict(dict)
    compared: dict[tuple[str, str], dict[int, list[Measurement]]] = defaultdict(dict)
    texts: dict[tuple[str, int, str], list[int]] = {}
    for turn in turns:
        for one in turn.measurements:
            if one.opponent:
                compared[turn.category, one.opponent].setdefault(turn.repeat, []).append(one)
            else:
                runs[turn.category, one.way].setdefault(turn.repeat, []).append(one)
                texts[turn.category, turn.prompt, one.way] = one.tokens
    rows = []
    for (category, way), repeats in runs.items():
        prompts = [p for c, p, w in texts if (c, w) == (category, way)]
        row: dict[str, Any] = {
            "prompts": category,
            "way": way,
            "repeats": len(repeats),
            "tokens": sum(len(one.tokens) for one in next(iter(repeats.values()))),
            "tokens_per_second": median(map(_speed, repeats.values())),
            "first_token_seconds": median(map(_first_token_seconds, repeats.values())),
            "decode_tokens_per_second": median(map(_decode_speed, repeats.values())),
            "texts": len(prompts),
            "texts_equal_to_own_plain": sum(
                texts[category, p, way] == texts.get((category, p, plain_of[way])) for p in prompts
            ),
            "tokens_in_common_with_our_plain": sum(
                _common(texts[category, p, way], texts.get((category, p, our_plain), []))
                for p in prompts
            ),
        }
        if ours := compared.get((category, way)):
            shared = sorted(repeats.keys() & ours.keys())
            row["ours_over_it"] = median(_speed(ours[r]) / _speed(repeats[r]) for r in shared)
            row["ours_over_it_decode"] = median(
                _decode_speed(ours[r]) / _decode_speed(repeats[r]) for r in shared
            )
            row["its_first_token_over_ours"] = median(
                _first_token_seconds(repeats[r]) / _first_token_seconds(ours[r]) for r in shared
            )
        rows.append(row)
    return rows


def fastest_opponents(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """For each category, the opponents with the smallest ratios in our favour.

    Args:
        rows: of `summary`.

    Returns:
        By category, "whole generation" and "first token", each with the way and the ratio.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    compared = [row for row in rows if "ours_over_it" in row]
    for category in dict.fromkeys(row["prompts"] for row in compared):
        of_category = [row for row in compared if row["prompts"] == category]
        found[category] = {
            what: _smallest(of_category, key)
            for what, key in (
                ("whole generation", "ours_over_it"),
                ("first token", "its_first_token_over_ours"),
            )
        }
    return found


def _smallest(rows: Sequence[dict[str, Any]], key: str) -> dict[str, Any]:
    row = min(rows, key=lambda row: row[key])
    return {"way": row["way"], "ratio": row[key]}


def _speed(runs: Sequence[Measurement]) -> float:
    """Tokens per second of whole generations."""
    return sum(len(one.tokens) for one in runs) / sum(one.seconds_total for one in runs)


def _decode_speed(runs: Sequence[Measurement]) -> float:
    """Tokens after the first ones per second of the time after them."""
    tokens = sum(len(one.tokens) - one.first_tokens for one in runs)
    return tokens / sum(one.seconds_total - one.seconds_prefill for one in runs)


def _first_token_seconds(runs: Sequence[Measurement]) -> float:
    """Mean time to the first token, with the prompt."""
    return sum(one.seconds_prefill for one in runs) / len(runs)


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common prefix."""
    different = (index for index, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return next(different, min(len(a), len(b)))
