"""`/set`: the options of a conversation, while it goes on."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

import click

from edgespec.cli.cli_errors import in_plain_words
from edgespec.cli.terminal.answer_view import Shown
from edgespec.cli.terminal.conversation import Conversation
from edgespec.errors import UsageError, shortened

__all__ = ["ChatSettings"]

ON = {"on": True, "true": True, "yes": True, "1": True}
OFF = {"off": False, "false": False, "no": False, "0": False}
DEFAULT = "default"
# Options of the command that are no settings of an answer, or that another one says better.
NOT_SET = ("greedy", "no_draft", "show_draft", "stats", "as_json", "system")
SHOWN_HELP = {
    "markdown": "show Markdown as pages do: on or off",
    "thinking": "show what a model thinks: on or off",
    "draft_colour": "colour what the draft proposed: on or off",
    "stats": "show speed and acceptance: on or off",
}


@dataclass(frozen=True)
class ChatSettings:
    """What can be set, by name.

    Args:
        options: of the command `edgespec chat`: those of an answer are set as there.
        conversation: whose options they are.
        shown: what is shown of answers.
    """

    options: Mapping[str, click.Option]
    conversation: Conversation
    shown: Shown

    @classmethod
    def of_command(
        cls, command: click.Command, names: frozenset[str], conversation: Conversation, shown: Shown
    ) -> ChatSettings:
        """
        Args:
            names: of the options of an answer, as the command is given them.
        """
        options = {
            max(option.opts, key=len).lstrip("-").replace("-", "_"): option
            for option in command.params
            if isinstance(option, click.Option) and option.name in names - {*NOT_SET}
        }
        return cls(options, conversation, shown)

    @property
    def names(self) -> dict[str, str]:
        """What each setting does, by name."""
        options = {name: option.help or "" for name, option in self.options.items()}
        return {**options, **SHOWN_HELP}

    def set(self, name: str, value: str) -> str:
        """Sets an option from text; "default" takes it back. Returns what it is now.

        Raises:
            UsageError: there is no such setting, or the value is refused; nothing has changed.
        """
        key = name.replace("-", "_").lower()
        if key in SHOWN_HELP:
            return self._set_shown(key, value)
        option = self.options.get(key)
        if option is None:
            near = difflib.get_close_matches(key, self.names, n=1)
            hint = f"the nearest is {near[0]}" if near else "/set lists them"
            raise UsageError(f"no setting {shortened(name)}; {hint}")
        given = {**self.conversation.given}
        if value == DEFAULT:
            given[str(option.name)] = None
        else:
            given[str(option.name)] = _converted(option, key, value)
        if key == "temperature":
            given["greedy"] = False
        self.conversation.change(given)
        return f"{key}: {self._value(key) or 'as by default'}"

    def lines(self) -> list[str]:
        """Each setting that is not the default, and the names of the others."""
        own = {name: self._value(name) for name in self.options}
        set_ = [f"{name}: {value}" for name, value in own.items() if value is not None]
        set_ += [f"{name}: {self._value(name)}" for name in SHOWN_HELP]
        others = ", ".join(name for name, value in own.items() if value is None)
        return [*set_, f"at their defaults: {others}", "/set NAME VALUE; /set NAME default"]

    def _value(self, name: str) -> str | None:
        """As people read it; None where it is at its default."""
        if name in SHOWN_HELP:
            return "on" if getattr(self.shown, _field(name)) else "off"
        key = str(self.options[name].name)
        options: Mapping[str, object] = {
            **self.conversation.options,
            "seed": self.conversation.given["seed"],
        }
        value = options.get(key)
        if value is None or value == ():
            return None
        return value if isinstance(value, str) else json.dumps(value)

    def _set_shown(self, name: str, value: str) -> str:
        default = {field.name: field.default for field in fields(Shown)}
        known = {**ON, **OFF, DEFAULT: default[_field(name)]}
        if value.lower() not in known:
            raise UsageError(f"{name} is {shortened(value)}; give on or off")
        setattr(self.shown, _field(name), known[value.lower()])
        return f"{name}: {self._value(name)}"


def _field(name: str) -> str:
    return "draft" if name == "draft_colour" else name


def _converted(option: click.Option, name: str, value: str) -> object:
    """What the command would be given for this text."""
    given = (value,) if option.multiple else value
    try:
        return option.process_value(click.Context(click.Command(name)), given)
    except click.UsageError as error:
        raise UsageError(f"{name}: {in_plain_words(error.message)}") from None
