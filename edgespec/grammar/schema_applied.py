"""A JSON schema as it is applied: without what only describes values."""

from __future__ import annotations

from collections.abc import Mapping

from edgespec.grammar.schema_choices import exclude_each_other
from edgespec.grammar.schema_keywords import CONSTRAINTS, SCHEMAS, SCHEMAS_BY_NAME

__all__ = ["DESCRIBING_FORMATS", "applied"]

# Formats that say what a value is for, not how it is written: OpenAPI's and pydantic's.
DESCRIBING_FORMATS = frozenset(
    {
        *("password", "binary", "byte", "char", "float", "double", "decimal", "decimal128"),
        *("path", "file-path", "directory-path", "json-string", "multi-host-uri"),
        *("text", "textarea", "multiline", "markdown", "html", "color", "phone"),
    }
)
KEPT = CONSTRAINTS | {"$schema", "$id"}  # by which references are read


def applied(
    schema: Mapping[str, object], root: Mapping[str, object] | None = None
) -> dict[str, object]:
    """A checked schema without what only describes values, in any part of it. `oneOf` becomes
    `anyOf` where its schemas exclude each other.

    Args:
        root: the whole schema, where this is a part of it.
    """
    root = schema if root is None else root
    kept = {name: value for name, value in schema.items() if name in KEPT}
    kind = kept.get("format")
    if isinstance(kind, str) and kind in DESCRIBING_FORMATS:
        del kept["format"]
    choices = kept.get("oneOf")
    if isinstance(choices, list) and "anyOf" not in kept and exclude_each_other(root, choices):
        kept["anyOf"] = kept.pop("oneOf")
    for name in SCHEMAS_BY_NAME:
        if isinstance(inner := kept.get(name), Mapping):
            kept[name] = {key: _part(part, root) for key, part in inner.items()}
    for name in SCHEMAS:
        inner = kept.get(name)
        if isinstance(inner, list):
            kept[name] = [_part(part, root) for part in inner]
        elif name in kept:
            kept[name] = _part(inner, root)
    return kept


def _part(part: object, root: Mapping[str, object]) -> object:
    return applied(part, root) if isinstance(part, Mapping) else part
