"""OpenAI's `response_format` as a grammar."""

from __future__ import annotations

from collections.abc import Mapping

from edgespec.errors import UsageError, shortened
from edgespec.grammar.grammar import Grammar, json_schema, lark, regex
from edgespec.openai.json_value import JsonObject, JsonValue

__all__ = ["response_grammar"]

SYNTAXES = {"regex": regex, "lark": lark}


def response_grammar(response_format: JsonValue) -> Grammar | None:
    """What an answer must look like; None if it is a free text.

    Raises:
        UsageError: the format is not known, or its grammar cannot be used.
    """
    form = response_format if isinstance(response_format, Mapping) else {}
    match form.get("type"), form:
        case "text", _:
            return None
        case "json_object", {"schema": schema}:  # as other servers take it
            return _schema(schema)
        case "json_object", _:
            return json_schema({"type": "object"})
        case "json_schema", {"json_schema": Mapping() as inner}:
            return _schema(inner.get("schema"))
        case "grammar", {"grammar": Mapping() as inner}:
            return _grammar(inner)
    raise UsageError(
        f"response_format is {shortened(response_format)}; give an object with the type 'text', "
        "'json_object', 'json_schema' or 'grammar', and the schema or grammar"
    )


def _schema(schema: JsonValue) -> Grammar:
    """It always holds, whether `strict` is asked for or not."""
    if not isinstance(schema, Mapping):
        raise UsageError(f"the json_schema's schema is {shortened(schema)}; give an object")
    return json_schema(schema)


def _grammar(given: JsonObject) -> Grammar:
    """In the form that OpenAI uses in tools."""
    syntax, definition = given.get("syntax"), given.get("definition")
    if not isinstance(syntax, str) or syntax not in SYNTAXES or not isinstance(definition, str):
        raise UsageError(
            f"the grammar is {shortened(given)}; give a syntax ('regex' or 'lark') and a definition"
        )
    return SYNTAXES[syntax](definition)
