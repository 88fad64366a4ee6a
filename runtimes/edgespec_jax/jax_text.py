"""What the compiled loop leaves, as Python objects: the text and its rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["JaxRound", "JaxText", "text_of"]


@dataclass(frozen=True)
class JaxRound:
    """What one target call brought; `edgespec.core.decode.Round` and the proposed tokens."""

    tokens: list[int]
    proposed: list[int]
    evaluated: int
    accepted: int


@dataclass(frozen=True)
class JaxText:
    """Attributes:
    tokens: every emitted token, an end token included.
    rounds: one for each target call.
    """

    tokens: list[int]
    rounds: list[JaxRound]


def text_of(state: Any) -> JaxText:
    """From (text, emitted, rounds, record) of a `jax_state.State`, fetched from the device."""
    text, count, rounds, record = state
    done = 1
    result: list[JaxRound] = []
    for drafts, drafted, evaluated, accepted, emitted in zip(*record, strict=True):
        if len(result) == rounds:
            break
        tokens = [int(token) for token in text[done : done + emitted]]
        proposed = [int(token) for token in drafts[:drafted]]
        result.append(JaxRound(tokens, proposed, int(evaluated), int(accepted)))
        done += int(emitted)
    return JaxText([int(token) for token in text[1 : 1 + count]], result)
