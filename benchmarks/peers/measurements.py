"""What compare_chat.py measured: in which order, how it is kept, and what is said of it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """One generation of one way.

    Attributes:
        way: its name.
        beside: the peer's way that ours was run next to, and is compared with; else empty.
        tokens: new ones, without an end-of-text token.
        first_tokens: those that were there after `seconds_prefill`.
    """

    way: str
    beside: str
    tokens: list[int]
    first_tokens: int
    seconds_prefill: float
    seconds_total: float


@dataclass(frozen=True)
class Turn:
    """Every way once, on one prompt; repeat 0 only finds how long the texts are.

    Attributes:
        contest: which ways, at how many bits.
        load: of the machine, before.
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
    """(way, beside) in the order of a turn: ours runs again beside each of the opponents.

    Every other repeat goes backwards, so that ours is as often before an opponent as behind it.
    """
    opponents = set(opponents)
    order: list[tuple[str, str]] = []
    for way in ways:
        order.append((way, ""))
        if way in opponents:
            order.append((ours, way))
    return order if repeat % 2 else order[::-1]


class Log:
    """Turns in a file of JSON lines, complete ones only, so that a run can be taken up again.

    Args:
        path: of the file.
        settings: what must not change between the runs that share a file.

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
            self._keep(Turn(**fields))

    def __iter__(self) -> Iterator[Turn]:
        return iter(self._turns.values())

    def find(self, contest: str, category: str, prompt: int, repeat: int) -> Turn | None:
        return self._turns.get((contest, category, prompt, repeat))

    def add(self, turn: Turn) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(turn)) + "\n")
        self._keep(turn)

    def _keep(self, turn: Turn) -> None:
        """A later turn replaces an earlier one, which had other ways."""
        self._turns[turn.contest, turn.category, turn.prompt, turn.repeat] = turn


def summary(
    turns: Iterable[Turn], plain_of: dict[str, str], our_plain: str
) -> list[dict[str, Any]]:
    """A row for each way and category of one contest.

    Speeds are medians over the repeats of tokens over seconds of all the category's prompts; a
    ratio is the median of the repeats' ratios, each of two runs side by side.

    Args:
        turns: of one contest, repeat 0 not among them.
        plain_of: to each way, the way of the same model that does not speculate.
        our_plain: our way that does not speculate.
    """
    runs: dict[tuple[str, str], dict[int, list[Measurement]]] = defaultdict(dict)
    besides: dict[tuple[str, str], dict[int, list[Measurement]]] = defaultdict(dict)
    texts: dict[tuple[str, int, str], list[int]] = {}
    for turn in turns:
        for one in turn.measurements:
            if one.beside:
                besides[turn.category, one.beside].setdefault(turn.repeat, []).append(one)
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
            "tokens_per_second": median(map(_whole, repeats.values())),
            "decode_tokens_per_second": median(map(_decode, repeats.values())),
            "texts": len(prompts),
            "texts_equal_to_own_plain": sum(
                texts[category, p, way] == texts.get((category, p, plain_of[way])) for p in prompts
            ),
            "tokens_in_common_with_our_plain": sum(
                _common(texts[category, p, way], texts.get((category, p, our_plain), []))
                for p in prompts
            ),
        }
        if beside := besides.get((category, way)):
            shared = sorted(repeats.keys() & beside.keys())
            row["ours_over_it"] = median(_whole(beside[r]) / _whole(repeats[r]) for r in shared)
            row["ours_over_it_decode"] = median(
                _decode(beside[r]) / _decode(repeats[r]) for r in shared
            )
        rows.append(row)
    return rows


def _whole(runs: Sequence[Measurement]) -> float:
    return sum(len(one.tokens) for one in runs) / sum(one.seconds_total for one in runs)


def _decode(runs: Sequence[Measurement]) -> float:
    """Without the prompt: tokens behind the first, over the time behind it."""
    tokens = sum(len(one.tokens) - one.first_tokens for one in runs)
    return tokens / sum(one.seconds_total - one.seconds_prefill for one in runs)


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common beginning."""
    different = (place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return next(different, min(len(a), len(b)))
