"""How a model's chat template writes calls of tools, found by rendering some."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from edgespec.chat.chat_template import ChatTemplate
from edgespec.errors import UsageError

__all__ = ["ToolCallFormat", "call_format"]

# Texts that no template contains. A name is one of a function, an argument's value is one of JSON.
_NAMES = ("edgespecFirst", "edgespecSecond")
_ARGUMENTS = ({"edgespecKey": "edgespecOne"}, {"edgespecKey": "edgespecTwo"})
_QUESTION = {"role": "user", "content": "edgespecQuestion"}
_RESULT = {"role": "tool", "content": "edgespecResult", "tool_call_id": "callnumb1"}


@dataclass(frozen=True)
class ToolCallFormat:
    """The texts around the names and arguments of an answer's calls.

    Attributes:
        before: before the first call's name.
        between: between a call's name and its arguments, a JSON object.
        middle: between a call's arguments and the next call's name; None if the template writes
            one call only.
        after: after the last call's arguments.
        special: names of special tokens in these texts.
    """

    before: str
    between: str
    middle: str | None
    after: str
    special: frozenset[str] = frozenset()

    @property
    def mark(self) -> str:
        """What no answer without a call contains, such as "<tool_call>"; empty for calls that are
        JSON from their first character."""
        return self.before.partition("{")[0].rstrip("[ \n")


def call_format(template: ChatTemplate, ends: Sequence[str]) -> ToolCallFormat:
    """The format of a template's calls.

    Args:
        ends: texts of the model's end-of-text tokens; an answer ends before one of them.

    Raises:
        UsageError: it writes calls in another way than as names and JSON.
    """
    prompt = template.render([_QUESTION], _tools())
    one = _answer(template, prompt, 1)
    if one is not None:
        before, found_name, rest = one.partition(_NAMES[0])
        between, found_arguments, rest = rest.partition(json.dumps(_ARGUMENTS[0]))
        after = min((rest.partition(end)[0] for end in ends if end in rest), key=len, default=None)
        if found_name and found_arguments and after is not None and before.strip():
            two = _answer(template, prompt, 2)
            return ToolCallFormat(before, between, _middle(two, between), after)
    raise UsageError(
        "this model's chat template writes calls of tools in a way that is not known here; ask "
        "without tools, or with a grammar"
    )


def _tools() -> list[dict[str, object]]:
    parameters = {"type": "object", "properties": {"edgespecKey": {"type": "string"}}}
    return [
        {
            "type": "function",
            "function": {"name": name, "description": "", "parameters": parameters},
        }
        for name in _NAMES
    ]


def _answer(template: ChatTemplate, prompt: str, count: int) -> str | None:
    """What the template writes after a prompt whose answer makes calls, and results follow.

    None if it refuses that, or if it does not begin with the prompt.
    """
    calls = [
        {"id": f"callnumb{number}", "type": "function", "function": {"name": name, "arguments": a}}
        for number, (name, a) in enumerate(zip(_NAMES, _ARGUMENTS, strict=True), start=1)
    ][:count]
    results = [{**_RESULT, "tool_call_id": call["id"]} for call in calls]
    answer = {"role": "assistant", "content": "", "tool_calls": calls}
    try:
        whole = template.render([_QUESTION, answer, *results], _tools(), answers=False)
    except UsageError:
        return None
    return whole.removeprefix(prompt) if whole.startswith(prompt) else None


def _middle(two: str | None, between: str) -> str | None:
    """What is between two calls."""
    _, found, rest = (two or "").partition(json.dumps(_ARGUMENTS[0]))
    middle, named, rest = rest.partition(_NAMES[1])
    same = rest.startswith(between + json.dumps(_ARGUMENTS[1]))
    return middle if found and named and same else None
