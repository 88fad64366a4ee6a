"""OpenAI's answers, whole and streamed: the texts of a request as JSON."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

from edgespec.openai.json_value import JsonObject, JsonValue
from edgespec.openai.openai_calls import AnswerCalls
from edgespec.openai.openai_logprobs import TokenLogprobs, TokenTexts, chat_logprobs, text_logprobs
from edgespec.pair.generation import Chunk, Generation
from edgespec.pair.scoring.text_scores import TextScores
from edgespec.tools.answer_reader import AnswerForm

__all__ = ["Answer", "draft_counts"]


class Answer:
    """The JSON objects that answer one request; all have the same id.

    Args:
        model: the model's name.
        is_chat: the objects are those of chat completions.
        texts: of single tokens, for their log-probabilities.
        form: what the texts may have in them.
        n: number of texts of each prompt.
        echoes: of each prompt the text that comes before its texts in the answer, perhaps empty.
    """

    def __init__(
        self,
        model: str,
        is_chat: bool,
        texts: TokenTexts,
        form: AnswerForm | None = None,
        n: int = 1,
        echoes: Sequence[str] = ("",),
    ) -> None:
        self._choices = [
            _Choice(index, is_chat, texts, form or AnswerForm(), echo)
            for index, echo in enumerate(echo for echo in echoes for _ in range(n))
        ]
        self._n = n
        self._kind = "chat.completion" if is_chat else "text_completion"
        self._event_kind = f"{self._kind}.chunk" if is_chat else self._kind
        self._common: JsonObject = {
            "id": f"{'chatcmpl' if is_chat else 'cmpl'}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": model,
        }

    def whole(self, results: Sequence[Generation]) -> JsonObject:
        """The answer in one object."""
        choices = zip(self._choices, results, strict=True)
        return {
            "object": self._kind,
            **self._common,
            "choices": [choice.whole(result) for choice, result in choices],
            "usage": _usage(results, self._n),
        }

    def begin(self, number: int, result: Generation) -> JsonObject:
        """The first event of a text, before any of it but an echoed prompt."""
        return self._event([self._choices[number].begin(result)])

    def piece(self, number: int, chunk: Chunk) -> JsonObject | None:
        """An event with more of a text; None if there is nothing to report yet, as while a
        character or the beginning of a call may be unfinished."""
        choice = self._choices[number].piece(chunk)
        return None if choice is None else self._event([choice])

    def end(self, number: int, result: Generation) -> JsonObject:
        """The event after a text, with the reason for its end."""
        return self._event([self._choices[number].end(result)])

    def counts(self, results: Sequence[Generation]) -> JsonObject:
        """The event after the end, if the request asks for the number of tokens."""
        return {**self._event([]), "usage": _usage(results, self._n)}

    def _event(self, choices: Sequence[JsonObject]) -> JsonObject:
        return {"object": self._event_kind, **self._common, "choices": choices}


class _Choice:
    """One text of an answer."""

    def __init__(
        self,
        index: int,
        is_chat: bool,
        texts: TokenTexts,
        form: AnswerForm,
        echo: str,
    ) -> None:
        self._index = index
        self._is_chat = is_chat
        self._texts = texts
        self._form = form
        self._calls: AnswerCalls | None = None
        self._echo = echo
        self._sent = 0  # characters of the text so far
        self._unsent: list[TokenLogprobs] = []  # of tokens whose text is still held back

    def whole(self, result: Generation) -> JsonObject:
        self._open(result)
        fields = self._calls.message(result.text) if self._calls else {"content": result.text}
        message: JsonObject = {"role": "assistant", **fields}
        text = self._echo + result.text
        content: JsonObject = {"message": message} if self._is_chat else {"text": text}
        tokens = zip(
            result.token_ids, result.logprobs, result.top_logprobs, result.starts, strict=False
        )
        entries = _of_text([TokenLogprobs(*token) for token in tokens], result)
        logprobs = self._logprobs(entries, result.prompt_scores) if result.logprobs else None
        if result.prompt_scores and not result.token_ids:
            logprobs = self._logprobs((), result.prompt_scores)
        return self._choice(content, self._finish_reason(result), logprobs)

    def begin(self, result: Generation) -> JsonObject:
        self._open(result)
        scores = result.prompt_scores
        logprobs = None if scores is None else self._logprobs((), scores)
        first: JsonValue = {"role": "assistant", "content": ""} if self._is_chat else self._echo
        return self._delta(first, None, logprobs)

    def _open(self, result: Generation) -> None:
        """Begins to split the text into its parts, if it may have several."""
        if self._form:
            self._calls = AnswerCalls(self._form.reader(result.opens_thinking))

    def piece(self, chunk: Chunk) -> JsonObject | None:
        content: JsonValue = {"content": chunk.text} if self._is_chat else chunk.text
        if self._calls is not None:
            content = self._calls.delta(chunk.text)
        self._sent += len(chunk.text)
        if chunk.token is not None and chunk.logprob is not None:
            entry = TokenLogprobs(chunk.token, chunk.logprob, chunk.top_logprobs, chunk.start)
            self._unsent.append(entry)
        entries = [entry for entry in self._unsent if entry.start < self._sent]
        self._unsent = self._unsent[len(entries) :]
        if not entries:
            return self._delta(content, None) if chunk.text and content else None
        return self._delta(content, None, self._logprobs(entries))

    def end(self, result: Generation) -> JsonObject:
        rest: JsonValue = self._calls.delta("", last=True) if self._calls else {}
        entries = _of_text(self._unsent, result)
        logprobs = self._logprobs(entries) if entries else None
        return self._delta(rest if self._is_chat else "", self._finish_reason(result), logprobs)

    def _finish_reason(self, result: Generation) -> str:
        if result.finish_reason not in ("eos", "stop"):
            return "length"
        return "tool_calls" if self._calls is not None and self._calls.found else "stop"

    def _delta(
        self, content: JsonValue, reason: str | None, logprobs: JsonObject | None = None
    ) -> JsonObject:
        return self._choice({"delta" if self._is_chat else "text": content}, reason, logprobs)

    def _choice(
        self, content: JsonObject, reason: str | None, logprobs: JsonObject | None
    ) -> JsonObject:
        return {"index": self._index, **content, "logprobs": logprobs, "finish_reason": reason}

    def _logprobs(
        self, tokens: Sequence[TokenLogprobs], prompt: TextScores | None = None
    ) -> JsonObject:
        """Those of the text's tokens, after those of an echoed prompt."""
        if self._is_chat:
            return chat_logprobs(tokens, self._texts)
        before = [] if prompt is None else _of_prompt(prompt)
        after = [token._replace(start=len(self._echo) + token.start) for token in tokens]
        return text_logprobs([*before, *after], self._texts)


