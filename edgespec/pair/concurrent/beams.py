"""Beam search with a pair's target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, cast

from edgespec.errors import EdgespecError, UsageError, check_names, in_checkout, shortened
from edgespec.pair.generation_options import BEAM_DEFAULTS, BeamOptions
from edgespec.scheduler.beam_search import EarlyStopping, beam_search
from edgespec.scheduler.shared_calls import SequenceBatch, SharedModel

if TYPE_CHECKING:
    from edgespec.pair.generation_options import GenerationOptions
    from edgespec.pair.generation_request import GenerationRequest
    from edgespec.pair.prompt import PromptInput
    from edgespec.pair.text_engine import TextEngine

__all__ = ["BeamResult", "BeamSearch"]


MOST_BEAMS = 64


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


class BeamSearch:
    """Beam search with a pair's target.

    Args:
        engine: what makes the pair's texts.
    """

    def __init__(self, engine: TextEngine) -> None:
        self._engine = engine
        self._batch: SequenceBatch | None = None

    def __call__(
        self,
        prompt: PromptInput,
        num_beams: int,
        length_penalty: float,
        early_stopping: EarlyStopping,
        options: BeamOptions,
    ) -> list[BeamResult]:
        """See `Pair.beam_search`."""
        check_names("beam search", options, BEAM_DEFAULTS)
        _check(num_beams, length_penalty, early_stopping)
        request = self._engine.read(prompt, cast("GenerationOptions", options))
        if request.max_new_tokens == 0:
            raise UsageError("max_new_tokens is 0; give a whole number from 1")
        target = self._engine.target
        if not (isinstance(target, SharedModel) and target.shares_calls):
            raise EdgespecError(
                "rows of a call cannot be of several beams here; install the kernels "
                f"({in_checkout('runtimes/kernels')}), or export the pair again"
            )
        with self._engine.parts.occupied():
            beams = beam_search(
                self._beam_batch(target, num_beams),
                request.prompt.tokens,
                beams=num_beams,
                max_new_tokens=request.max_new_tokens or target.capacity,
                last_tokens=request.last_tokens,
                length_penalty=length_penalty,
                early_stopping=early_stopping,
                edit=self._engine.edit(request),
            )
            return [
                BeamResult(
                    self._text(request, beam.tokens), list(beam.tokens), beam.logprob, beam.score
                )
                for beam in beams
            ]

    def _beam_batch(self, target: SharedModel, count: int) -> SequenceBatch:
        """Sequences of the target for so many beams, kept for the next search."""
        if self._batch is None or len(self._batch.sequences) != count:
            self._batch = target.make_batch(count, target.capacity)
        return self._batch

    def _text(self, request: GenerationRequest, tokens: Sequence[int]) -> str:
        text = self._engine.growing_text(request)
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
