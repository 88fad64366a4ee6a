"""A chat template as the two texts around a user's message, so that a device needs no Jinja."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from edgespec.errors import EdgespecError
from edgespec_export.json_file import read_json_object

__all__ = ["chat_format", "folder_chat"]

_SENTINEL = "edgespec\u2063user\u2063text"  # no template looks for it


def chat_format(
    template: str, special_tokens: Mapping[str, str] | None = None
) -> dict[str, str] | None:
    """`{"before": …, "after": …}` around the one user message that opens a chat.

    The prompt is `before + text + after`, special tokens and all: a tokenizer must not add its own
    in front. A template that trims messages expects a trimmed text. One that prints the date keeps
    the date of the export.

    Args:
        template: Jinja, as transformers renders it; it runs in Jinja's sandbox.
        special_tokens: what the template puts in for `bos_token` and other such names.

    Returns:
        The two texts; None if the template cannot be rendered with one user message, or does not
        give the message back as it is, and exactly once.
    """
    try:
        text = (
            _environment()
            .from_string(template)
            .render(
                {
                    **(special_tokens or {}),
                    "messages": [{"role": "user", "content": _SENTINEL}],
                    "add_generation_prompt": True,
                    "tools": None,  # a template may ask whether it is none, and undefined is not
                    "documents": None,
                }
            )
        )
    except Exception:  # a template is a program, and may fail like one
        return None
    before, *rest = text.split(_SENTINEL)
    return {"before": before, "after": rest[0]} if len(rest) == 1 else None


def folder_chat(folder: Path) -> dict[str, str] | None:
    """The chat format of a checkpoint folder; None if it has no template, or none that splits.

    The template is in `chat_template.jinja` or in `tokenizer_config.json`.

    Raises:
        EdgespecError: one of these files is corrupt.
    """
    path = folder / "tokenizer_config.json"
    settings = read_json_object(path) if path.is_file() else {}
    template = _template(folder, settings)
    if template is None:
        return None
    return chat_format(template, _special_tokens(folder, settings))


def _special_tokens(folder: Path, settings: dict[str, Any]) -> dict[str, str]:
    """By name, as transformers finds them: a newer tokenizer_config.json stands for itself."""
    path = folder / "special_tokens_map.json"
    if path.is_file() and "added_tokens_decoder" not in settings:
        settings = {**settings, **read_json_object(path)}
    named = {key: value for key, value in settings.items() if key.endswith("_token")}
    extra = settings.get("extra_special_tokens")
    if isinstance(extra, dict):
        named |= extra
    tokens = {key: _token(value) for key, value in named.items()}
    return {key: token for key, token in tokens.items() if token is not None}


def _template(folder: Path, settings: dict[str, Any]) -> str | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise EdgespecError(f"{path}: cannot be read ({error})") from error
    template = settings.get("chat_template")
    if isinstance(template, list):  # several, by name
        named = {entry.get("name"): entry.get("template") for entry in template}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _token(token: Any) -> str | None:
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None


def _environment() -> ImmutableSandboxedEnvironment:
    """Jinja set up as transformers does for chat templates."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


class _Generation(Extension):
    """`{% generation %}`, which marks the assistant's part for training, prints what it holds."""

    tags = {"generation"}  # noqa: RUF012 (Jinja's own declaration)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)  # Jinja's own escapes HTML


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.datetime.now().strftime(pattern)
