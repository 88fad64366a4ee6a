"""JSON files, read as dataclasses with their types checked, and written whole or not at all."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import UnionType
from typing import TypeVar, Union, cast, get_args, get_origin, get_type_hints

from edgespec.artifact.atomic_file import whole_file
from edgespec.errors import shortened

__all__ = ["LATER", "parsed", "read_json", "write_json"]

T = TypeVar("T")

# Marks a field, by its `metadata`, that files of the same version from before it lack.
LATER = {"later": True}


def write_json(data: object, path: Path) -> None:
    """Raises OSError where it cannot be written; `path` is then as it was."""
    with whole_file(path) as aside:
        aside.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(kind: type[T], path: Path) -> T:
    """The content of a file as a value of type `kind`, see `parsed`.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no JSON, or of another type.
    """
    try:
        return parsed(kind, json.loads(path.read_text(encoding="utf-8-sig")), path.name)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parsed(kind: type[T], value: object, where: str) -> T:
    """A JSON value as the type that an annotation names; values of other types are refused.

    Args:
        kind: a dataclass, dict, list, tuple or union of such, a plain type, or `object`, which all
            are.
        where: the value's name, for the message.

    Raises:
        ValueError: it has another type, or a field is missing or unknown.
    """
    return cast(T, _parsed(kind, value, where))


def _parsed(kind: object, value: object, where: str) -> object:
    parts = get_args(kind)
    origin = get_origin(kind)
    if kind is object:
        return value
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _object(kind, value, where)
    if origin in (Union, UnionType):
        fitting = [part for part in parts if _fits(part, value)]
        return _parsed(fitting[0] if fitting else parts[0], value, where)
    if origin is dict and isinstance(value, dict):
        return {key: _parsed(parts[1], part, key) for key, part in value.items()}
    if origin in (tuple, list) and isinstance(value, list):
        items = [_parsed(parts[0], part, where) for part in value]
        return tuple(items) if origin is tuple else items
    if _fits(kind, value):
        return value
    raise ValueError(f"{where:.60} is {shortened(value)}")


def _fits(kind: object, value: object) -> bool:
    """Whether a value is of a plain type; JSON does not tell 1.0 from 1."""
    return type(value) is kind or (kind is float and type(value) is int)


def _object(kind: type, value: object, where: str) -> object:
    """An instance of a dataclass; fields marked LATER may be missing, and have their default."""
    fields = get_type_hints(kind)
    if not isinstance(value, dict):
        raise ValueError(f"{where:.60} is {shortened(value)}, not an object")
    missing = sorted(_needed(kind) - value.keys())
    if missing:
        raise ValueError(f"{where:.60} lacks {missing[0]}")
    unknown = sorted(value.keys() - fields.keys())
    if unknown:
        raise ValueError(f"{where:.60} has the unknown field {shortened(unknown[0])}")
    return kind(**{key: _parsed(fields[key], value[key], key) for key in value})


def _needed(kind: type) -> set[str]:
    """The fields that must be there."""
    return {field.name for field in dataclasses.fields(kind) if field.metadata != LATER}
