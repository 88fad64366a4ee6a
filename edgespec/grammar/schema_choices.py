"""Schemas that exclude each other, so that `oneOf` asks for no more than `anyOf`.

llguidance finds this out for schemas that are written in place, not for those that a reference
names, as in the discriminated unions of pydantic.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from edgespec.grammar.schema_references import referenced

__all__ = ["exclude_each_other"]

LONGEST = 20  # references to references that are followed


def exclude_each_other(root: Mapping[str, object], choices: Sequence[object]) -> bool:
    """Whether no value fits two of the schemas: they have other types, or there is a property that
    each requires, with other constants.

    Args:
        root: the whole schema, to which references belong.
    """
    schemas = [_followed(root, choice) for choice in choices]
    if not all(isinstance(schema, Mapping) for schema in schemas):
        return False
    known = [schema for schema in schemas if isinstance(schema, Mapping)]
    if _are_disjoint(_types(schema) for schema in known):
        return True
    names = _required(known[0]) if known else ()
    return any(_are_disjoint(_constants(root, schema, name) for schema in known) for name in names)


def _followed(root: Mapping[str, object], schema: object) -> object:
    """What a schema that is only a reference names."""
    for _ in range(LONGEST):
        if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
            break
        schema = referenced(root, str(schema["$ref"]))
    return schema


def _types(schema: Mapping[str, object]) -> frozenset[str]:
    """The types that its values may have; none if they are not said."""
    given = schema.get("type")
    types = {
        kind for kind in (given if isinstance(given, list) else [given]) if isinstance(kind, str)
    }
    return frozenset(types | {"integer"} if "number" in types else types)


def _required(schema: Mapping[str, object]) -> list[str]:
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    return [name for name in names if isinstance(name, str)]


def _constants(
    root: Mapping[str, object], schema: Mapping[str, object], name: str
) -> frozenset[str]:
    """The values that a property may have, as JSON; none if it may be absent or have any."""
    properties = schema.get("properties")
    if schema.get("type") != "object" or name not in _required(schema):
        return frozenset()
    part = _followed(root, properties.get(name)) if isinstance(properties, Mapping) else None
    if not isinstance(part, Mapping):
        return frozenset()
    values = [part["const"]] if "const" in part else part.get("enum")
    return frozenset(map(json.dumps, values)) if isinstance(values, list) else frozenset()


def _are_disjoint(sets: Iterable[frozenset[str]]) -> bool:
    """Whether none is empty and no two have a member in common."""
    found: set[str] = set()
    for members in sets:
        if not members or members & found:
            return False
        found |= members
    return True
