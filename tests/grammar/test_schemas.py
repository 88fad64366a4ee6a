"""Claim: a text of a JSON schema fits it, greedy and sampled, and is plain decoding's text whatever
drafts. What is not known of a schema is refused by its name."""

from __future__ import annotations

import json
import re

import pytest

import edgespec
from checkpoints import write_noisy, write_small_llama
from depth import by_turns, one_in
from edgespec.errors import UsageError
from edgespec.grammar.grammar import MAX_CHARACTERS
from edgespec.grammar.schema_keywords import ANNOTATIONS, CONSTRAINTS, DEEPEST, inner_schemas
from edgespec_export.export_pair import export_pair
from grammar_schemas import SCHEMAS, closed

jsonschema = pytest.importorskip("jsonschema")
pytest.importorskip("llguidance")

WAYS = {"greedy": {}, "sampled": {"temperature": 1.3, "seed": 7}}
LENGTH = 400


@pytest.fixture(scope="module")
def random_pair(tmp_path_factory):
    """A random Llama over bytes, with a draft; its cache holds the texts of all schemas."""
    folder = tmp_path_factory.mktemp("bytes")
    target = write_small_llama(folder / "target", max_position_embeddings=512)
    draft = write_noisy(target, folder / "draft", noise=0.05)
    export_pair(str(target), str(draft), folder / "pair", threads=1)
    return edgespec.load(folder / "pair", threads=1)


def test_there_are_enough_schemas():
    assert len(SCHEMAS) >= 200


# Every second schema is greedy, the others are sampled; EDGESPEC_DEEP=1 does both with all.
CASES = [
    (name, way)
    for number, name in enumerate(SCHEMAS)
    for way in by_turns(list(WAYS), number, len(WAYS))
]


@one_in(5)
@pytest.mark.parametrize(("name", "way"), CASES)
def test_a_text_fits_its_schema_whatever_drafts(random_pair, name, way):
    schema = SCHEMAS[name]
    options = {"grammar": edgespec.json_schema(schema), "max_new_tokens": LENGTH, **WAYS[way]}
    plain = random_pair.generate("Value:", draft=False, **options)
    assert plain.finish_reason == "eos"
    checker = jsonschema.FormatChecker()
    jsonschema.validate(
        json.loads(plain.text), schema, jsonschema.Draft202012Validator, format_checker=checker
    )
    for drafting in ({"draft": "model", "gamma": 4}, {"draft": "both"}):
        assert random_pair.generate("Value:", **drafting, **options).token_ids == plain.token_ids


def test_json_is_written_as_python_writes_it(random_pair):
    for name in ("tree", "matrix", "constant, nested"):
        grammar = edgespec.json_schema(SCHEMAS[name])
        text = random_pair.generate("Value:", grammar=grammar, max_new_tokens=LENGTH).text
        assert text == json.dumps(json.loads(text), ensure_ascii=False)


# --- what is refused ------------------------------------------------------------------------------

# Of JSON Schema 2020-12, and words that are none.
UNKNOWN = """additionalItems contains minContains maxContains propertyNames not if then else
dependentRequired dependentSchemas unevaluatedItems unevaluatedProperties $dynamicRef nullable
maxLenght""".split()


@pytest.mark.parametrize("keyword", UNKNOWN)
def test_a_keyword_that_is_not_known_is_refused_wherever_it_is(keyword):
    inner = {keyword: True}
    places = {
        "#": inner,
        "#/properties/a": {"properties": {"a": inner}},
        "#/$defs/a": {"$defs": {"a": inner}},
        "#/items": {"items": inner},
        "#/anyOf/1": {"anyOf": [{}, inner]},
        "#/additionalProperties": {"additionalProperties": inner},
    }
    for place, schema in places.items():
        message = f"has the keyword {keyword!r} at {place}, which is not known here"
        with pytest.raises(UsageError, match=re.escape(message)):
            edgespec.json_schema(schema)


def test_a_property_or_a_value_may_have_any_name():
    edgespec.json_schema(closed({"not": {"const": {"if": 1}}, "title": {"enum": [{"else": 2}]}}))


@pytest.mark.parametrize("keyword", sorted(ANNOTATIONS))
def test_an_annotation_changes_nothing(random_pair, keyword):
    usual = edgespec.json_schema({"type": "boolean"})
    noted = edgespec.json_schema(
        {"type": "boolean", keyword: "http://json-schema.org/draft-07/schema"}
    )
    texts = [random_pair.generate("a", grammar=g, max_new_tokens=20).text for g in (usual, noted)]
    assert texts[0] == texts[1]


