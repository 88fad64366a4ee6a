"""The keywords of JSON schemas: those that are known, and where others are.

JSON Schema lets a reader ignore what it does not know; then a text would not fit what was asked
for, and nobody would be told. So every other keyword is refused by its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from edgespec.errors import UsageError, shortened

__all__ = ["ANNOTATIONS", "CONSTRAINTS", "DEEPEST", "check_keywords", "inner_schemas"]

# What llguidance applies.
CONSTRAINTS = frozenset(
    {
        *("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "$defs", "definitions"),
        *("minLength", "maxLength", "pattern", "format"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("items", "prefixItems", "minItems", "maxItems"),
        *("properties", "required", "additionalProperties", "patternProperties"),
        *("minProperties", "maxProperties"),
    }
)
# What says nothing about which values fit.
ANNOTATIONS = frozenset(
    {
        *("$schema", "$id", "$comment", "title", "description", "default", "examples"),
        *("deprecated", "readOnly", "writeOnly"),
    }
)
SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions")
SCHEMAS = (
    *("items", "prefixItems", "additionalProperties"),
    *("anyOf", "oneOf", "allOf"),
)
DEEPEST = 60  # levels of schemas in schemas


def check_keywords(schema: Mapping[str, object]) -> None:
    """Checks a schema and all schemas in it.

    Raises:
        UsageError: a keyword is not known, a schema is none, or they are nested too deeply.
    """
    pending: list[tuple[object, str, int]] = [(schema, "#", 0)]
    while pending:
        part, where, depth = pending.pop()
        if isinstance(part, bool):
            continue
        if not isinstance(part, Mapping):
            raise UsageError(f"the JSON schema has {shortened(part)} at {where}; give a schema")
        if depth > DEEPEST:
            raise UsageError(f"the JSON schema is nested deeper than {DEEPEST} schemas; flatten it")
        for name in part:
            if name not in CONSTRAINTS and name not in ANNOTATIONS:
                raise UsageError(
                    f"the JSON schema has the keyword {shortened(name)} at {where[:80]}, which is "
                    "not known here; leave it out"
                )
        pending += ((inner, f"{where}/{name}", depth + 1) for inner, name in inner_schemas(part))


def inner_schemas(schema: Mapping[str, object]) -> Iterator[tuple[object, str]]:
    """The schemas directly in a schema, each with its path."""
    for name in SCHEMAS_BY_NAME:
        inner = schema.get(name)
        if isinstance(inner, Mapping):
            yield from ((part, f"{name}/{key}") for key, part in inner.items())
    for name in SCHEMAS:
        inner = schema.get(name)
        if isinstance(inner, list):
            yield from ((part, f"{name}/{number}") for number, part in enumerate(inner))
        elif inner is not None:
            yield inner, name
