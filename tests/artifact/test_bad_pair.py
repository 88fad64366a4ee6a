"""Claim: a folder that was damaged, changed or made by something else is named in one line.

A target whose rows may change in other calls refuses drafts.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner

import edgespec
from edgespec.artifact.integrity import FileRecord, record
from edgespec.artifact.manifest import FORMAT_VERSION, MANIFEST, Exported, Manifest, Variant
from edgespec.artifact.row_invariance import RowInvariance
from edgespec.artifact.typed_json import LATER
from edgespec.cli.main import main
from edgespec.pair.opening.invariance_cache import INVARIANCE_FILE
from manifests import edit_manifest
from refusals import (
    DAMAGES,
    DECODER,
    DRAFT,
    DRAFT_WEIGHTS,
    PROMPT,
    WEIGHTS,
    failure,
    load,
    scrambled,
)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (name, damage)
        for name in (DECODER, WEIGHTS, DRAFT, DRAFT_WEIGHTS, "tokenizer.json")
        for damage in DAMAGES
        # Of weights only the size is checked: a digest would read gigabytes at every start.
        if not (damage is scrambled and name.endswith(".data"))
    ],
)
def test_a_damaged_file_of_a_pair_is_named(own_pair, name, damage):
    damage(own_pair / name)
    assert str(own_pair / name) in failure(load, own_pair)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_manifest_is_named(own_pair, damage):
    damage(own_pair / MANIFEST)
    said = failure(load, own_pair)
    assert MANIFEST in said
    assert "export" in said


@pytest.mark.parametrize("content", [b"[]", b"null", b"{}", b'"x"', b"\xff\xfe", b"[" * 99999])
def test_a_manifest_that_is_something_else_is_named(own_pair, content):
    (own_pair / MANIFEST).write_bytes(content)
    assert MANIFEST in failure(load, own_pair)


def test_a_folder_without_a_manifest_is_no_pair(tmp_path):
    said = failure(load, tmp_path)
    assert str(tmp_path) in said
    assert "edgespec export" in said
    assert "edgespec export" in failure(load, tmp_path / "nosuch")


def change_manifest(folder: Path, *path: str, value: object) -> None:
    """Sets a value, or removes it where it is KeyError."""

    def change(data: dict[str, Any]) -> None:
        for key in path[:-1]:
            data = data[key]
        if value is KeyError:
            del data[path[-1]]
        else:
            data[path[-1]] = value

    edit_manifest(folder, change)


def fields_of(kind: type, *path: str) -> list[tuple[str, ...]]:
    return [(*path, field.name) for field in dataclasses.fields(kind) if field.metadata != LATER]


FIELDS = [
    *(field for field in fields_of(Manifest) if field != ("version",)),
    *fields_of(Exported, "target"),
    *fields_of(Exported, "draft"),
    *fields_of(Variant, "target", "variants", "fp32"),
    *fields_of(RowInvariance, "target", "variants", "fp32", "row_invariance"),
    *fields_of(FileRecord, "files", DECODER),
]


@pytest.mark.parametrize("path", FIELDS, ids=".".join)
def test_every_field_of_the_manifest_must_be_there_and_have_its_type(own_pair, path):
    whole = (own_pair / MANIFEST).read_text()
    for value in (KeyError, [["x"]], {"x": []}):
        (own_pair / MANIFEST).write_text(whole)
        change_manifest(own_pair, *path, value=value)
        assert MANIFEST in failure(load, own_pair)


@pytest.mark.parametrize(
    "path", [("spice",), ("target", "spice"), ("target", "variants", "fp32", "spice")]
)
def test_a_field_nobody_knows_is_refused(own_pair, path):
    change_manifest(own_pair, *path, value=1)
    assert MANIFEST in failure(load, own_pair)


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, "1", None])
def test_another_format_says_to_update(own_pair, version):
    change_manifest(own_pair, "version", value=version)
    said = failure(load, own_pair)
    assert f"version {version!r}" in said
    assert "update edgespec" in said


@pytest.mark.parametrize("path", ["../x.onnx", "/etc/passwd", "a/../../x", "..", "a\\b", "C:x"])
def test_a_path_that_leaves_the_folder_is_refused(own_pair, path):
    change_manifest(own_pair, "files", path, value={"bytes": 1, "sha256": ""})
    said = failure(load, own_pair)
    assert repr(path) in said
    assert "leaves the folder" in said
    change_manifest(own_pair, "target", "variants", "fp32", "graphs", "decoder", value=path)
    assert repr(path) in failure(load, own_pair)


@pytest.mark.parametrize("name", [DECODER, "tokenizer.json"])
def test_a_file_that_is_not_recorded_is_not_opened(own_pair, name):
    change_manifest(own_pair, "files", name, value=KeyError)
    assert repr(name) in failure(load, own_pair)


@pytest.mark.parametrize("value", [{}, {"fp32": {"graphs": {}, "row_invariance": None}}])
def test_a_model_without_a_graph_is_refused(own_pair, value):
    change_manifest(own_pair, "target", "variants", value=value)
    assert MANIFEST in failure(load, own_pair)


@pytest.mark.parametrize(
    ("field", "value"), [("layers", 9), ("layers", 1), ("kv_heads", 1), ("vocab_size", 999)]
)
def test_a_manifest_that_does_not_fit_its_graph_is_one_line(own_pair, field, value):
    change_manifest(own_pair, "target", field, value=value)
    failure(lambda: load(own_pair).generate(PROMPT, max_new_tokens=4))


@pytest.mark.parametrize("where", ["../../../weights.data", "{outside}", "nosuch.data", ""])
def test_external_data_that_leaves_the_folder_is_refused(own_pair, tmp_path, where):
    outside = tmp_path / "weights.data"
    shutil.copy(own_pair / WEIGHTS, outside)
    model = onnx.load(own_pair / DECODER, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = where.format(outside=outside)
    (own_pair / DECODER).write_bytes(model.SerializeToString())
    change_manifest(
        own_pair, "files", DECODER, value=dataclasses.asdict(record(own_pair / DECODER))
    )
    assert DECODER in failure(load, own_pair)


@pytest.mark.parametrize("weights", [WEIGHTS, DRAFT_WEIGHTS])
def test_a_flipped_bit_in_weights_is_found_when_asked_for(own_pair, weights):
    read = CliRunner().invoke(main, ["inspect", str(own_pair), "--check"])
    assert read.exit_code == 0
    assert "all files are as exported" in read.stderr
    content = bytearray((own_pair / weights).read_bytes())
    content[len(content) // 2] ^= 1
    (own_pair / weights).write_bytes(content)
    read = CliRunner().invoke(main, ["inspect", str(own_pair), "--check"])
    assert read.exit_code == 1
    assert f"{own_pair / weights} is not the file that was exported" in read.stderr


def test_weights_after_a_link_out_of_the_folder_are_refused(own_pair, tmp_path):
    outside = tmp_path / "weights.data"
    shutil.move(own_pair / WEIGHTS, outside)
    (own_pair / WEIGHTS).symlink_to(outside)
    assert DECODER in failure(load, own_pair)


def test_nan_logits_end_in_an_error_and_in_no_text(own_pair):
    size = (own_pair / WEIGHTS).stat().st_size
    (own_pair / WEIGHTS).write_bytes(b"\xff" * size)  # as float32: NaN everywhere
    pair = load(own_pair)
    for options in ({}, {"draft": False}, {"draft": "lookup"}, {"temperature": 1.0}):
        stream = pair.stream(PROMPT, **options)
        assert "nan" in failure(list, stream)
        assert stream.result.text == ""
        assert stream.result.token_ids == []


@pytest.fixture
def variant_target(own_pair):
    """A pair whose target is said not to be row-invariant."""
    change_manifest(
        own_pair, "target", "variants", "fp32", "row_invariance", "is_row_invariant", value=False
    )
    (own_pair / INVARIANCE_FILE).unlink()
    return own_pair


@pytest.mark.parametrize("draft", [True, "model", "lookup"])
def test_a_target_that_is_not_row_invariant_refuses_every_draft(variant_target, draft):
    said = failure(load(variant_target).generate, PROMPT, draft=draft)
    assert "not row-invariant" in said
    assert "draft=False" in said


def test_a_target_that_is_not_row_invariant_decodes_plainly_and_speculates_with_allow_inexact(
    variant_target, tiny
):
    plain = tiny.generate(PROMPT, draft=False).token_ids
    pair = load(variant_target)
    assert pair.generate(PROMPT, draft=False).token_ids == plain
    inexact = edgespec.load(variant_target, threads=1, allow_inexact=True)
    assert inexact.generate(PROMPT, gamma=4).stats.drafted > 0


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("chat",), {}),
        (("chat",), {"before": "<"}),
        (("target", "layers"), -1),
        (("target", "capacity"), 0),
        (("target", "start_token"), -1),
        (("target", "variants", "fp32", "row_invariance", "min_rows"), 0),
        (("target", "variants", "fp32", "row_invariance", "max_rows"), 1),
    ],
    ids=str,
)
def test_an_impossible_number_is_found_before_it_is_used(own_pair, path, value):
    change_manifest(own_pair, "target", "variants", "fp32", "row_invariance", "min_rows", value=2)
    change_manifest(own_pair, *path, value=value)
    assert MANIFEST in failure(load, own_pair)
