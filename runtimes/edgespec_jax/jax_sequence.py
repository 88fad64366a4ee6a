"""The compiled loop's results as Python objects: the text and its rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["JaxRound", "JaxSequence", "sequence_of"]


@dataclass(frozen=True)
class JaxRound:
    """The result of one target call: `edgespec.core.decode.Round` and the proposed tokens."""

    tokens: list[int]
    proposed: list[int]
    evaluated: int
    accepted: int


@dataclass(frozen=True)
class JaxSequence:
    """A decoded text.

    Attributes:
        tokens: every emitted token, including an end token.
        rounds: one for each target call.
    """

    tokens: list[int]
    rounds: list[JaxRound]


def sequence_of(state: Any) -> JaxSequence:
    """Reads (text, emitted, rounds, record) of a `jax_state.State`, copied from the device."""
    sequence, count, rounds, record = state
    done = 1
    result: list[JaxRound] = []
    for drafts, drafted, evaluated, accepted, emitted in zip(*record, strict=True):
        if len(result) == rounds:
            break
        tokens = [int(token) for token in sequence[done : done + emitted]]
        proposed = [int(token) for token in drafts[:drafted]]
        result.append(JaxRound(tokens, proposed, int(evaluated), int(accepted)))
        done += int(emitted)
    return JaxSequence([int(token) for token in sequence[1 : 1 + count]], result)
