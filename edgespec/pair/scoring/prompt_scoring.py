"""The scores of a prompt whose text is generated, in the same loop."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain

from edgespec.core.decode import Loop
from edgespec.core.given_text import score_given
from edgespec.core.model import Model
from edgespec.core.requests import Requests
from edgespec.errors import UsageError, shortened
from edgespec.pair.generation_request import GenerationRequest
from edgespec.pair.parts import PairParts
from edgespec.pair.scoring.text_scores import TextScores, begun_scores, text_starts

__all__ = ["check_fits", "prompt_scoring", "then"]


def prompt_scoring(
    parts: PairParts, target: Model, request: GenerationRequest, loop: Loop
) -> tuple[TextScores, Loop]:
    """The scores of a prompt, which the returned loop fills in before it goes on with `loop`.

    Raises:
        UsageError: an encoder reads the prompt, or it does not fit the cache.
    """
    if parts.manifest.target.is_encoder_decoder:
        raise UsageError(
            "this model's encoder reads the prompt as a whole, so its tokens have no scores; give "
            "it as the prompt of a text to be scored"
        )
    given, top = request.prompt, request.top_logprobs or 0
    check_fits(target, [given.tokens])
    text, starts = text_starts(parts.tokenizer, given.tokens)
    first, rest = given.tokens[:1], given.tokens[1:]
    scores = begun_scores(text, first, given.starts or starts)
    return scores, then(score_given(target, first, rest, partial(scores.add, top=top)), loop)


def then(scoring: Requests[None], loop: Loop) -> Loop:
    """A loop that scores a given text before it goes on."""
    yield from scoring
    yield from loop


def check_fits(target: Model, parts: Sequence[Sequence[int]]) -> None:
    """Raises UsageError unless the parts of a text are tokens and fit the cache."""
    count = sum(map(len, parts))
    if count > target.capacity:
        raise UsageError(
            f"the text has {count} tokens with what comes before it, and the cache holds "
            f"{target.capacity}; give less"
        )
    for token in chain.from_iterable(parts):
        if not 0 <= token < target.vocab_size:
            raise UsageError(
                f"the text has the token {shortened(token)}; this model's are 0 to "
                f"{target.vocab_size - 1}"
            )
