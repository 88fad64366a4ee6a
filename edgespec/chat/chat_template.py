"""A model's chat template, rendered by Jinja within limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from edgespec.artifact.manifest import CHAT_TEMPLATE
from edgespec.artifact.typed_json import read_json
from edgespec.errors import EdgespecError, UsageError, in_checkout, needs_extra, one_line, shortened

if TYPE_CHECKING:
    from jinja2 import Template

    from edgespec.chat.sandbox import BoundedEnvironment

__all__ = [
    "ChatTemplate",
    "RefusedMessagesError",
    "TemplateFailedError",
    "TemplateStoppedError",
    "check_template_options",
    "jinja_is_installed",
    "read_chat_template",
]

MAX_LENGTH = 1_000_000  # characters of a template
RESERVED = ("messages", "tools", "add_generation_prompt")
WIDE_DATE = re.compile(r"%[-_0^#+]*\d{3}")
JINJA = (3, 1, 6)  # older ones let templates out of the sandbox


class RefusedMessagesError(UsageError):
    """The template itself says that it does not take the messages (`raise_exception`)."""


class TemplateFailedError(UsageError):
    """The template failed: it has an error, or an error in the face of these messages."""


class TemplateStoppedError(TemplateFailedError):
    """The template took more steps, time or memory than it may."""


class Rendering(NamedTuple):
    """What a template wrote.

    Attributes:
        text: a `TrackedText` where the messages' texts were.
        wrote_none: a None is part of it, which is no text of a prompt.
    """

    text: str
    wrote_none: bool


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template, as an exported folder has it.

    Attributes:
        template: Jinja, as transformers renders it.
        special_tokens: the values of `bos_token` and similar names in it.
    """

    template: str
    special_tokens: dict[str, str] = field(default_factory=dict)

    def render(
        self,
        messages: Sequence[Mapping[str, object]],
        tools: Sequence[Mapping[str, object]] | None = None,
        *,
        answers: bool = True,
        options: Mapping[str, object] | None = None,
        date: Callable[[str], str] | None = None,
    ) -> str:
        """The text of a conversation; see `rendering`."""
        return self.rendering(messages, tools, answers=answers, options=options, date=date).text

    def rendering(
        self,
        messages: Sequence[Mapping[str, object]],
        tools: Sequence[Mapping[str, object]] | None = None,
        *,
        answers: bool = True,
        options: Mapping[str, object] | None = None,
        date: Callable[[str], str] | None = None,
    ) -> Rendering:
        """What the template writes, in Jinja's sandbox and within limits of work and size.

        Args:
            answers: end with what begins an answer.
            options: further values by name, such as `enable_thinking`.
            date: what `strftime_now` gives for a pattern; default: of now.

        Raises:
            RefusedMessagesError: the template says that it does not take the messages.
            TemplateFailedError: it failed.
            TemplateStoppedError: it took more steps, time or memory than it may.
            EdgespecError: Jinja is not installed.
        """
        compiled = self._compiled  # raises EdgespecError
        from edgespec.chat.sandbox import TemplateLimitError, TemplateRaisedError

        values = {
            **self.special_tokens,
            "strftime_now": _date if date is None else date,
            "documents": None,
            **(options or {}),
            "messages": messages,
            "add_generation_prompt": answers,
            "tools": tools,  # None is not left undefined: templates test it with `is none`
        }
        try:
            with compiled.environment.working(len(messages)) as work:
                return Rendering(compiled.template.render(values), work.wrote_none)
        except TemplateRaisedError as error:
            raise RefusedMessagesError(
                f"this model's chat template refuses the messages ({one_line(error, 300)})"
            ) from None
        except TemplateLimitError as error:
            raise TemplateStoppedError(
                f"this model's chat template was stopped: {error}; it belongs to the model, and "
                "no chat needs that: take another model, or give plain texts"
            ) from None
        except Exception as error:  # a template is a program and may raise anything
            raise TemplateFailedError(
                f"this model's chat template refuses the messages ({one_line(error, 300)})"
            ) from None

    @cached_property
    def _compiled(self) -> _Compiled:
        with needs_extra("chat"):
            import jinja2
        version = tuple(int(part) for part in jinja2.__version__.split(".")[:3] if part.isdigit())
        if version < JINJA:
            raise EdgespecError(
                f"jinja2 {jinja2.__version__} is installed, and lets chat templates out of their "
                f"sandbox; update it: {in_checkout('.[chat]')}"
            )
        from edgespec.chat.sandbox import BoundedEnvironment

        if len(self.template) > MAX_LENGTH:
            raise TemplateFailedError(
                f"this model's chat template has {len(self.template)} characters; the limit is "
                f"{MAX_LENGTH}"
            )
        environment = BoundedEnvironment()
        try:
            with environment.working():  # constants are computed here
                return _Compiled(environment, environment.from_string(self.template))
        except Exception as error:
            raise TemplateFailedError(
                f"this model's chat template is no Jinja ({one_line(error, 300)})"
            ) from None

    def names(self, name: str) -> bool:
        """Whether its text has this word, so that what it writes may depend on it."""
        return name in self.template

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """Names of the values that it reads, besides messages and tools, in order. Jinja's own
        functions are among them: who gives a value of that name replaces one."""
        from jinja2 import meta, nodes

        environment = self._compiled.environment
        tree = environment.parse(self.template)
        used = {node.name for node in tree.find_all(nodes.Name)}
        with environment.working():  # constants are computed here
            names = meta.find_undeclared_variables(tree)
        return tuple(sorted(names.union(used.intersection(environment.globals)) - {*RESERVED}))

    @cached_property
    def shows_tools(self) -> bool:
        """Whether it writes the tools that it is given."""
        name = "edgespec_tool"
        function = {"name": name, "description": "", "parameters": {"type": "object"}}
        question = [{"role": "user", "content": "?"}]
        try:
            return name in self.render(question, [{"type": "function", "function": function}])
        except UsageError:
            return False

    @cached_property
    def takes_parts(self) -> bool:
        """Whether it writes the texts of a content that is a list of parts, one after the other;
        other templates take one text."""
        parts = [{"type": "text", "text": f"edgespecPart{number}"} for number in (1, 2)]
        try:
            text = self.render([{"role": "user", "content": parts}])
        except UsageError:
            return False
        between = text.partition(parts[0]["text"])[2].partition(parts[1]["text"])
        return bool(between[1]) and "type" not in between[0]


