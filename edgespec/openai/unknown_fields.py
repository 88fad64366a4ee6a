"""The fields of a request that are not known here: they are passed over with a note, or refused."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping

from edgespec.errors import UsageError, shortened
from edgespec.openai.json_value import JsonObject, JsonValue
from edgespec.openai.openai_absent import ABSENT, HARMLESS
from edgespec.openai.openai_fields import TEXT_TYPES, TYPES

__all__ = ["UnknownFields", "names_of", "unknown_fields"]

logger = logging.getLogger("edgespec")

MOST_NOTES = 1000  # a client may invent names
TOP = {*TYPES, *TEXT_TYPES, *ABSENT, *HARMLESS, "best_of"}
STREAM_OPTIONS = {"include_usage", "include_obfuscation", "continuous_usage_stats"}
# Of the object with the grammar, by the format's type.
FORMATS = {
    "json_schema": {"name", "description", "schema", "strict"},
    "grammar": {"syntax", "definition"},
}
FUNCTION = {"name", "description", "parameters", "strict"}


def unknown_fields(body: JsonObject) -> Iterator[str]:
    """The names of the unknown fields, with where they are: "tools.function.examples"."""
    yield from _unknown("", body, TOP)
    yield from _unknown("stream_options.", body.get("stream_options"), STREAM_OPTIONS)
    form = body.get("response_format")
    yield from _unknown("response_format.", form, {"type", "schema", *FORMATS})
    for kind, known in FORMATS.items():
        inner = form.get(kind) if isinstance(form, Mapping) else None
        yield from _unknown(f"response_format.{kind}.", inner, known)
    tools = body.get("tools")
    for tool in tools if isinstance(tools, list) else []:
        yield from _unknown("tools.", tool, {"type", "function"})
        function = tool.get("function") if isinstance(tool, Mapping) else None
        yield from _unknown("tools.function.", function, FUNCTION)


def names_of(body: JsonObject, known: Collection[str]) -> Iterator[str]:
    """The names of a request's own fields that are not among the known ones."""
    return _unknown("", body, known)


def _unknown(where: str, value: JsonValue, known: Collection[str]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name in value:
            if name not in known and value[name] is not None:
                yield where + shortened(name)[1:-1]


class UnknownFields:
    """What is done about unknown fields.

    Args:
        strict: they are refused; else the log has a note of each, once.
    """

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._noted: set[str] = set()

    def check(
        self,
        body: JsonObject,
        unknown: Callable[[JsonObject], Iterator[str]] = unknown_fields,
    ) -> None:
        """Looks at a request. Raises UsageError if it is refused.

        Args:
            unknown: gives the names that the request's interface does not know.
        """
        for name in unknown(body):
            if self._strict:
                raise UsageError(f"{name} is not known here, and --strict is on; leave it out")
            if name not in self._noted and len(self._noted) < MOST_NOTES:
                self._noted.add(name)
                logger.warning("a request has the field %s, which is not known: ignored", name)
