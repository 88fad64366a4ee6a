"""Settings of a tokenizer that would change a text, or take memory and time without end.

A tokenizer is a small program, and Rust ends the process when memory is short. So what it would do
is worked out from its settings, before it reads a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgespec.errors import shortened
from edgespec.pair.foreign.charsmap import check_charsmap

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["check_settings"]

MOST_STEPS = 1000  # of a normalizer or a decoder
MOST_CHARACTERS = 1000  # that come of one, or are put before a text


def check_settings(tokenizer: Tokenizer) -> None:
    """Checks a tokenizer that has read no text yet.

    Raises:
        ValueError: it cuts or pads texts, chooses at random, makes them much longer, or panics at
            some texts.
    """
    for name in ("truncation", "padding"):
        if getattr(tokenizer, name) is not None:
            raise ValueError(f"it has {name}, which changes the text")
    dropout = getattr(tokenizer.model, "dropout", None)
    if dropout:
        raise ValueError(f"its dropout is {dropout}, so a text has other tokens each time")
    for part in (tokenizer.normalizer, tokenizer.decoder):
        if part is not None:
            steps = list(_steps(json.loads(part.__getstate__())))
            if len(steps) > MOST_STEPS:
                raise ValueError(f"it has {len(steps)} steps; the limit is {MOST_STEPS}")
            _check_growth(steps)
            _check_panics(steps)


def _steps(part: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The single steps of a normalizer or a decoder, which may be nested."""
    for name in ("normalizers", "decoders"):
        if name in part:
            for inner in part[name]:
                yield from _steps(inner)
            return
    yield part


def _check_growth(steps: Sequence[Mapping[str, Any]]) -> None:
    """Follows what each step replaces through the steps after it."""
    for index, step in enumerate(steps):
        if step.get("type") == "Prepend":
            _check_length(len(step["prepend"]), step)
        if step.get("type") == "Replace":
            text = step["pattern"].get("String") or "x"
            _check_length(len(text), step)
            limit = MOST_CHARACTERS * len(text)
            for later in steps[index:]:
                if later.get("type") == "Replace":
                    text = _replaced(text, later, limit)


def _check_panics(steps: Sequence[Mapping[str, Any]]) -> None:
    """Looks for what tokenizers reads beyond its end, at texts that may come at any time."""
    for step in steps:
        if step.get("type") == "Precompiled":
            check_charsmap(step["precompiled_charsmap"])
        # A decoder that strips both ends counts the same character twice (tokenizers 0.23).
        if step.get("type") == "Strip" and (
            step.get("stop", 0) > 1 or (step.get("start") and step.get("stop"))
        ):
            raise ValueError(f"its step {shortened(dict(step))} fails at short texts")


def _replaced(text: str, step: Mapping[str, Any], limit: int) -> str:
    """What a step makes of a text; a regular expression is taken to match every character."""
    pattern, content = step["pattern"].get("String"), step["content"]
    if pattern is None:
        length = len(text) * max(1, len(content))
    else:
        length = len(text) + text.count(pattern) * (len(content) - len(pattern))
    if length > limit:
        raise ValueError(
            f"its step {shortened(dict(step))} makes a text {MOST_CHARACTERS} times as long"
        )
    if pattern is not None:
        return text.replace(pattern, content)
    return content * len(text) if len(content) > 1 else text


def _check_length(length: int, step: Mapping[str, Any]) -> None:
    if length > MOST_CHARACTERS:
        raise ValueError(
            f"its step {shortened(dict(step))} has {length} characters; the limit is "
            f"{MOST_CHARACTERS}"
        )
