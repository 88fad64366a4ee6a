"""Claim: a manifest is read only as it was written by an exporter of this format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgespec.artifact.exported import LIMITS
from edgespec.artifact.manifest import (
    MANIFEST,
    manifest_digest,
    read_manifest,
    write_manifest,
)
from edgespec.errors import EdgespecError
from manifests import edit_manifest

BEFORE = Path(__file__).parent / "edgespec-0.1.0.json"


def test_a_manifest_comes_back_as_it_was_written(own_pair):
    manifest = read_manifest(own_pair)
    (own_pair / MANIFEST).unlink()
    write_manifest(manifest, own_pair)
    assert read_manifest(own_pair) == manifest


def test_a_folder_of_version_0_1_0_says_in_one_line_to_export_again(own_pair):
    (own_pair / MANIFEST).write_text(BEFORE.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(EdgespecError, match=r"format version 1 .* export the pair again$") as said:
        read_manifest(own_pair)
    assert "\n" not in str(said.value)
    assert "update" not in str(said.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"start_token": null', '"start_token": 5'),
        ('"capacity": 96', '"capacity": 95'),
        ('"eos_token_ids": [', '"eos_token_ids": [\n    7,'),
        ('"family": "llama"', '"family": "mistral"'),
    ],
)
def test_a_value_that_was_changed_after_export_is_found(own_pair, old, new):
    text = (own_pair / MANIFEST).read_text(encoding="utf-8")
    assert old in text
    (own_pair / MANIFEST).write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(EdgespecError, match=r"was changed after export; export the pair again$"):
        read_manifest(own_pair)


def test_a_manifest_without_a_digest_is_refused(own_pair):
    data = json.loads((own_pair / MANIFEST).read_text(encoding="utf-8"))
    del data["digest"]
    (own_pair / MANIFEST).write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(EdgespecError, match="was changed after export"):
        read_manifest(own_pair)


def test_the_digest_does_not_depend_on_order_or_white_space(own_pair):
    expected = read_manifest(own_pair)
    data = json.loads((own_pair / MANIFEST).read_text(encoding="utf-8"))
    backwards = dict(reversed(data.items()))
    assert manifest_digest(backwards) == data["digest"]
    (own_pair / MANIFEST).write_text(json.dumps(backwards, indent=7), encoding="utf-8")
    assert read_manifest(own_pair) == expected


@pytest.mark.parametrize("name", LIMITS)
def test_a_size_beyond_its_limit_is_named_with_it(own_pair, name):
    edit_manifest(own_pair, lambda data: data["target"].update({name: LIMITS[name] + 1}))
    with pytest.raises(EdgespecError, match=rf"{name} is {LIMITS[name] + 1}, not 1 to") as said:
        read_manifest(own_pair)
    assert len(str(said.value)) < 300


@pytest.mark.parametrize("size", [0, 1, LIMITS["vocab_size"] + 1])
def test_a_model_reads_at_least_the_tokens_that_it_proposes(own_pair, size):
    edit_manifest(own_pair, lambda data: data["draft"].update(input_vocab_size=size))
    with pytest.raises(EdgespecError, match=rf"input_vocab_size is {size}, not \d+ to \d+"):
        read_manifest(own_pair)


def test_a_long_value_is_not_repeated_whole(own_pair):
    edit_manifest(own_pair, lambda data: data["target"].update(layers="9" * 5000))
    with pytest.raises(EdgespecError, match="layers is '999") as said:
        read_manifest(own_pair)
    assert len(str(said.value)) < 400


def test_a_missing_field_is_named_alone(own_pair):
    edit_manifest(own_pair, lambda data: data["target"].pop("kv_heads"))
    with pytest.raises(EdgespecError, match=r"\(target lacks kv_heads\)"):
        read_manifest(own_pair)


def test_a_field_that_an_older_export_did_not_know_has_its_default(own_pair):
    def forget(data):
        for variant in data["target"]["variants"].values():
            del variant["attention_format"]

    before = read_manifest(own_pair)
    edit_manifest(own_pair, forget)
    assert read_manifest(own_pair) == before


def test_a_manifest_tells_the_kinds_of_models_apart(tiny, pair):
    assert not tiny.manifest.target.is_encoder_decoder
    assert pair.manifest.target.is_encoder_decoder
    assert not tiny.manifest.draft.is_eagle_head
