"""References within a JSON schema: what they name, and how deep a chain of them goes."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from edgespec.errors import UsageError
from edgespec.grammar.schema_keywords import inner_schemas

__all__ = ["MOST_LEVELS", "check_chains", "referenced"]

# llguidance follows references by recursion, and overflows the stack near 1500 levels.
MOST_LEVELS = 1000


def check_chains(schema: Mapping[str, object]) -> None:
    """Raises UsageError if schemas could be nested too deeply where each reference is followed
    once, whatever the order."""
    heights, names = _heights(schema)
    levels = heights[id(schema)]
    levels += sum(heights.get(id(referenced(schema, name)), 1) for name in names)
    if levels > MOST_LEVELS:
        raise UsageError(
            f"the JSON schema has {levels} levels, counting the schemas that references name; the "
            f"limit is {MOST_LEVELS}: use fewer references"
        )


def referenced(schema: Mapping[str, object], reference: str) -> object:
    """What a reference names; True, which any value fits, where llguidance has to find it."""
    if reference != "#" and not reference.startswith("#/"):
        return True
    part: object = schema
    for step in unquote(reference[1:]).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(part, Mapping):
            part = part.get(name, True)
        elif isinstance(part, list) and _is_index(name) and int(name) < len(part):
            part = part[int(name)]
        else:
            return True
    return part


def _is_index(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) < 10


def _heights(schema: Mapping[str, object]) -> tuple[dict[int, int], set[str]]:
    """How many schemas are nested in each, itself included, by its identity; and all references."""
    found: list[tuple[object, object]] = []  # schemas with those they are in, which come first
    names: set[str] = set()
    pending: list[tuple[object, object]] = [(schema, None)]
    while pending:
        part, outer = pending.pop()
        found.append((part, outer))
        if isinstance(part, Mapping):
            if isinstance(reference := part.get("$ref"), str):
                names.add(reference)
            pending += ((inner, part) for inner, _ in inner_schemas(part))
    heights: dict[int, int] = {}
    for part, outer in reversed(found):
        height = heights.setdefault(id(part), 1)
        if outer is not None:
            heights[id(outer)] = max(heights.get(id(outer), 1), 1 + height)
    return heights, names