def _of_text(tokens: Sequence[TokenLogprobs], result: Generation) -> list[TokenLogprobs]:
    """The tokens without those of a stop string, which is no part of the text. One that the text
    ends in is among them."""
    if result.finish_reason != "stop":
        return list(tokens)
    return [token for token in tokens if token.start < len(result.text)]


def _of_prompt(scores: TextScores) -> list[TokenLogprobs]:
    tokens = zip(scores.token_ids, scores.logprobs, scores.top_logprobs, scores.starts, strict=True)
    return [TokenLogprobs(*token) for token in tokens]


def _usage(results: Sequence[Generation], n: int) -> JsonObject:
    """Numbers of tokens: each prompt once, all texts together; of the tokens that a draft proposed,
    how many the target accepted."""
    prompt = sum(result.prompt_tokens for result in results[::n])
    made = sum(len(result.token_ids) for result in results)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": made,
        "total_tokens": prompt + made,
        "completion_tokens_details": draft_counts(results),
    }


def draft_counts(results: Sequence[Generation]) -> JsonObject:
    """How many of the tokens that a draft proposed the target accepted, and how many not."""
    drafted = sum(result.stats.drafted + result.stats.candidates for result in results)
    accepted = sum(result.stats.accepted + result.stats.committed for result in results)
    return {
        "accepted_prediction_tokens": accepted,
        "rejected_prediction_tokens": drafted - accepted,
    }
