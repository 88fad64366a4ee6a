"""Claim: what only describes a schema changes no text, and a schema of any size and form is taken
or refused in time that grows with its length alone."""

from __future__ import annotations

import json
import re
from typing import Literal

import pytest

import edgespec
from depth import one_in
from edgespec.errors import UsageError
from edgespec.grammar import schema_ends, schema_keywords
from edgespec.grammar.grammar import MAX_CHARACTERS, json_rule
from edgespec.grammar.schema_applied import DESCRIBING_FORMATS, applied
from edgespec.grammar.schema_references import MOST_LEVELS
from grammar_schemas import closed

pytest.importorskip("llguidance")

CAT = closed({"kind": {"const": "cat"}, "lives": {"type": "integer"}}, required=["kind"])
DOG = closed({"kind": {"const": "dog"}}, required=["kind"])
BOTH = {"oneOf": [CAT, DOG]}

# --- what only describes --------------------------------------------------------------------------

DESCRIBED = {
    "discriminator": ({**BOTH, "discriminator": {"propertyName": "kind"}}, BOTH),
    "content": (
        {"type": "string", "contentMediaType": "image/png", "contentEncoding": "base64"},
        {"type": "string"},
    ),
    "a name of its own": ({"type": "null", "x-order": 3, "$anchor": "here"}, {"type": "null"}),
    "llguidance's options": ({"type": "null", "x-guidance": {"lenient": 1}}, {"type": "null"}),
    "items that may come twice": (
        {"type": "array", "items": {"type": "null"}, "uniqueItems": False},
        {"type": "array", "items": {"type": "null"}},
    ),
    "a set of one": (
        {"type": "array", "maxItems": 1, "uniqueItems": True},
        {"type": "array", "maxItems": 1},
    ),
    "inside": (
        {"anyOf": [closed({"a": {"type": "string", "format": "password"}}), {"type": "null"}]},
        {"anyOf": [closed({"a": {"type": "string"}}), {"type": "null"}]},
    ),
    **{
        f"format {name}": ({"type": "string", "format": name}, {"type": "string"})
        for name in sorted(DESCRIBING_FORMATS)
    },
}


@pytest.mark.parametrize("name", DESCRIBED)
def test_what_only_describes_leaves_the_grammar_as_it_is(name):
    described, plain = DESCRIBED[name]
    assert edgespec.json_schema(described) == edgespec.json_schema(plain)


def test_a_property_with_the_name_of_an_annotation_stays():
    schema = closed({"discriminator": {"type": "null"}, "format": {"enum": [{"x-a": 1}]}})
    assert (
        json.loads(json_rule(schema).removeprefix("%json "))["properties"] == schema["properties"]
    )


def test_models_of_pydantic_are_taken():
    pydantic = pytest.importorskip("pydantic")
    from pathlib import Path

    class Cat(pydantic.BaseModel):
        kind: Literal["cat"]
        lives: int

    class Dog(pydantic.BaseModel):
        kind: Literal["dog"]
        name: str

    class Owner(pydantic.BaseModel):
        pet: Cat | Dog = pydantic.Field(discriminator="kind")
        key: pydantic.SecretStr
        path: Path
        file: pydantic.FilePath
        data: bytes

    edgespec.json_schema(Owner.model_json_schema())


def named(**schemas):
    return {"$defs": schemas, "oneOf": [{"$ref": f"#/$defs/{name}"} for name in schemas]}


KIND = {"type": "object", "required": ["kind"]}
EXCLUSIVE = {
    "constants": named(cat=CAT, dog=DOG),
    "types": named(a={"type": "string"}, b={"type": ["integer", "null"]}, c={"type": "array"}),
    "a reference to a reference": {
        "$defs": {"a": {"$ref": "#/$defs/cat"}, "cat": CAT},
        "oneOf": [{"$ref": "#/$defs/a"}, DOG],
    },
}
OVERLAPPING = {
    "an optional kind": named(cat=CAT, dog={**DOG, "required": []}),
    "one constant twice": named(cat=CAT, other=CAT),
    "a constant among others": named(
        cat=CAT, both={**KIND, "properties": {"kind": {"enum": ["cat", "cow"]}}}
    ),
    "any kind": named(cat=CAT, any={**KIND, "properties": {"kind": {"type": "string"}}}),
    "a number and a whole number": named(a={"type": "number"}, b={"type": "integer"}),
    "any type": named(a={"type": "string"}, b={"maxLength": 3}),
    "itself": {"oneOf": [{"$ref": "#"}, {"type": "null"}]},
}


@pytest.mark.parametrize("name", EXCLUSIVE)
def test_one_of_schemas_that_exclude_each_other_is_any_of_them(name):
    schema = EXCLUSIVE[name]
    free = {("anyOf" if key == "oneOf" else key): part for key, part in schema.items()}
    assert edgespec.json_schema(schema) == edgespec.json_schema(free)


