"""Beam search with a pair's target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING

from edgespec.core.logit_edits import LogitEdits
from edgespec.errors import EdgespecError, UsageError, shortened
from edgespec.pair.tokenizer import GrowingText
from edgespec.scheduler.beam_search import EarlyStopping, beam_search
from edgespec.scheduler.shared_calls import SharedModel

if TYPE_CHECKING:
    from edgespec.pair.pair import Pair

__all__ = ["BeamResult", "searched"]


@dataclass(frozen=True)
class BeamResult:
    """A text that beam search found.

    Attributes:
        text: without special tokens.
        token_ids: an end-of-text token included.
        logprob: log of the text's probability under the target.
        score: logprob / tokens^length_penalty.
    """

    text: str
    token_ids: list[int]
    logprob: float
    score: float


def searched(
    pair: Pair,
    prompt: Sequence[int],
    edits: LogitEdits,
    num_beams: int,
    max_new_tokens: int | None,
    length_penalty: float,
    early_stopping: EarlyStopping,
) -> list[BeamResult]:
    """See `Pair.beam_search`."""
    _check(num_beams, length_penalty, early_stopping)
    target = pair.target
    if not (isinstance(target, SharedModel) and target.shares_calls):
        raise EdgespecError(
            "rows of a call cannot be of several beams here; install the kernels "
            "(pip install 'edgespec[fast]'), or export the pair again"
        )
    last_tokens = pair.manifest.eos_token_ids
    repeated = () if pair.manifest.target.is_encoder_decoder else prompt
    beams = beam_search(
        pair.beam_texts(num_beams),
        prompt,
        beams=num_beams,
        max_new_tokens=target.capacity if max_new_tokens is None else max_new_tokens,
        last_tokens=last_tokens,
        length_penalty=length_penalty,
        early_stopping=early_stopping,
        edit=edits.edit(repeated, last_tokens, target.vocab_size),
    )
    return [
        BeamResult(_text(pair, beam.tokens), list(beam.tokens), beam.logprob, beam.score)
        for beam in beams
    ]


def _text(pair: Pair, tokens: Sequence[int]) -> str:
    text = GrowingText(pair.tokenizer)
    return "".join([*map(text.add, tokens), text.end()])


def _check(num_beams: object, length_penalty: object, early_stopping: object) -> None:
    whole = isinstance(num_beams, Integral) and not isinstance(num_beams, bool)
    if not (whole and 1 <= int(num_beams) <= MOST_BEAMS):  # type: ignore[call-overload]
        value = shortened(num_beams)
        raise UsageError(f"num_beams is {value}; give a whole number from 1 to {MOST_BEAMS}")
    if not isinstance(length_penalty, Real) or isinstance(length_penalty, bool):
        raise UsageError(f"length_penalty is {shortened(length_penalty)}; give a number")
    if not (isinstance(early_stopping, bool) or early_stopping == "never"):
        raise UsageError(
            f"early_stopping is {shortened(early_stopping)}; give True, False or 'never'"
        )


MOST_BEAMS = 64
