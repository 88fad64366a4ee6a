"""Scores of given texts, as loops of a pair's target."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from edgespec.artifact.chat_format import check_text
from edgespec.core.asks import Asking
from edgespec.core.decode import Loop
from edgespec.core.given_text import score_given
from edgespec.errors import UsageError, shortened
from edgespec.pair.prompt import Prompt, PromptInput
from edgespec.pair.text_scores import TextScores, begun_scores, text_starts

if TYPE_CHECKING:
    from edgespec.pair.generation_request import GenerationRequest
    from edgespec.pair.text_engine import TextEngine

__all__ = ["prompt_scoring", "scored_text"]


def prompt_scoring(
    engine: TextEngine, request: GenerationRequest, loop: Loop
) -> tuple[TextScores, Loop]:
    """The scores of a prompt, which the returned loop fills in before it goes on with `loop`.

    Raises:
        UsageError: an encoder reads the prompt, or it does not fit the cache.
    """
    if engine.parts.manifest.target.is_encoder_decoder:
        raise UsageError(
            "this model's encoder reads the prompt as a whole, so its tokens have no scores; give "
            "it as the prompt of a text to be scored"
        )
    given, top = request.prompt, request.top_logprobs or 0
    _check(engine, [given.tokens])
    text, starts = text_starts(engine.parts.tokenizer, given.tokens)
    first, rest = given.tokens[:1], given.tokens[1:]
    scores = begun_scores(text, first, given.starts or starts)
    return scores, _then(
        score_given(engine.target, first, rest, partial(scores.add, top=top)), loop
    )


def _then(scoring: Asking[None], loop: Loop) -> Loop:
    yield from scoring
    yield from loop


def scored_text(
    engine: TextEngine, text: str | Sequence[int], prompt: PromptInput | None, chat: bool, top: int
) -> TextScores:
    """See `Pair.score`."""
    reads_prompt = engine.parts.manifest.target.is_encoder_decoder
    if prompt is None and reads_prompt:
        raise UsageError("this model's encoder reads a prompt before it writes; give prompt=…")
    before, tokens = _split(engine, text, prompt, chat)
    first: list[int] = []
    if not before.tokens:
        first, tokens = tokens[:1], tokens[1:]
        before = Prompt(first)
    _check(engine, [tokens] if reads_prompt else [before.tokens, tokens])
    written, starts = text_starts(engine.parts.tokenizer, [*first, *tokens])
    scores = begun_scores(written, first, starts)
    take = partial(scores.add, top=top)
    scoring = score_given(engine.target, before.tokens, tokens, take, answers=before.answers)
    rounds, _ = engine.drive(_then(scoring, _no_text()))
    for _ in rounds:
        pass
    return scores


def _split(
    engine: TextEngine, text: str | Sequence[int], prompt: PromptInput | None, chat: bool
) -> tuple[Prompt, list[int]]:
    """The prompt and the tokens of the text. Where both are plain texts they are encoded together:
    a token may begin with the space between them."""
    if prompt is None:
        return Prompt([]), _encode(engine, text)
    before = _given(engine, prompt, chat)
    if not isinstance(text, str):
        return before, _encode(engine, text)
    check_text(text, "the text")
    joined = (
        isinstance(prompt, str) and not chat and not engine.parts.manifest.target.is_encoder_decoder
    )
    if joined:
        tokens = _encode(engine, f"{prompt}{text}")
        count = min(len(before.tokens), len(tokens) - 1)
        return Prompt(tokens[:count]), tokens[count:]
    encoding = engine.parts.tokenizer.encode_batch([text], add_special_tokens=False)[0]
    return before, list(encoding.ids)


def _encode(engine: TextEngine, text: str | Sequence[int]) -> list[int]:
    return engine.encoder(text, False).tokens


def _given(engine: TextEngine, prompt: PromptInput, chat: bool) -> Prompt:
    """The prompt, with a conversation's earlier answers where these can be computed again."""
    given = engine.encoder(prompt, chat)
    return given if engine.drafting.exact else Prompt(given.tokens)


def _check(engine: TextEngine, parts: Sequence[Sequence[int]]) -> None:
    """Raises UsageError unless the parts of a text are tokens and fit the cache."""
    count = sum(map(len, parts))
    if count > engine.target.capacity:
        raise UsageError(
            f"the text has {count} tokens with what comes before it, and the cache holds "
            f"{engine.target.capacity}; give less"
        )
    for token in chain.from_iterable(parts):
        if not 0 <= token < engine.target.vocab_size:
            raise UsageError(
                f"the text has the token {shortened(token)}; this model's are 0 to "
                f"{engine.target.vocab_size - 1}"
            )


def _no_text() -> Loop:
    yield from ()
