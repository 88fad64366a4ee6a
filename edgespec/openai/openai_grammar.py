"""OpenAI's `response_format` as a grammar."""

from __future__ import annotations

from collections.abc import Mapping

from edgespec.errors import UsageError, shortened
from edgespec.grammar.grammar import Grammar, json_schema, lark, regex
from edgespec.openai.json_value import JsonValue

__all__ = ["response_grammar"]

# The fields of the object with the grammar, by the format's type; "grammar" is the form that OpenAI
# uses in tools.
FIELDS = {
    "json_schema": {"name", "description", "schema", "strict"},
    "grammar": {"syntax", "definition"},
}
SYNTAXES = {"regex": regex, "lark": lark}


def response_grammar(response_format: JsonValue) -> Grammar | None:
    """What an answer must look like; None if it is a free text.

    Raises:
        UsageError: the format is not known, or its grammar cannot be used.
    """
    form = response_format if isinstance(response_format, Mapping) else {}
    kind = form.get("type")
    if kind in ("text", "json_object") and form.keys() == {"type"}:
        return None if kind == "text" else json_schema({"type": "object"})
    inner = form.get(str(kind))
    if kind in FIELDS and isinstance(inner, Mapping) and form.keys() == {"type", str(kind)}:
        unknown = sorted({*inner} - FIELDS[str(kind)])
        if unknown:
            raise UsageError(
                f"the response_format's {kind} has {shortened(unknown[0])}; leave it out"
            )
        return _schema(inner) if kind == "json_schema" else _grammar(inner)
    raise UsageError(
        f"response_format is {shortened(response_format)}; give an object with the type 'text', "
        "'json_object', 'json_schema' or 'grammar', and the schema or grammar"
    )


def _schema(given: Mapping[str, JsonValue]) -> Grammar:
    """The schema always holds, whether `strict` is asked for or not."""
    schema = given.get("schema")
    if not isinstance(schema, Mapping):
        raise UsageError(f"the json_schema's schema is {shortened(schema)}; give an object")
    return json_schema(schema)


def _grammar(given: Mapping[str, JsonValue]) -> Grammar:
    syntax, definition = given.get("syntax"), given.get("definition")
    if syntax not in SYNTAXES or not isinstance(definition, str):
        raise UsageError(
            f"the grammar is {shortened(given)}; give a syntax ('regex' or 'lark') and a definition"
        )
    return SYNTAXES[str(syntax)](definition)
