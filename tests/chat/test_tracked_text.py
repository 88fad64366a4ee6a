"""Claim: a text that is tracked is the same text, and its parts are where its message is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depth import one_in
from edgespec.chat.tracked_text import TrackedText, joined, parts_of, tracked

texts = st.text("ab \n<>é", max_size=8)
separators = st.sampled_from(["a", "ab", "\n", "<>"])

OPERATIONS = {
    "strip": lambda t, s: t.strip(),
    "strip characters": lambda t, s: t.strip(s),
    "lstrip": lambda t, s: t.lstrip("\n"),
    "rstrip": lambda t, s: t.rstrip(),
    "slice": lambda t, s: t[1:-1],
    "slice past the end": lambda t, s: t[2:99],
    "reversed": lambda t, s: t[::-1],
    "split": lambda t, s: t.split(s),
    "split once": lambda t, s: t.split(s, 1),
    "split at spaces": lambda t, s: t.split(),
    "rsplit": lambda t, s: t.rsplit(s, 1),
    "rsplit at spaces": lambda t, s: t.rsplit(None, 1),
    "lines": lambda t, s: t.splitlines(),
    "lines with ends": lambda t, s: t.splitlines(True),
    "partition": lambda t, s: t.partition(s),
    "rpartition": lambda t, s: t.rpartition(s),
    "prefix": lambda t, s: t.removeprefix(s),
    "suffix": lambda t, s: t.removesuffix(s),
    "added": lambda t, s: s + t + s,
    "characters": lambda t, s: list(t),
    "upper": lambda t, s: t.upper(),
    "replace": lambda t, s: t.replace(s, "x"),
    "join": lambda t, s: s.join(t.split(s)),
}
CUTS = set(OPERATIONS) - {"reversed", "upper", "replace", "join"}


def strings(value):
    return [value] if isinstance(value, str) else list(value)


@one_in(2)
@pytest.mark.parametrize("name", OPERATIONS)
@given(before=texts, text=texts, after=texts, separator=separators)
def test_operations_give_what_they_give_for_plain_texts(name, before, text, after, separator):
    whole = joined([before, tracked(text, 3), after])
    found = OPERATIONS[name](whole, separator)
    assert found == OPERATIONS[name](before + text + after, separator)
    if name not in CUTS:
        return
    parts = [(piece, part) for piece in strings(found) for part in parts_of(piece)]
    assert all(part.source == 3 for _, part in parts)
    assert all(piece[part.start : part.end] in text for piece, part in parts)
    kept = sum(part.end - part.start for _, part in parts)
    if name in ("added", "characters", "lines with ends", "partition", "rpartition"):
        assert kept == len(text)


@given(st.lists(st.tuples(texts, st.booleans()), max_size=6), separators)
def test_parts_of_joined_texts_are_those_texts(pieces, separator):
    given_texts = [tracked(t, i) if marked else t for i, (t, marked) in enumerate(pieces)]
    whole = joined(given_texts, separator)
    assert whole == separator.join(t for t, _ in pieces)
    found = [(part.source, whole[part.start : part.end]) for part in parts_of(whole)]
    assert found == [(i, t) for i, (t, marked) in enumerate(pieces) if marked]


def test_an_index_past_the_end_is_an_error():
    with pytest.raises(IndexError):
        tracked("ab", 0)[2]
    assert (tracked("ab", 0)[-1], type(tracked("ab", 0)[0])) == ("b", TrackedText)
