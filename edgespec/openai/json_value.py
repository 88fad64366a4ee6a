"""Values of JSON, as types, and as text on one line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

__all__ = ["JsonObject", "JsonValue", "json_line", "renamed"]

JsonValue: TypeAlias = (
    "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
)
JsonObject: TypeAlias = Mapping[str, JsonValue]

# What some readers take for the end of a line (`str.splitlines`); JSON escapes the others itself.
LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


def json_line(value: JsonValue) -> bytes:
    """The value as JSON in UTF-8, which every reader of lines takes for one line.

    Half a surrogate pair, which JSON can name and UTF-8 cannot, stays escaped.
    """
    text = json.dumps(value, ensure_ascii=False).translate(LINE_ENDS)
    return text.encode(errors="backslashreplace")


def renamed(fields: JsonObject, names: Mapping[str, str]) -> dict[str, JsonValue]:
    """The fields that have a value, under their names in another interface.

    Args:
        names: there, by the names here; other fields are left out.
    """
    return {there: fields[here] for here, there in names.items() if fields.get(here) is not None}
