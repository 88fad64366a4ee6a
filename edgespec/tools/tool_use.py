"""What a pair's model and its tokenizer make of tools: prompts, grammars and marks of calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from edgespec.chat.chat_template import ChatTemplate
from edgespec.errors import UsageError, shortened
from edgespec.grammar.grammar import Grammar
from edgespec.tools.call_format import ToolCallFormat, call_format
from edgespec.tools.call_grammar import call_grammar
from edgespec.tools.tool_list import Tool

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["ToolChoice", "ToolUse", "chosen_tools"]

# As OpenAI's: "auto", "none", "required", or {"type": "function", "function": {"name": …}}.
ToolChoice = str | Mapping[str, object]


class ToolUse:
    """How a model uses tools.

    Args:
        template: of the pair, if it has one.
        tokenizer: of the pair.
        last_tokens: end-of-text tokens.
    """

    def __init__(
        self, template: ChatTemplate | None, tokenizer: Tokenizer, last_tokens: Sequence[int]
    ) -> None:
        self._template = template
        self._tokenizer = tokenizer
        self._last_tokens = last_tokens

    @cached_property
    def form(self) -> ToolCallFormat:
        """How the model writes calls. Raises UsageError if that is not known."""
        names = (self._tokenizer.id_to_token(token) for token in self._last_tokens)
        form = call_format(self._known_template, [name for name in names if name])
        texts = form.before + form.between + (form.middle or "") + form.after
        return replace(form, special=frozenset(name for name in self._special if name in texts))

    @cached_property
    def marks(self) -> frozenset[int]:
        """Special tokens that are parts of calls; in an answer's text they are spelled out."""
        return frozenset(self._special[name] for name in self.form.special)

    def grammar(self, tools: Sequence[Tool], choice: ToolChoice, several: bool) -> Grammar:
        """What an answer with these tools looks like; see `chosen_tools` for which these are."""
        required = choice != "auto"
        several = several and not isinstance(choice, Mapping)
        return call_grammar(self.form, tools, self._special, required=required, several=several)

    @property
    def special_names(self) -> Collection[str]:
        """Names of the tokenizer's special tokens."""
        return self._special.keys()

    @property
    def _known_template(self) -> ChatTemplate:
        if self._template is None or not self._template.shows_tools:
            raise UsageError("this model's chat template knows no tools; ask without them")
        return self._template

    @cached_property
    def _special(self) -> dict[str, int]:
        """Ids of the special tokens, by their names."""
        added = self._tokenizer.get_added_tokens_decoder()
        return {added[token].content: token for token in added if added[token].special}


def chosen_tools(tools: Sequence[Tool], choice: ToolChoice) -> Sequence[Tool]:
    """Those of the tools that an answer may call.

    Raises:
        UsageError: `choice` is none, or names another tool.
    """
    if choice == "none" or (choice == "auto" and not tools):
        return ()
    if choice in ("auto", "required") and tools:
        return tools
    function = choice.get("function") if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    named = [tool for tool in tools if tool.name == name]
    if not named:
        raise UsageError(
            f"tool_choice is {shortened(choice)}; give auto, none, required or "
            '{"type": "function", "function": {"name": …}} with the name of a tool'
        )
    return named
