"""Answers with calls of tools as grammars."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from edgespec.grammar.grammar import Grammar, json_rule
from edgespec.tools.call_format import ToolCallFormat
from edgespec.tools.tool_list import Tool

__all__ = ["call_grammar"]

ANY_TEXT = "(?s:.*)"


def call_grammar(
    form: ToolCallFormat,
    tools: Sequence[Tool],
    special: Mapping[str, int],
    *,
    required: bool,
    several: bool,
) -> Grammar:
    """The grammar of answers that may, or must, call one of the tools.

    A text may come before the calls where they are not required; nothing comes after them. An
    answer that begins a call ends it.

    Args:
        special: ids of the tokenizer's special tokens, by their names.
        several: more than one call may be made.

    Raises:
        UsageError: a tool's parameters cannot be a grammar.
    """
    rules = _Rules(special)
    lines = [f"arguments_{i}: {json_rule(tool.parameters)}" for i, tool in enumerate(tools)]
    lines += [
        f"call_{i}: {rules.literal(tool.name + form.between)} arguments_{i}"
        for i, tool in enumerate(tools)
    ]
    lines.append("call: " + " | ".join(f"call_{i}" for i in range(len(tools))))
    more = f"({rules.literal(form.middle)} call)*" if several and form.middle else ""
    after = rules.literal(form.after)
    mark = form.mark
    rest = f"{rules.literal(form.before.removeprefix(mark))} call {more} {after}"
    lines.append(f"calls: {rules.literal(mark)} {rest}")
    if required:
        lines.append("start: calls")
    elif not mark:
        lines += ["start: calls | TEXT", f"TEXT: /{ANY_TEXT}/ & ~/(?s:{_escaped(form.before)}.*)/"]
    elif rules.begins_with_special(mark):
        spelled = f"(?s:.*{_escaped(mark)}.*)"
        lines += ["start: TEXT | TEXT calls", f"TEXT: /{ANY_TEXT}/ & ~/{spelled}/"]
    else:
        # Lazy: it ends where the mark does, and then a call follows.
        lines += [
            f"start: TEXT | marked {rest}",
            f"marked[lazy]: TEXT {rules.literal(mark)}",
            f"TEXT: /{ANY_TEXT}/",
        ]
    return Grammar("description of the tools", "\n".join(lines), frozenset(rules.used))


class _Rules:
    """Texts as parts of rules.

    Attributes:
        used: ids of the special tokens in them.
    """

    def __init__(self, special: Mapping[str, int]) -> None:
        self._special = special
        names = sorted(special, key=len, reverse=True)
        self._split = re.compile("|".join(map(re.escape, names)) if names else "(?!)")
        self.used: set[int] = set()

    def literal(self, text: str) -> str:
        """The text; special tokens in it are such."""
        parts, done = [], 0
        for found in self._split.finditer(text):
            token = self._special[found[0]]
            parts += [text[done : found.start()], token]
            self.used.add(token)
            done = found.end()
        parts.append(text[done:])
        written = [f"<[{p}]>" if isinstance(p, int) else json.dumps(p) for p in parts if p != ""]
        return " ".join(written)

    def begins_with_special(self, text: str) -> bool:
        return self._split.match(text) is not None


def _escaped(text: str) -> str:
    """The text as a part of a regular expression in a rule."""
    return "".join(c if c.isalnum() else f"\\x{{{ord(c):x}}}" for c in text)