@pytest.mark.parametrize("name", OVERLAPPING)
def test_one_of_schemas_that_may_overlap_is_not_any_of_them(name):
    assert "oneOf" in applied(OVERLAPPING[name])


@pytest.mark.parametrize("most", [{}, {"maxItems": 2}], ids=["any", "two"])
def test_a_set_is_refused_with_its_reason(most):
    """A text that has an item twice would not fit, and no grammar can tell."""
    schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    with pytest.raises(UsageError, match="uniqueItems at #/properties/tags, which no grammar can"):
        edgespec.json_schema(
            closed({"tags": schema if most is None else {**schema, "maxItems": 2}})
        )


@pytest.mark.parametrize("name", ["iri", "regex", "json-pointer", "idn-email", "ipv4network"])
def test_a_format_that_restricts_and_is_not_known_is_refused(name):
    with pytest.raises(UsageError, match=f"Unknown format: {name}"):
        edgespec.json_schema({"type": "string", "format": name})


# --- sizes ----------------------------------------------------------------------------------------


def chain(count, wrap):
    """References to references, the last one first."""
    named = {f"d{i}": wrap({"$ref": f"#/$defs/d{i + 1}"}) for i in reversed(range(count))}
    return {"$defs": {**named, f"d{count}": {"type": "null"}}, "$ref": "#/$defs/d0"}


def required(schema):
    return {"type": "object", "properties": {"x": schema}, "required": ["x"]}


LONG = {
    "a chain": chain(6_000, required),
    "a long name": {"properties": {"k" * 200_000: {"anyOf": [{}] * 15_000}}},
    "lists in lists": {"enum": [json.loads("[" * 900 + "]" * 900)] * 100},
}


@pytest.mark.parametrize("name", LONG)
def test_the_length_is_looked_at_before_anything_else(name, monkeypatch):
    def fail(*_):
        raise AssertionError("the schema was read before its length was known")

    monkeypatch.setattr(schema_keywords, "inner_schemas", fail)
    with pytest.raises(UsageError, match=f"characters; the limit is {MAX_CHARACTERS}"):
        edgespec.json_schema(LONG[name])


@pytest.mark.parametrize("wrap", [lambda schema: schema, required], ids=["bare", "required"])
@pytest.mark.parametrize("ends", [True, False])
def test_each_reference_of_a_chain_is_looked_up_once(wrap, ends, monkeypatch):
    """In adverse order each round found one more that ends, and looked at all again."""
    count, looked_up = 500, []
    schema = chain(count, wrap)
    if not ends:
        schema["$defs"][f"d{count}"] = wrap({"$ref": "#/$defs/d0"})
    find = schema_ends.referenced
    monkeypatch.setattr(
        schema_ends, "referenced", lambda root, name: looked_up.append(name) or find(root, name)
    )
    if ends:
        schema_ends.check_ends(schema)
    else:
        with pytest.raises(UsageError, match="contains itself"):
            schema_ends.check_ends(schema)
    assert len(looked_up) == len(schema["$defs"]) + (not ends)


@pytest.mark.parametrize("count", [MOST_LEVELS // 4, 2 * MOST_LEVELS])
def test_a_chain_that_would_overflow_the_stack_is_refused(count):
    """llguidance follows references by recursion: 1000 of these ended the process."""
    schema = chain(count, lambda part: {"allOf": [part]})
    if count < MOST_LEVELS:
        edgespec.json_schema(schema)
    else:
        with pytest.raises(UsageError, match=f"levels.*the limit is {MOST_LEVELS}"):
            edgespec.json_schema(schema)


# --- values of other types ------------------------------------------------------------------------

ODD = [None, True, 3, -1.5, 10**400, "x", [], [[]], {}, {"a": []}, [{}], float("inf")]


def refusal(schema):
    """Why a schema is refused; a word if it is taken."""
    try:
        edgespec.json_schema(schema)
    except UsageError as error:
        return str(error)
    return "taken"


@one_in(2)
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:20])
@pytest.mark.parametrize(
    "keyword", sorted(schema_keywords.CONSTRAINTS | {"uniqueItems", "title", "$id", "$schema"})
)
def test_every_value_of_a_keyword_is_taken_or_refused_in_a_line(keyword, odd):
    for schema in (
        {keyword: odd},
        {"type": "object", keyword: odd, "properties": {"a": {"type": "array", keyword: odd}}},
        {"type": ["object", "array"], "minItems": 1, "items": {"$ref": "#"}, keyword: odd},
    ):
        assert re.fullmatch(".{5,500}", refusal(schema))


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:20])
def test_every_value_in_a_list_of_a_keyword_is_taken_or_refused_in_a_line(odd):
    for keyword in ("type", "required", "enum", "anyOf", "allOf", "oneOf", "prefixItems"):
        assert re.fullmatch(".{5,500}", refusal({"type": "object", keyword: [odd, odd]}))