def test_every_constraint_that_is_known_is_in_a_schema_above():
    """So texts of it were checked: llguidance ignores what it does not know at all."""
    used: set[str] = set()
    pending: list[object] = list(SCHEMAS.values())
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            used |= part.keys()
            pending += (inner for inner, _ in inner_schemas(part))
    assert used >= CONSTRAINTS


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (False, "is false, and nothing fits that"),
        ({"type": "strin"}, "Invalid type: strin"),
        ({"type": "string", "format": "foo"}, "Unknown format: foo"),
        ({"type": "string", "pattern": "(?=a)b"}, "look-around"),
        ({"type": "string", "pattern": "(a"}, "unclosed group"),
        ({"type": "integer", "multipleOf": 0}, "invalid multiple"),
        ({"enum": []}, "Unsatisfiable schema"),
        ({"type": "number", "minimum": 3, "maximum": 1}, "minimum (3) is greater than maximum (1)"),
        ({"type": "string", "minLength": 3, "maxLength": 1}, "greater than maxLength (1)"),
        ({"required": 3}, "Expected array for 'required', got 3"),
        ({"$ref": "https://example.org/other"}, "is not present"),
        ({"$ref": "#/$defs/absent"}, "absent"),
        ({"oneOf": [{"type": "string"}, {"maxLength": 3}]}, "oneOf constraints are not supported"),
        ({"items": 3}, "has 3 at #/items; give a schema"),
        ({"properties": {"a\x00": "b"}}, r"has 'b' at #/properties/a\x00; give a schema"),
        ({"properties": {"a": "b"}}, "has 'b' at #/properties/a; give a schema"),
        ({"const": float("nan"), "title": {1, 2}}, "is no JSON"),
        ("[1]", "is [1]; give an object"),
        ("{", "is no JSON"),
        (3, "is 3; give an object"),
        (json.dumps({"const": "x" * MAX_CHARACTERS}), f"the limit is {MAX_CHARACTERS}"),
        ({"const": "x" * MAX_CHARACTERS}, f"the limit is {MAX_CHARACTERS}"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_schema_that_cannot_be_used_is_one_line(schema, reason):
    with pytest.raises(UsageError, match=re.escape(reason)) as raised:
        edgespec.json_schema(schema)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500


def test_a_schema_that_is_nested_too_deeply_is_one_line():
    schema = {"type": "null"}
    for _ in range(10_000):
        schema = {"anyOf": [schema]}
    with pytest.raises(UsageError, match=f"nested deeper than {DEEPEST}"):
        edgespec.json_schema(schema)


SELF = {"$ref": "#"}
ENDLESS = {
    "itself": SELF,
    "a required property": {"type": "object", "properties": {"a": SELF}, "required": ["a"]},
    "a required name": {"type": "object", "additionalProperties": SELF, "required": ["a"]},
    "a list that is not empty": {"type": "array", "items": SELF, "minItems": 1},
    "the first of a list": {"type": "array", "prefixItems": [SELF], "minItems": 1},
    "every choice": {"anyOf": [SELF, {"type": "array", "items": SELF, "minItems": 2}]},
    "one of all": {"allOf": [{"type": "object"}, SELF]},
    "two that need each other": {
        "$defs": {
            "a": closed({"b": {"$ref": "#/$defs/b"}}, required=["b"]),
            "b": closed({"a": {"$ref": "#/$defs/a"}}, required=["a"]),
        },
        "$ref": "#/$defs/a",
    },
}
ENDING = {
    "an optional property": closed({"a": SELF}),
    "a list that may be empty": {"type": "array", "items": SELF},
    "a rest that may be absent": {"type": "array", "prefixItems": [{}], "items": SELF},
    "a choice": {"anyOf": [SELF, {"type": "null"}]},
    "another type": {"type": ["object", "null"], "properties": {"a": SELF}, "required": ["a"]},
    "one that ends": {
        "$defs": {
            "a": closed({"b": {"$ref": "#/$defs/b"}}, required=["b"]),
            "b": closed({"a": {"$ref": "#/$defs/a"}}),
        },
        "$ref": "#/$defs/a",
    },
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_schema_whose_values_contain_themselves_is_refused(name):
    with pytest.raises(UsageError, match="a value that contains itself, so no text would end"):
        edgespec.json_schema(ENDLESS[name])


@pytest.mark.parametrize("name", ENDING)
def test_a_schema_that_may_refer_to_itself_ends(name):
    edgespec.json_schema(ENDING[name])


@pytest.mark.parametrize("schema", [{"type": []}, {"anyOf": []}, {"type": [], "items": True}])
def test_a_schema_without_a_type_has_no_value(schema):
    with pytest.raises(UsageError, match="Unsatisfiable schema"):
        edgespec.json_schema(schema)
