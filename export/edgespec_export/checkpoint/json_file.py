"""JSON files that must hold an object, and the types of JSON values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeAlias

from edgespec.errors import EdgespecError

__all__ = ["JsonObject", "JsonValue", "read_json_object"]

JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"
JsonObject: TypeAlias = dict[str, JsonValue]


def read_json_object(path: Path) -> JsonObject:
    """The object in a JSON file.

    Raises:
        EdgespecError: the file cannot be read, is not JSON, or holds something else.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise EdgespecError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:  # JSON and UTF-8 errors are ValueErrors
        raise EdgespecError(f"{path}: is not JSON ({error}): download it again") from error
    if not isinstance(value, dict):
        raise EdgespecError(f"{path}: holds a JSON {type(value).__name__}, not an object")
    return value
