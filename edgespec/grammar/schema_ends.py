"""Whether a JSON schema has a value that ends: {"required": ["next"], …} may ask for itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from urllib.parse import unquote

from edgespec.errors import UsageError
from edgespec.grammar.schema_keywords import inner_schemas

__all__ = ["check_ends"]


def check_ends(schema: Mapping[str, object]) -> None:
    """Raises UsageError if every value of a checked schema would contain itself."""
    ending: set[str] = set()  # references whose schemas have values that end
    waiting = {reference: _target(schema, reference) for reference in _references(schema)}
    while True:
        found = [name for name, target in waiting.items() if _ends(target, ending)]
        if not found:
            break
        for name in found:
            ending.add(name)
            del waiting[name]
    if not _ends(schema, ending):
        raise UsageError(
            "the JSON schema asks for a value that contains itself, so no text would end; make a "
            "property optional, or allow null"
        )


def _references(schema: object) -> set[str]:
    found: set[str] = set()
    pending: list[object] = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            if isinstance(reference := part.get("$ref"), str):
                found.add(reference)
            pending += (inner for inner, _ in inner_schemas(part))
    return found


def _target(schema: Mapping[str, object], reference: str) -> object:
    """What a reference names; True, which any value fits, where llguidance has to find it."""
    if not reference.startswith("#"):
        return True
    part: object = schema
    for step in unquote(reference[1:]).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(part, Mapping):
            part = part.get(name, True)
        elif isinstance(part, list) and name.isdecimal() and int(name) < len(part):
            part = part[int(name)]
        else:
            return True
    return part


def _ends(schema: object, ending: Collection[str]) -> bool:
    """Whether some value of the schema ends, if those of `ending` do and other references not."""
    if not isinstance(schema, Mapping) or "enum" in schema or "const" in schema:
        return True
    if isinstance(reference := schema.get("$ref"), str) and reference not in ending:
        return False
    if not all(_ends(part, ending) for part in _listed(schema.get("allOf"))):
        return False
    for name in ("anyOf", "oneOf"):
        choices = _listed(schema.get(name))
        if choices and not any(_ends(part, ending) for part in choices):
            return False
    types = schema.get("type", "any")
    return any(
        {"object": _object_ends, "array": _array_ends}.get(kind, _scalar_ends)(schema, ending)
        for kind in (types if isinstance(types, list) else [types])
    )


def _scalar_ends(schema: Mapping[str, object], ending: Collection[str]) -> bool:
    return True


def _object_ends(schema: Mapping[str, object], ending: Collection[str]) -> bool:
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    others = schema.get("additionalProperties", True)
    return all(_ends(known.get(name, others), ending) for name in _listed(schema.get("required")))


def _array_ends(schema: Mapping[str, object], ending: Collection[str]) -> bool:
    least = schema.get("minItems", 0)
    if not isinstance(least, int) or least < 1:
        return True
    first = [*_listed(schema.get("prefixItems"))][:least]
    rest = schema.get("items", True) if len(first) < least else True
    return all(_ends(part, ending) for part in (*first, rest))


def _listed(value: object) -> Iterable[object]:
    return value if isinstance(value, list) else ()
