"""One call of `Pair.stream`, checked: everything that it asks for, and nothing of the models."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, cast

from edgespec.artifact.languages import Languages
from edgespec.chat.chat_writer import ChatOptions
from edgespec.chat.long_conversation import Policy
from edgespec.core.distribution_options import LogitEdits, Sampling
from edgespec.core.draft import Drafter
from edgespec.errors import UsageError, shortened
from edgespec.grammar.grammar import Grammar
from edgespec.pair.generation_options import GenerationOptions, completed
from edgespec.pair.keeping.fitting_prompt import fitting
from edgespec.pair.logprobs import check_top_logprobs
from edgespec.pair.prompt import Prompt, PromptEncoder, PromptInput
from edgespec.pair.translation import Translation
from edgespec.tools.tool_list import Tool, read_tools
from edgespec.tools.tool_use import ToolUse, chosen_tools

__all__ = ["GenerationRequest", "RequestReader", "check_max_new_tokens"]


@dataclass(frozen=True)
class GenerationRequest:
    """What a generation is to be, after all checks that need no model.

    Attributes:
        prompt: token ids.
        sampling, edits: what makes logits a distribution.
        max_new_tokens: None for no limit of the caller's.
        last_tokens: token ids that end the text.
        stops: strings that end it.
        marks: special tokens that are spelled out in the text: parts of calls.
        grammar: what the text must look like; None for anything.
        seed: None takes a new one.
        draft, gamma, rule: as given; `edgespec.pair.drafting` resolves them.
        top_logprobs: how many log-probabilities to report beside each token's own; None for none.
        score_prompt: report log-probabilities of the prompt's tokens.
        translation: from which language, and into which.
        thinking_budget: tokens of thinking; None for no limit, or where a grammar has none.
    """

    prompt: Prompt
    sampling: Sampling
    edits: LogitEdits
    max_new_tokens: int | None
    last_tokens: Sequence[int]
    stops: Sequence[str]
    marks: Collection[int]
    grammar: Grammar | None
    seed: int | None
    draft: bool | str | Drafter
    gamma: int | str | None
    rule: str | None
    top_logprobs: int | None
    score_prompt: bool
    translation: Translation
    thinking_budget: int | None


class RequestReader:
    """Checks the options of a call and reads its prompt.

    Args:
        encoder: makes token ids of prompts.
        tool_use: how the target uses tools.
        last_tokens: token ids that end its texts.
        languages: that the target is told; None if it has no choice of them.

    Attributes:
        when_full: what becomes of conversations that the cache cannot hold.
    """

    def __init__(
        self,
        encoder: PromptEncoder,
        tool_use: ToolUse,
        last_tokens: Sequence[int],
        languages: Languages | None = None,
    ) -> None:
        self._languages = languages
        self._encoder = encoder
        self._tool_use = tool_use
        self._last_tokens = last_tokens
        self.when_full: Policy = "stop"

    def __call__(
        self, prompt: PromptInput, options: GenerationOptions, most: int | None = None
    ) -> GenerationRequest:
        """The request of a call.

        Args:
            most: tokens of the longest prompt, if there is a limit.

        Raises:
            UsageError: an option is out of its range, or two contradict each other.
            TypeError: there is no such option.
        """
        given = completed(options)
        check_max_new_tokens(given["max_new_tokens"], least=0)
        budget = _thinking_budget(given)
        top_logprobs = _top_logprobs(given["logprobs"], given["top_logprobs"])
        sampling = Sampling(**_part(given, Sampling))
        offered = read_tools(given["tools"]) if given["tools"] else ()
        tools = chosen_tools(offered, given["tool_choice"])
        read = self._encoded(prompt, given, offered if tools else (), most)
        translation = self._translation(given)
        grammar = _checked_grammar(given["grammar"], given["ignore_eos"])
        if tools:
            if grammar is not None:
                raise UsageError("an answer cannot have both tools and a grammar; give one of them")
            choice, several = given["tool_choice"], given["parallel_tool_calls"]
            grammar = _checked_grammar(
                self._tool_use.grammar(tools, choice, several), given["ignore_eos"]
            )
        if grammar is not None and translation.forces_first:
            raise UsageError("a grammar has no place for target_language; give one of the two")
        return GenerationRequest(
            prompt=read,
            sampling=sampling,
            edits=LogitEdits(**_part(given, LogitEdits)),
            max_new_tokens=given["max_new_tokens"],
            last_tokens=() if given["ignore_eos"] else self._last_tokens,
            stops=_stops(given["stop"]),
            marks=self._tool_use.marks if tools else (),
            grammar=grammar,
            seed=given["seed"],
            draft=given["draft"],
            gamma=given["gamma"],
            rule=given["rule"],
            top_logprobs=top_logprobs,
            score_prompt=bool(given["score_prompt"]),
            translation=translation,
            thinking_budget=budget,
        )

    def prompt(self, prompt: PromptInput, options: GenerationOptions, most: int | None) -> Prompt:
        """The token ids of a call's prompt, which may stand for it in another call.

        Any thread may call it: it uses no model.

        Raises:
            UsageError: as `__call__`, as far as the prompt is concerned.
        """
        given = completed(options)
        offered = read_tools(given["tools"]) if given["tools"] else ()
        tools = chosen_tools(offered, given["tool_choice"])
        return self._encoded(prompt, given, offered if tools else (), most)

    def _encoded(
        self, prompt: PromptInput, given: dict[str, Any], tools: Sequence[Tool], most: int | None
    ) -> Prompt:
        written = ChatOptions(
            given["chat_template_kwargs"] or {},
            given["continue_final_message"],
            given["add_generation_prompt"],
        )
        encode = partial(self._encoder, chat=given["chat"], tools=tools, options=written)
        if self.when_full != "stop" and most is not None:
            encoded = fitting(prompt, encode, self._encoder.text_alone, most, self.when_full)
        else:
            encoded = encode(prompt, most=most)
        return self._translation(given).prompt(encoded, prompt)

    def _translation(self, given: dict[str, Any]) -> Translation:
        return Translation(self._languages, given["source_language"], given["target_language"])


def _part(given: dict[str, Any], options: type[Sampling | LogitEdits]) -> dict[str, Any]:
    """Those of the options that are fields of one dataclass; None is what is not given."""
    values = {name: given[name] for name in options.__dataclass_fields__}
    if options is LogitEdits and values["logit_bias"] is None:
        values["logit_bias"] = {}
    return values


def check_max_new_tokens(number: object, least: int = 1) -> None:
    """Raises UsageError unless it is a whole number from `least`, or None for no limit."""
    if number is not None and not (isinstance(number, Integral) and int(number) >= least):
        raise UsageError(f"max_new_tokens is {shortened(number)}; give a whole number from {least}")


def _top_logprobs(logprobs: object, number: object) -> int | None:
    """How many log-probabilities are reported beside each token's own; None for none at all."""
    check_top_logprobs(number)
    count = int(cast("int", number))
    if count and not logprobs:
        raise UsageError(f"top_logprobs is {count} without logprobs; ask for both")
    return count if logprobs else None


