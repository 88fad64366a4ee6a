"""The checks: the same prompts again, together, in calls of another length, by another program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from edgespec.audit.answerers import Answerer

__all__ = ["Finding", "audited", "first_difference"]

Text = Sequence[str]  # pieces


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: "repeat", "neighbours", "length of a call" or "other".
        texts: compared pairs of texts.
        differ: how many of them differ.
        first: of each text that differs, how many pieces (tokens, where each came alone) the two
            have in common at their beginning.
        example: the prompt of the first such text, and the two texts from there on.
    """

    check: str
    texts: int
    differ: int
    first: tuple[int, ...]
    example: Mapping[str, str] | None

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def first_difference(one: Text, other: Text) -> int | None:
    """How many pieces of `one` begin `other`, too; None where the texts are equal."""
    left, right = "".join(one), "".join(other)
    if left == right:
        return None
    common = next(
        (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b),
        min(len(left), len(right)),
    )
    pieces, length = 0, 0
    for piece in one:
        length += len(piece)
        if length > common:
            break
        pieces += 1
    return pieces


def audited(
    answerer: Answerer,
    prompts: Sequence[str],
    *,
    other: Answerer | None = None,
    neighbours: int = 4,
    continues: bool = True,
    said: Callable[[str], None] = lambda line: None,
) -> list[Finding]:
    """Runs all checks.

    Args:
        other: makes texts in another way, such as without speculation; None for no such check.
        neighbours: prompts that are asked at once; below 2, none are.
        continues: a prompt may be a text that is gone on with.
        said: is told what runs.

    Raises:
        EdgespecError: there is no text.
    """
    said(f"{len(prompts)} texts, each alone")
    alone = [answerer(prompt) for prompt in prompts]
    said("again")
    findings = [_finding("repeat", prompts, alone, [answerer(prompt) for prompt in prompts])]
    if neighbours > 1:
        said(f"{neighbours} at once")
        with ThreadPoolExecutor(neighbours) as pool:
            together = list(pool.map(answerer, prompts))
        findings.append(_finding("neighbours", prompts, alone, together))
    if continues:
        said("from their middle, where the beginning is read in one call")
        halves = [_halves(text) for text in alone]
        starts = [prompt + half for prompt, (half, _) in zip(prompts, halves, strict=True)]
        ends = [rest for _, rest in halves]
        again = [
            _cut(answerer(start), "".join(end)) for start, end in zip(starts, ends, strict=True)
        ]
        findings.append(_finding("length of a call", starts, ends, again))
    if other is not None:
        said(f"by {other.name}")
        findings.append(_finding("other", prompts, alone, [other(prompt) for prompt in prompts]))
    return findings


def _halves(text: Text) -> tuple[str, Text]:
    """A text's beginning, and its pieces from one on that begins a word: tokens do not cross it."""
    middle = len(text) // 2
    cut = next((i for i in range(middle, len(text)) if text[i][:1].isspace()), middle)
    return "".join(text[:cut]), text[cut:]


def _cut(text: Text, like: str) -> Text:
    """A text that was gone on with is longer than the one that it is compared with."""
    return ["".join(text)[: len(like)]]


def _finding(
    check: str, prompts: Sequence[str], ones: Sequence[Text], others: Sequence[Text]
) -> Finding:
    found = [first_difference(one, other) for one, other in zip(ones, others, strict=True)]
    differing = [number for number, first in enumerate(found) if first is not None]
    example: dict[str, str] | None = None
    if differing:
        number = differing[0]
        begin = len("".join(ones[number][: found[number]]))
        example = {
            "prompt": prompts[number],
            "one": "".join(ones[number])[begin : begin + 60],
            "other": "".join(others[number])[begin : begin + 60],
        }
    first = tuple(first for first in found if first is not None)
    return Finding(check, len(prompts), len(differing), first, example)
