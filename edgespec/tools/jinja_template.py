"""A model's chat template, rendered by Jinja: for conversations with tools."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from edgespec.artifact.manifest import CHAT_TEMPLATE
from edgespec.artifact.typed_json import read_json
from edgespec.errors import EdgespecError, UsageError, needs_extra, one_line

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["ChatTemplate", "read_chat_template"]


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template, as an exported folder has it where the template knows tools.

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
    ) -> str:
        """The text of a conversation, in Jinja's sandbox.

        Args:
            answers: end with what begins an answer.

        Raises:
            UsageError: the template refuses the messages.
            EdgespecError: Jinja is not installed.
        """
        with needs_extra("tools"):
            environment = _environment()
        values = {
            **self.special_tokens,
            "messages": messages,
            "add_generation_prompt": answers,
            "tools": tools,  # None is not left undefined: templates test it with `is none`
            "documents": None,
        }
        try:
            return environment.from_string(self.template).render(values)
        except Exception as error:  # a template is a program and may raise anything
            raise UsageError(
                f"this model's chat template refuses the messages ({one_line(error)})"
            ) from None

    def shows_tools(self) -> bool:
        """Whether it writes the tools that it is given."""
        name = "edgespec_tool"
        function = {"name": name, "description": "", "parameters": {"type": "object"}}
        question = [{"role": "user", "content": "?"}]
        try:
            return name in self.render(question, [{"type": "function", "function": function}])
        except UsageError:
            return False


def read_chat_template(folder: Path) -> ChatTemplate | None:
    """The template of an exported folder; None if it has none.

    Raises:
        EdgespecError: the file is damaged.
    """
    path = folder / CHAT_TEMPLATE
    if not path.is_file():
        return None
    try:
        return read_json(ChatTemplate, path)
    except (OSError, ValueError) as error:
        raise EdgespecError(f"{path} is damaged ({error}); export the pair again") from None


def _environment() -> Environment:
    """Jinja set up as transformers does for chat templates."""
    import jinja2
    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}`, which marks the assistant's part for training, renders its
        contents."""

        tags = {"generation"}  # noqa: RUF012 (Jinja's own declaration)

        def parse(self, parser: Parser) -> list[nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message: str) -> NoReturn:
        raise jinja2.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _to_json(value: object, ensure_ascii: bool = False, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)  # Jinja's filter escapes HTML


def _strftime_now(pattern: str) -> str:
    return datetime.datetime.now().strftime(pattern)
