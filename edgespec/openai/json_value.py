"""Values of JSON, as types, and as text on one line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

__all__ = ["JsonObject", "JsonValue", "json_line"]

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