def _thinking_budget(given: dict[str, Any]) -> int | None:
    """The limit of thinking; none where the text's first token is a grammar's."""
    budget = given["thinking_budget"]
    if budget is None:
        return None
    if isinstance(budget, bool) or not isinstance(budget, Integral) or int(budget) < 0:
        raise UsageError(
            f"thinking_budget is {shortened(budget)}; give a whole number of tokens from 0"
        )
    must_call = given["tools"] and given["tool_choice"] not in ("auto", "none")
    return None if given["grammar"] is not None or must_call else int(budget)


def _checked_grammar(grammar: object, ignore_eos: bool) -> Grammar | None:
    if grammar is None:
        return None
    if not isinstance(grammar, Grammar):
        raise UsageError(
            f"grammar is {shortened(grammar)}; give edgespec.json_schema(…), "
            "edgespec.regex(…) or edgespec.lark(…)"
        )
    if ignore_eos:
        raise UsageError("ignore_eos goes on after a grammar's end; give one of the two")
    return grammar


def _stops(stop: str | Sequence[str]) -> tuple[str, ...]:
    """The strings that end a text."""
    stops = (stop,) if isinstance(stop, str) or not isinstance(stop, Iterable) else tuple(stop)
    if not all(isinstance(text, str) for text in stops):
        raise UsageError(f"stop is {shortened(stop)}; give a string, or several")
    return stops
