"""The fields of OpenAI's requests: those that are used, and the type of each.

One rule for all: a field that cannot change the answer is passed over. One that would, and is not
there, is refused by its name: to ignore it would give another text than the one that was asked for.
Others are not known here, and are passed over with a note (`unknown_fields`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgespec.core.distribution_options import LogitEdits, Sampling, options_of
from edgespec.errors import UsageError, shortened
from edgespec.openai.json_value import JsonObject, JsonValue
from edgespec.openai.openai_absent import check_absent

__all__ = ["OPTIONS", "TEMPLATE_FIELDS", "TEXT_TYPES", "TO_128", "TYPES", "check_fields"]


@dataclass(frozen=True)
class Type:
    """The values that a field may have, in words and as a test."""

    words: str
    holds: Callable[[JsonValue], bool]


def _is_whole(value: JsonValue) -> bool:
    """JSON's true is no number, but Python's is; more than 64 bits fit no model's arithmetic."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _is_number(value: JsonValue) -> bool:
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def _is_stop(value: JsonValue) -> bool:
    texts = value if isinstance(value, list) else [value]
    return all(isinstance(text, str) and text for text in texts)


def _is_biases(value: JsonValue) -> bool:
    """Numbers by token ids; the keys of JSON's objects are texts."""
    return isinstance(value, Mapping) and all(
        token.isascii() and token.isdecimal() and len(token) < 20 and _is_number(bias)
        for token, bias in value.items()
    )


def _is_stream_options(value: JsonValue) -> bool:
    return isinstance(value, Mapping) and value.get("include_usage") in (None, True, False)


def _is_tools(value: JsonValue) -> bool:
    return isinstance(value, list) and all(isinstance(tool, Mapping) for tool in value)


BOOLEAN = Type("true or false", lambda value: isinstance(value, bool))
TEXT = Type("a text", lambda value: isinstance(value, str))
BIASES = Type("an object that gives numbers to token ids", _is_biases)
TOOLS = Type("a list of tools", _is_tools)
CHOICE = Type("a text, or an object", lambda value: isinstance(value, str | Mapping))
OBJECT = Type("an object", lambda value: isinstance(value, Mapping))
NUMBER = Type("a finite number", _is_number)
COUNT = Type("a whole number from 1", lambda value: _is_whole(value) and _at_least(value, 1))
FROM_0 = Type("a whole number from 0", lambda value: _is_whole(value) and _at_least(value, 0))
SEED = Type("a whole number of 64 bits", lambda value: type(value) is int and 0 <= value < 2**64)
TO_128 = Type(  # OpenAI's limit
    "a whole number from 1 to 128", lambda value: _is_whole(value) and value in range(1, 129)
)
TO_20 = Type("a whole number from 0 to 20", lambda value: _is_whole(value) and value in range(21))
TO_5 = Type("a whole number from 0 to 5", lambda value: _is_whole(value) and value in range(6))
STOP = Type("a text that is not empty, or a list of such", _is_stop)
STREAM_OPTIONS = Type(
    "an object whose include_usage, if there, is true or false", _is_stream_options
)


def _at_least(value: JsonValue, least: int) -> bool:
    return isinstance(value, int) and value >= least


NUMBERS = {**options_of(Sampling), **options_of(LogitEdits)}
# OpenAI's name, and that of the option of `Pair.stream`.
OPTIONS = {
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
    **{name: name for name in NUMBERS},
    "logit_bias": "logit_bias",
    "seed": "seed",
    "stop": "stop",
    "ignore_eos": "ignore_eos",
    "logprobs": "logprobs",
    "top_logprobs": "top_logprobs",
    "tools": "tools",
    "tool_choice": "tool_choice",
    "parallel_tool_calls": "parallel_tool_calls",
    "continue_final_message": "continue_final_message",
    "add_generation_prompt": "add_generation_prompt",
    "thinking_budget": "thinking_budget",
    "thinking_token_budget": "thinking_budget",  # vLLM's name
    "source_language": "source_language",
    "target_language": "target_language",
}
# Values of a model's chat template that have a field of their own.
TEMPLATE_FIELDS = ("enable_thinking", "reasoning_effort")
TYPES = {
    # Options of `Pair.stream`.
    **{"max_tokens": COUNT, "max_completion_tokens": COUNT, "seed": SEED, "stop": STOP},
    **{name: FROM_0 if option.is_whole else NUMBER for name, option in NUMBERS.items()},
    **{"logit_bias": BIASES, "ignore_eos": BOOLEAN},
    **{"tools": TOOLS, "tool_choice": CHOICE, "parallel_tool_calls": BOOLEAN},
    # How the chat template writes the messages.
    **{"chat_template_kwargs": OBJECT, "enable_thinking": BOOLEAN, "reasoning_effort": TEXT},
    **{"continue_final_message": BOOLEAN, "add_generation_prompt": BOOLEAN},
    **{"thinking_budget": FROM_0, "thinking_token_budget": FROM_0, "separate_reasoning": BOOLEAN},
    **{"source_language": TEXT, "target_language": TEXT},
    # About the answer's form.
    "n": TO_128,
    "response_format": OBJECT,
    **{"logprobs": BOOLEAN, "top_logprobs": TO_20},
    **{"model": TEXT, "stream": BOOLEAN, "stream_options": STREAM_OPTIONS},
}
# Completions, older than chats, have one field for both; they can repeat the prompt and score it.
TEXT_TYPES = {**TYPES, "logprobs": TO_5, "max_tokens": FROM_0, "echo": BOOLEAN}
for name in (
    *("top_logprobs", "tools", "tool_choice", "parallel_tool_calls", "chat_template_kwargs"),
    *(*TEMPLATE_FIELDS, "continue_final_message", "add_generation_prompt"),
    *("thinking_budget", "thinking_token_budget", "separate_reasoning"),
):
    del TEXT_TYPES[name]


def check_fields(fields: JsonObject, prompt_field: str) -> None:
    """Checks every field but the prompt. Fields that are null must have been removed.

    Args:
        prompt_field: "messages" or "prompt".

    Raises:
        UsageError: a field's value is not allowed, or it would change the text and is not there.
    """
    types = TYPES if prompt_field == "messages" else TEXT_TYPES
    for name, value in fields.items():
        if name in types:
            if not types[name].holds(value):
                raise UsageError(f"{name} is {shortened(value)}; give {types[name].words}")
        elif name != prompt_field:
            check_absent(name, value, fields)
