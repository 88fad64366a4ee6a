"""The keywords of JSON schemas: those that are applied, those that only describe, and the others.

JSON Schema lets a reader ignore what it does not know; then a text would not fit what was asked
for, and nobody would be told. So a keyword that restricts values and is not known is refused by its
name. What only describes them is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from edgespec.errors import UsageError, printable, shortened

__all__ = [
    "ANNOTATIONS",
    "CONSTRAINTS",
    "DEEPEST",
    "SCHEMAS",
    "SCHEMAS_BY_NAME",
    "check_keywords",
    "inner_schemas",
]

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
# What says nothing about which values fit; the last line is OpenAPI's. A discriminator names a
# property by which readers choose among the schemas of `oneOf`, which hold without it.
ANNOTATIONS = frozenset(
    {
        *("$schema", "$id", "$comment", "$vocabulary", "$anchor"),
        *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
        *("contentMediaType", "contentEncoding", "contentSchema"),
        *("discriminator", "example", "externalDocs", "xml"),
    }
)
OWN_ANNOTATION = "x-"  # begins the names of annotations that anybody may add
SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions")
SCHEMAS = (
    *("items", "prefixItems", "additionalProperties"),
    *("anyOf", "oneOf", "allOf"),
)
DEEPEST = 60  # levels of schemas in schemas
Path = tuple["Path | None", str]  # of a schema: that of the schema around it, and its own part


def check_keywords(schema: Mapping[str, object]) -> None:
    """Checks a schema and all schemas in it.

    Raises:
        UsageError: a keyword is not known, a schema is none, or they are nested too deeply.
    """
    pending: list[tuple[object, Path, int]] = [(schema, (None, "#"), 0)]
    while pending:
        part, where, depth = pending.pop()
        if isinstance(part, bool):
            continue
        if not isinstance(part, Mapping):
            raise UsageError(
                f"the JSON schema has {shortened(part)} at {_at(where)}; give a schema"
            )
        if depth > DEEPEST:
            raise UsageError(f"the JSON schema is nested deeper than {DEEPEST} schemas; flatten it")
        for name in part:
            _check_keyword(part, name, where)
        pending += ((inner, (where, name), depth + 1) for inner, name in inner_schemas(part))


def _check_keyword(schema: Mapping[str, object], name: str, where: Path) -> None:
    if name in CONSTRAINTS or _is_annotation(name):
        return
    if name == "uniqueItems":
        if _holds_anyway(schema):
            return
        raise UsageError(
            f"the JSON schema has uniqueItems at {_at(where)}, which no grammar can keep; leave it "
            "out, and drop what comes twice from the answer"
        )
    raise UsageError(
        f"the JSON schema has the keyword {shortened(name)} at {_at(where)}, which is not known "
        "here; leave it out"
    )


def _is_annotation(name: object) -> bool:
    return name in ANNOTATIONS or (isinstance(name, str) and name.startswith(OWN_ANNOTATION))


def _holds_anyway(schema: Mapping[str, object]) -> bool:
    """Whether `uniqueItems` asks for nothing, or for what all lists of the schema keep."""
    most = schema.get("maxItems")
    at_most_one = isinstance(most, int) and most <= 1
    return schema["uniqueItems"] is False or at_most_one


def _at(path: Path) -> str:
    """A schema's place, from the root."""
    parts: list[str] = []
    rest: Path | None = path
    while rest is not None:
        rest, part = rest
        parts.append(part[:80])
    return printable("/".join(reversed(parts))[:80])


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
