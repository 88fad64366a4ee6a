"""The scores of a given text: nothing is generated."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from edgespec.artifact.chat_format import check_text
from edgespec.core.decode import Loop
from edgespec.core.given_text import score_given
from edgespec.errors import UsageError
from edgespec.pair.logprobs import check_top_logprobs
from edgespec.pair.prompt import Prompt, PromptInput
from edgespec.pair.scoring.prompt_scoring import check_fits, then
from edgespec.pair.scoring.text_scores import TextScores, begun_scores, text_starts
from edgespec.pair.text_engine import TextEngine

__all__ = ["scored_text"]


def scored_text(
    engine: TextEngine,
    text: str | Sequence[int],
    prompt: PromptInput | None,
    chat: bool | None,
    top: int,
) -> TextScores:
    """See `Pair.score`."""
    check_top_logprobs(top)
    reads_prompt = engine.parts.manifest.target.is_encoder_decoder
    if prompt is None and reads_prompt:
        raise UsageError("this model's encoder reads a prompt before it writes; give prompt=…")
    before, tokens = _split(engine, text, prompt, chat)
    first: list[int] = []
    if not before.tokens:
        first, tokens = tokens[:1], tokens[1:]
        before = Prompt(first)
    check_fits(engine.target, [tokens] if reads_prompt else [before.tokens, tokens])
    written, starts = text_starts(engine.parts.tokenizer, [*first, *tokens])
    scores = begun_scores(written, first, starts)
    take = partial(scores.add, top=top)
    scoring = score_given(
        engine.target, before.tokens, tokens, take, assistant_spans=before.assistant_spans
    )
    with engine.occupied():
        rounds, _ = engine.drive(then(scoring, _no_text()))
        for _ in rounds:
            pass
    return scores


def _split(
    engine: TextEngine, text: str | Sequence[int], prompt: PromptInput | None, chat: bool | None
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
        isinstance(prompt, str)
        and not engine.encoder.adds_chat(chat)
        and not engine.parts.manifest.target.is_encoder_decoder
    )
    if joined:
        tokens = _encode(engine, f"{prompt}{text}")
        count = min(len(before.tokens), len(tokens) - 1)
        return Prompt(tokens[:count]), tokens[count:]
    return before, engine.encoder.text_alone(text)


def _encode(engine: TextEngine, text: str | Sequence[int]) -> list[int]:
    return engine.encoder(text, False, what="the text").tokens


def _given(engine: TextEngine, prompt: PromptInput, chat: bool | None) -> Prompt:
    """The prompt, with a conversation's earlier answers where these can be computed again."""
    given = engine.encoder(prompt, chat)
    return given if engine.drafting.exact else Prompt(given.tokens)


def _no_text() -> Loop:
    yield from ()
