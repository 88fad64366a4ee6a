"""OpenAI's chat completions and completions: requests as calls of the pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from edgespec.artifact.chat_format import Message
from edgespec.artifact.generation_defaults import GenerationDefaults
from edgespec.errors import UsageError, shortened
from edgespec.openai.json_value import JsonObject, JsonValue
from edgespec.openai.openai_fields import OPTIONS, TEMPLATE_FIELDS, check_fields
from edgespec.openai.openai_grammar import response_grammar
from edgespec.pair.generation_options import GenerationOptions
from edgespec.pair.prompt import Prompt, PromptInput
from edgespec.pair.scoring.text_scores import text_starts
from edgespec.tools.answer_reader import AnswerForm

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from edgespec.pair.pair import Pair

__all__ = ["Request", "chat_request", "text_request"]

# OpenAI's defaults, for what neither the request nor the model says.
TEMPERATURE = 1.0
TEXT_LENGTH = 16  # tokens of a completion
MOST_PROMPTS = 1024  # of one request
SEEDS = 2**64  # OpenAI's have 64 bits, one of them a sign


@dataclass(frozen=True)
class Request:
    """A request as a call of `Pair.stream`.

    Attributes:
        prompts: the texts, token ids or messages to continue.
        options: keyword arguments of `Pair.stream`.
        n: texts to make of each; with a seed, text number i of a prompt is drawn with seed + i.
        echo: the prompt comes before each text.
        streams: the answer is sent in pieces.
        counts: a streamed answer ends with the number of its tokens.
        splits: thinking is told apart from the answer.
    """

    prompts: Sequence[PromptInput]
    options: GenerationOptions
    n: int
    echo: bool
    streams: bool
    counts: bool
    splits: bool = False

    def answer_form(self, pair: Pair) -> AnswerForm:
        """What the answers may have in them. The text of a grammar has no thinking.

        Raises:
            UsageError: it is not known how the model writes calls.
        """
        offers = bool(self.options.get("tools")) and self.options.get("tool_choice") != "none"
        thinks = self.splits and self.options.get("grammar") is None
        return AnswerForm(
            calls=pair.tool_use.form if offers else None,
            reasoning=pair.reasoning if thinks else None,
        )

    def echoes(self, tokenizer: Tokenizer) -> Sequence[str]:
        """The text that comes before the texts of each prompt in the answer."""
        if not self.echo:
            return [""] * len(self.prompts)
        return [_text_of(prompt, tokenizer) for prompt in self.prompts]


def chat_request(
    body: JsonObject, own: GenerationDefaults, instead: GenerationOptions | None = None
) -> Request:
    """A request for a chat completion.

    Args:
        own: the model's own settings, for fields that the request does not have.
        instead: options that replace these settings.

    Raises:
        UsageError: a field is unknown, or its value is not allowed.
    """
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise UsageError(f"messages is {shortened(messages)}; give a list of messages")
    if not messages:
        raise UsageError("messages is []; give at least one message")
    for number, message in enumerate(messages, start=1):
        if not isinstance(message, Mapping):  # a list of numbers would be token ids
            raise UsageError(f"message {number} is {shortened(message)}; give a role and a content")
    prompt = cast(list[Message], messages)  # they are read where they are written
    return _request(body, "messages", [prompt], _usual(own, own.length(), instead))


def text_request(
    body: JsonObject, own: GenerationDefaults, instead: GenerationOptions | None = None
) -> Request:
    """A request for a completion, which continues a text as it is; see `chat_request`."""
    usual = _usual(own, TEXT_LENGTH, {"chat": False, **(instead or {})})
    return _request(body, "prompt", _prompts(body.get("prompt")), usual)


def _prompts(given: JsonValue) -> list[PromptInput]:
    """One prompt or several, each a text or token ids."""
    several = isinstance(given, list) and bool(given) and not _is_tokens(given)
    prompts = cast("list[JsonValue]", given) if several else [given]
    for prompt in prompts:
        if not isinstance(prompt, str) and not _is_tokens(prompt):
            raise UsageError(
                f"prompt is {shortened(given)}; give a text or a list of token ids, or several"
            )
        if not prompt:
            raise UsageError(f"prompt is {shortened(given)}; give at least one token")
    if len(prompts) > MOST_PROMPTS:
        raise UsageError(f"prompt has {len(prompts)} prompts; the limit is {MOST_PROMPTS}")
    return cast("list[PromptInput]", prompts)


def _is_tokens(value: JsonValue) -> bool:
    return isinstance(value, list) and all(type(token) is int for token in value)


def _text_of(prompt: PromptInput, tokenizer: Tokenizer) -> str:
    """A prompt's text; empty for token ids that are none, which are refused elsewhere."""
    if isinstance(prompt, str):
        return prompt
    assert not isinstance(prompt, Prompt)
    tokens = [token for token in prompt if isinstance(token, int) and 0 <= token < 2**31]
    return text_starts(tokenizer, tokens)[0]


def _usual(
    own: GenerationDefaults, length: int, instead: GenerationOptions | None
) -> GenerationOptions:
    """The options of a request that sets none."""
    usual = {"temperature": TEMPERATURE, **own.sampling(), **own.edits(), "max_new_tokens": length}
    return cast(GenerationOptions, {**usual, **(instead or {})})


def _request(
    body: JsonObject, prompt_field: str, prompts: Sequence[PromptInput], usual: GenerationOptions
) -> Request:
    fields = _in_range({name: value for name, value in body.items() if value is not None})
    check_fields(fields, prompt_field)
    given = {OPTIONS[name]: value for name, value in fields.items() if name in OPTIONS}
    if isinstance(biases := given.get("logit_bias"), Mapping):
        given["logit_bias"] = {int(token): bias for token, bias in biases.items()}  # type: ignore[misc]
    if values := _template_values(fields):
        given["chat_template_kwargs"] = values
    if (grammar := response_grammar(fields.get("response_format", {"type": "text"}))) is not None:
        given["grammar"] = grammar  # type: ignore[assignment]
    if "logprobs" in fields and prompt_field == "prompt":
        given.update(logprobs=True, top_logprobs=fields["logprobs"])
        given["score_prompt"] = fields.get("echo", False)
    stream_options = fields.get("stream_options", {})
    return Request(
        prompts,
        cast(GenerationOptions, {**usual, **given}),
        n=cast(int, fields.get("n", 1)),
        echo=fields.get("echo") is True,
        streams=fields.get("stream") is True,
        counts=isinstance(stream_options, Mapping) and stream_options.get("include_usage") is True,
        splits=prompt_field == "messages" and fields.get("separate_reasoning", True) is True,
    )


def _in_range(fields: JsonObject) -> JsonObject:
    """`fields` with numbers from 0 for those that only other servers know: OpenAI's seeds below 0,
    and a top_k of -1, which is off at vLLM."""
    seed = fields.get("seed")
    if type(seed) is int and -(SEEDS // 2) <= seed < 0:
        fields = {**fields, "seed": seed + SEEDS}
    return {**fields, "top_k": 0} if fields.get("top_k") == -1 else fields


def _template_values(fields: JsonObject) -> dict[str, JsonValue]:
    """Values of the chat template: `chat_template_kwargs`, and fields that name one of them.

    `reasoning_effort` "none" also switches thinking off in templates that only know that.
    """
    given = fields.get("chat_template_kwargs", {})
    values = {name: fields[name] for name in TEMPLATE_FIELDS if name in fields}
    if values.get("reasoning_effort") == "none":
        values.setdefault("enable_thinking", False)
    return {**values, **(given if isinstance(given, Mapping) else {})}