class _Compiled(NamedTuple):
    environment: BoundedEnvironment
    template: Template


def read_chat_template(folder: Path, files: Collection[str]) -> ChatTemplate | None:
    """The template of an exported folder; None if it has none.

    Args:
        files: that the folder's manifest records.

    Raises:
        EdgespecError: the file is damaged.
    """
    if CHAT_TEMPLATE not in files:  # nobody signed it
        return None
    path = folder / CHAT_TEMPLATE
    try:
        return read_json(ChatTemplate, path)
    except (OSError, ValueError) as error:
        raise EdgespecError(f"{path} is damaged ({error}); export the pair again") from None


def jinja_is_installed() -> bool:
    """Whether chat templates can be rendered here."""
    return find_spec("jinja2") is not None


def check_template_options(options: Mapping[str, object]) -> None:
    """Raises UsageError unless these are values that a template can be given by name."""
    for name, value in options.items():
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
            raise UsageError(f"a template has no option {shortened(name)}; give a name")
        if name in RESERVED:
            raise UsageError(f"the template's {name} is not an option; leave {name} out of them")
        if not _is_plain(value):
            raise UsageError(f"the template option {name} is {shortened(value)}; give JSON")


def _is_plain(value: object, depth: int = 50) -> bool:
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        return depth > 0 and all(_is_plain(part, depth - 1) for part in value)
    return value is None or isinstance(value, str | int | float)


def _date(pattern: str) -> str:
    if len(pattern) > 200 or WIDE_DATE.search(pattern):  # C's strftime pads to any width
        raise ValueError(f"a date has the pattern {shortened(pattern)}")
    return datetime.now().strftime(pattern)
