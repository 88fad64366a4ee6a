"""The options of a generation: their names, types, defaults and meanings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, ForwardRef, TypeVar, cast

from edgespec.core.distribution_options import (
    LogitEditOptions,
    LogitEdits,
    Sampling,
    SamplingOptions,
)
from edgespec.core.draft import Drafter
from edgespec.errors import check_names
from edgespec.grammar.grammar import Grammar
from edgespec.tools.tool_use import ToolChoice

__all__ = [
    "BEAM_DEFAULTS",
    "DEFAULTS",
    "BeamOptions",
    "GenerationOptions",
    "completed",
    "sampling_options",
    "with_options",
]


class GenerationOptions(SamplingOptions, LogitEditOptions, total=False):
    """The keyword arguments of `Pair.stream` and `Pair.generate`.

    Attributes:
        temperature, top_k, top_p, min_p, top_n_sigma, xtc_probability, xtc_threshold: see
            `edgespec.core.distribution_options.Sampling`; temperature 0, the default, is greedy.
        repetition_penalty, presence_penalty, frequency_penalty, logit_bias, min_tokens: see
            `LogitEdits`. They change the target's distribution, so the text is the one that plain
            decoding gives with the same options.
        max_new_tokens: None: up to the end of the text or of the cache. 0 makes no text.
        seed: draws the same text again; None takes a new one, found in the result. With the
            coupled rule a seed has one text, whatever drafts; with the others another draft or γ
            draws another.
        gamma: tokens drafted a round, or "auto": the number that acceptance and the times of
            earlier rounds make fastest (with the token and the block rule, fixed costs). None is
            "auto", unless a profile found a number to be faster.
        draft: the name of a drafter: "model", prompt "lookup", or "both", which takes in each
            round the one with the larger expected speed-up. True takes both, or prompt lookup
            where the pair has no draft model; False decodes plainly. A profile of `edgespec tune`
            may change what True means, to no draft at all where none pays. An `edgespec.Drafter`
            of your own works too: the text is the target's, as long as the drafter gives the
            distribution that each token was really drawn from. Its attribute `cost` is the time of
            one drafted token in steps of the target, for γ "auto"; without it 0.3 is assumed.
        rule: "coupled", "block" or "token", all exact. None takes the coupled rule when sampling,
            also without a draft: the text is then the plain text of its seed, token by token.
            Greedy text is that with every rule.
        stop: a string, or strings, that end the text and are not part of it.
        ignore_eos: go on after an end-of-text token.
        logprobs: report the target's log-probability of each token.
        top_logprobs: with `logprobs`, also of so many of the most probable tokens in its stead; at
            most 20.
        score_prompt: report them of the prompt's own tokens, too (`Generation.prompt_scores`).
        chat: put the model's own chat format around a prompt that is a text; None, the default:
            if the model has one. False continues the text as it is.
        grammar: what the text must look like: `edgespec.json_schema(…)`, `edgespec.regex(…)` or
            `edgespec.lark(…)`. The text stands alone, without the space that may join it to the
            prompt. Tokens that do not fit it have no probability, in the target's distribution and
            in the draft's; temperature and truncation come after that. The text ends where the
            grammar does. One that ends for another reason, such as max_new_tokens, may not fit it.
        tools: functions that the model may call, as OpenAI's `tools`; its chat template must know
            tools. Calls are in the text as the template writes them, and their arguments fit the
            functions' JSON schemas; `tool_use.form` says where they are.
        tool_choice: "auto"; "required" for a call instead of a text; "none", as without tools; or
            {"type": "function", "function": {"name": …}}, to call that one.
        parallel_tool_calls: an answer may make several calls.
        chat_template_kwargs: values of the model's chat template by name, such as
            {"enable_thinking": False}.
        continue_final_message: go on with the last message instead of answering it.
        add_generation_prompt: end the conversation with what begins an answer; None: unless the
            last message is continued.
        thinking_budget: tokens that a model which thinks before its answer may think; then the
            mark that ends its thinking comes. None for no limit. Without effect where a grammar
            says what the text is.
        source_language, target_language: of a translation model that is told its languages
            (`Pair.manifest.languages` lists them); None are the checkpoint's own.
    """

    max_new_tokens: int | None
    seed: int | None
    gamma: int | str | None
    draft: bool | str | Drafter
    rule: str | None
    stop: str | Sequence[str]
    ignore_eos: bool
    logprobs: bool
    top_logprobs: int
    score_prompt: bool
    chat: bool | None
    grammar: Grammar | None
    tools: Sequence[Mapping[str, object]]
    tool_choice: ToolChoice
    parallel_tool_calls: bool
    chat_template_kwargs: Mapping[str, object] | None
    continue_final_message: bool
    add_generation_prompt: bool | None
    thinking_budget: int | None
    source_language: str | None
    target_language: str | None


def _defaults_of(options: type[Sampling | LogitEdits]) -> dict[str, Any]:
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(options)
    }


# What an option is that is not given.
DEFAULTS: Mapping[str, Any] = {
    "max_new_tokens": None,
    **_defaults_of(Sampling),
    **_defaults_of(LogitEdits),
    "seed": None,
    "gamma": None,
    "draft": True,
    "rule": None,
    "stop": (),
    "ignore_eos": False,
    "logprobs": False,
    "top_logprobs": 0,
    "score_prompt": False,
    "chat": None,
    "grammar": None,
    "tools": (),
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "chat_template_kwargs": None,
    "continue_final_message": False,
    "add_generation_prompt": None,
    "thinking_budget": None,
    "source_language": None,
    "target_language": None,
}


class BeamOptions(LogitEditOptions, total=False):
    """Those options of a generation that beam search has."""

    max_new_tokens: int | None
    ignore_eos: bool
    chat: bool | None
    chat_template_kwargs: Mapping[str, object] | None
    continue_final_message: bool
    add_generation_prompt: bool | None
    source_language: str | None
    target_language: str | None


BEAM_DEFAULTS: Mapping[str, Any] = {
    name: default for name, default in DEFAULTS.items() if name in BeamOptions.__annotations__
}


def completed(options: GenerationOptions) -> dict[str, Any]:
    """All options, with the defaults of those that are not given.

    Raises:
        TypeError: there is no option of a given name.
    """
    check_names("a generation", options, DEFAULTS)
    return {**DEFAULTS, **options}


def sampling_options(sampling: Sampling) -> GenerationOptions:
    """The options that sample as `sampling` does."""
    return cast("GenerationOptions", dict(vars(sampling)))


F = TypeVar("F", bound=Callable[..., Any])


def with_options(options: type, defaults: Mapping[str, Any]) -> Callable[[F], F]:
    """Lets `help` show every option of a method that takes `**options`, with its default.

    Args:
        options: the TypedDict of its options.
        defaults: of each of them, in the order in which they are shown.
    """
    types = options.__annotations__

    def with_signature(method: F) -> F:
        signature = inspect.signature(method)
        own = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        shown = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=_text(types[name])
            )
            for name, default in defaults.items()
        ]
        method.__signature__ = signature.replace(parameters=[*own, *shown])  # type: ignore[attr-defined]
        return method

    return with_signature


def _text(annotation: object) -> object:
    """As it is written in the source, not with the module that it comes from."""
    return annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
