"""JSON schemas of the kinds that applications write, small enough for a random model to end.

Each scalar schema is put into each of several frames; a few schemas stand alone.
"""

from __future__ import annotations

TEXT = {"type": "string", "maxLength": 6}
WHOLE = {"type": "integer", "minimum": 0, "maximum": 999}

SCALARS = {
    "text": TEXT,
    "text of one length": {"type": "string", "minLength": 3, "maxLength": 3},
    "text of a least length": {"type": "string", "minLength": 2, "maxLength": 5},
    "empty text": {"type": "string", "maxLength": 0},
    "word": {"type": "string", "pattern": "^[a-z]{2,5}$"},
    "part of a text": {"type": "string", "pattern": "^[ab]{0,2}x[cd]{0,2}$"},
    "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
    "phone": {"type": "string", "pattern": "^(\\([0-9]{3}\\))?[0-9]{3}-[0-9]{4}$"},
    "colour": {"type": "string", "pattern": "^#[0-9a-f]{6}$"},
    "day": {"type": "string", "pattern": "^20[0-9]{2}-0[1-9]-[12][0-9]$"},
    "uuid": {"type": "string", "format": "uuid"},
    "address": {"type": "string", "format": "ipv4"},
    "longer address": {"type": "string", "format": "ipv6"},
    "whole number": WHOLE,
    "negative number": {"type": "integer", "minimum": -20, "maximum": -3},
    "number around 0": {"type": "integer", "minimum": -5, "maximum": 5},
    "open interval": {"type": "integer", "exclusiveMinimum": 7, "exclusiveMaximum": 12},
    "one number": {"type": "integer", "minimum": 42, "maximum": 42},
    "even number": {"type": "integer", "minimum": 0, "maximum": 60, "multipleOf": 2},
    "multiple": {"type": "integer", "minimum": 1, "maximum": 500, "multipleOf": 25},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "choice": {"enum": ["red", "green", "blue"]},
    "mixed choice": {"enum": ["x", 1, 2.5, None, True, {"a": [1]}]},
    "typed choice": {"type": "string", "enum": ["a", "b\n", 'c"d', "é", ""]},
    "constant": {"const": {"version": 2, "tags": ["a", "b"]}},
    "described": {"type": "boolean", "title": "T", "description": "d", "default": True},
    "either": {"anyOf": [{"type": "boolean"}, {"type": "integer", "minimum": 1, "maximum": 9}]},
    "exactly one": {"oneOf": [{"type": "null"}, {"const": "none"}, {"const": 0}]},
    "all of": {"allOf": [{"type": "string", "minLength": 1}, {"maxLength": 4}]},
    "several types": {"type": ["null", "boolean"]},
}


def closed(properties, **others):
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **others,
    }


FRAMES = {
    "alone": lambda schema: schema,
    "required": lambda schema: closed({"value": schema}, required=["value"]),
    "optional": lambda schema: closed({"id": WHOLE, "value": schema}, required=["id"]),
    "list": lambda schema: {"type": "array", "items": schema, "minItems": 1, "maxItems": 3},
    "pair": lambda schema: {
        "type": "array",
        "prefixItems": [schema, WHOLE],
        "items": False,
        "minItems": 2,
    },
    "nullable": lambda schema: {"anyOf": [schema, {"type": "null"}]},
    "nested": lambda schema: closed(
        {"outer": closed({"inner": schema}, required=["inner"])}, required=["outer"]
    ),
    "referenced": lambda schema: {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"value": schema},
        **closed({"a": {"$ref": "#/$defs/value"}, "b": {"$ref": "#/$defs/value"}}, required=["a"]),
    },
}

SINGLE = {
    "any object": {"type": "object", "maxProperties": 0},
    "free names": {
        "type": "object",
        "additionalProperties": {"type": "boolean"},
        "patternProperties": {"^[a-z]$": {"type": "null"}},
        "properties": {"end": {"const": 1}},
        "required": ["end"],
        "maxProperties": 1,
    },
    "names by a pattern": {
        "type": "object",
        "patternProperties": {"^[a-z]{1,2}$": WHOLE},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 2,
    },
    "tree": {
        "$defs": {
            "node": closed(
                {
                    "left": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/leaf"}]},
                    "right": {"$ref": "#/$defs/leaf"},
                },
                required=["left", "right"],
            ),
            "leaf": closed({"value": WHOLE}, required=["value"]),
        },
        "$ref": "#/$defs/node",
    },
    "older definitions": {
        "definitions": {"value": {"type": "boolean"}},
        **closed({"value": {"$ref": "#/definitions/value"}}, required=["value"]),
    },
    "list that refers to itself": {
        "type": "array",
        "items": {"$ref": "#"},
        "maxItems": 1,
    },
    "choice of objects": {
        "anyOf": [
            closed({"kind": {"const": "circle"}, "radius": WHOLE}, required=["kind", "radius"]),
            closed({"kind": {"const": "square"}, "side": WHOLE}, required=["kind", "side"]),
        ]
    },
    "matrix": {
        "type": "array",
        "items": {"type": "array", "items": {"enum": [0, 1]}, "minItems": 2, "maxItems": 2},
        "minItems": 2,
        "maxItems": 2,
    },
    "many optional properties": closed({name: {"type": "boolean"} for name in "abcdef"}),
    "many required properties": closed(
        {name: {"type": "boolean"} for name in "abcdef"}, required=list("abcdef")
    ),
    "names with special characters": closed(
        {'a"b': {"type": "null"}, "c\\d": {"type": "null"}, "é ü": {"type": "null"}},
        required=['a"b', "c\\d", "é ü"],
    ),
}

SCHEMAS = {
    f"{scalar}, {frame}": make(schema)
    for scalar, schema in SCALARS.items()
    for frame, make in FRAMES.items()
} | SINGLE
