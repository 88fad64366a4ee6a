"""Claim: whatever is wrong, one line names the value and the way out, and nothing is lost.

A `UsageError` (exit code 2) is what the caller can mend by asking differently; any other
`EdgespecError` (exit code 1) is about a file, a model or a machine. Neither shows a traceback. A
pair appears whole or not at all, and the old one stays until the new one is complete.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import edgespec
from checkpoints import change_tensors, word_tokenizer, write_llama, write_noisy, write_t5
from edgespec import EdgespecError, UsageError
from edgespec.artifact.integrity import FileRecord, record
from edgespec.artifact.manifest import FORMAT_VERSION, MANIFEST, Exported, Manifest, Variant
from edgespec.artifact.measured import RowInvariance
from edgespec.cli.main import main
from edgespec.errors import shortened
from edgespec.pair.opening.invariance_cache import INVARIANCE_FILE
from edgespec_export.export_pair import export_pair
from manifests import edit_manifest

DECODER = "target/fp32/decoder.onnx"
DRAFT = "draft/fp32/decoder.onnx"
WEIGHTS = "target/fp32/weights.data"
DRAFT_WEIGHTS = "draft/fp32/weights.data"
PROMPT = "abc"


def failure(action, *arguments, **options) -> str:
    """The line of an `EdgespecError` that is not the caller's fault."""
    with pytest.raises(EdgespecError) as caught:
        action(*arguments, **options)
    assert not isinstance(caught.value, UsageError), caught.value
    return one_line(str(caught.value))


def usage(action, *arguments, **options) -> str:
    """The line of a `UsageError`."""
    with pytest.raises(UsageError) as caught:
        action(*arguments, **options)
    return one_line(str(caught.value))


def one_line(message: str) -> str:
    assert message
    assert "\n" not in message
    assert len(message) < 1000
    return message


def load(folder) -> edgespec.Pair:
    return edgespec.load(folder, threads=1)


def export(target, draft, folder, **options) -> Manifest:
    return export_pair(str(target), draft and str(draft), folder, threads=1, **options)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too, but for results of later measurements."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != INVARIANCE_FILE
    }


# --- the checkpoint ------------------------------------------------------------------------------


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def scrambled(path: Path) -> None:
    path.write_bytes(bytes(reversed(path.read_bytes())))


DAMAGES = [Path.unlink, truncated, emptied, scrambled]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("role", ["target", "draft"])
def test_a_damaged_safetensors_file_is_named_and_nothing_is_left(
    own_checkpoints, tmp_path, role, damage
):
    target, draft = own_checkpoints
    damage(tmp_path / role / "model.safetensors")
    said = failure(export, target, draft, tmp_path / "pair")
    assert str(tmp_path / role) in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["draft", "target"]


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_of_a_checkpoint_is_named(own_checkpoints, tmp_path, name, damage):
    target, draft = own_checkpoints
    damage(target / name)
    said = failure(export, target, draft, tmp_path / "pair")
    assert str(target) in said


def test_a_missing_tensor_is_named(own_checkpoints, tmp_path):
    target, draft = own_checkpoints
    change_tensors(target, layers_1_mlp_up_proj_weight=None)
    assert "model.layers.1.mlp.up_proj.weight" in failure(export, target, draft, tmp_path / "pair")


def test_a_checkpoint_that_does_not_exist_is_named(tmp_path):
    assert "nosuch" in usage_or_failure(export, tmp_path / "nosuch", None, tmp_path / "pair")


def usage_or_failure(action, *arguments) -> str:
    with pytest.raises(EdgespecError) as caught:
        action(*arguments)
    return one_line(str(caught.value))


@pytest.mark.parametrize("write", [write_llama, write_t5])
def test_every_unknown_key_of_a_newer_transformers_is_refused_by_name(write, tmp_path):
    target = write(tmp_path / "target", attention_twist=3, another="x", transformers_version="99.0")
    said = failure(export, target, None, tmp_path / "pair")
    assert "attention_twist = 3" in said
    assert "another = 'x'" in said


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sliding_window", 7),
        ("hidden_act", "swish2"),
        ("rope_scaling", {"rope_type": "longrope", "factor": 2.0}),
        ("model_type", "bloom"),
    ],
)
def test_a_config_value_that_is_not_supported_is_refused_by_name(key, value, tmp_path):
    target = write_llama(tmp_path / "target", layers=1, **{key: value})
    said = failure(export, target, None, tmp_path / "pair")
    assert (value["rope_type"] if isinstance(value, dict) else repr(value)) in said


def test_a_target_with_nan_weights_is_not_exported(own_checkpoints, tmp_path):
    target, draft = own_checkpoints
    change_tensors(target, model_norm_weight=np.nan)
    assert "not finite" in failure(export, target, draft, tmp_path / "pair")
    assert not (tmp_path / "pair").exists()


# --- target and draft ----------------------------------------------------------------------------


def test_tokenizers_of_equal_size_that_differ_in_one_token_are_refused(tmp_path):
    target = write_llama(tmp_path / "target", layers=1)
    draft = write_noisy(target, tmp_path / "draft", noise=0.1)
    path = draft / "tokenizer.json"
    path.write_text(path.read_text().replace('"w7"', '"other"'))
    said = failure(export, target, draft, tmp_path / "pair")
    assert "'w7' in the target" in said
    assert "'other' in the draft" in said


def test_tokenizers_with_the_same_tokens_in_another_order_are_refused(tmp_path):
    target = write_llama(tmp_path / "target", layers=1)
    tokenizer = word_tokenizer(11)
    swapped = tokenizer.to_str().replace('"w7":7', '"w7":8').replace('"w8":8', '"w8":7')
    draft = write_llama(tmp_path / "draft", layers=1, tokenizer=tokenizer.from_str(swapped))
    assert "token 7" in failure(export, target, draft, tmp_path / "pair")


def test_an_encoder_decoder_is_not_paired_with_a_decoder(tmp_path):
    target = write_t5(tmp_path / "target", layers=1)
    draft = write_llama(tmp_path / "draft", layers=1)
    assert "cannot be paired" in failure(export, target, draft, tmp_path / "pair")


# --- the exported folder -------------------------------------------------------------------------


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
    return [(*path, field.name) for field in dataclasses.fields(kind)]


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


# --- a target that verification would change -----------------------------------------------------


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


# --- what a caller asks for ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"temperature": -1}, "temperature is -1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": float("inf")}, "temperature is inf"),
        ({"temperature": 1e-39}, "temperature is 1e-39"),
        ({"temperature": "hot"}, "temperature is 'hot'"),
        ({"temperature": None}, "temperature is None"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_k": 1.5}, "top_k is 1.5"),
        ({"top_k": 2.0}, "top_k is 2.0"),
        ({"top_k": float("inf")}, "top_k is inf"),
        ({"top_p": 0}, "top_p is 0"),
        ({"top_p": 2}, "top_p is 2"),
        ({"top_p": float("nan")}, "top_p is nan"),
        ({"min_p": 2}, "min_p is 2"),
        ({"min_p": -0.1}, "min_p is -0.1"),
        ({"min_p": float("nan")}, "min_p is nan"),
        ({"gamma": -1}, "gamma is -1"),
        ({"gamma": "x"}, "gamma is 'x'"),
        ({"gamma": 1.5}, "gamma is 1.5"),
        ({"gamma": "9" * 5000}, "gamma is '999"),
        ({"gamma": 10**5000}, "gamma is int too long to show"),
        ({"gamma": "x", "draft": False}, "gamma is 'x'"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"max_new_tokens": -1}, "max_new_tokens is -1"),
        ({"max_new_tokens": 2.5}, "max_new_tokens is 2.5"),
        ({"max_new_tokens": "3"}, "max_new_tokens is '3'"),
        ({"stop": ""}, "stop string is empty"),
        ({"stop": ["x", ""]}, "stop string is empty"),
        ({"stop": 5}, "stop is 5"),
        ({"stop": None}, "stop is None"),
        ({"stop": [1]}, "stop is [1]"),
        ({"rule": "luck"}, "rule is 'luck'"),
        ({"draft": "oracle"}, "draft is 'oracle'"),
        ({"draft": 1}, "draft is 1"),
        ({"chat": True}, "no chat format"),
    ],
    ids=shortened,
)
def test_an_option_out_of_range_is_refused_before_anything_is_computed(tiny, options, said):
    assert said in usage(tiny.stream, PROMPT, **options)


@pytest.mark.parametrize("prompt", [b"abc", ["a", "b"], [5.7], {"role": "user"}, None, 7])
def test_a_prompt_that_is_neither_text_nor_token_ids_is_refused(tiny, prompt):
    assert "token ids" in usage(tiny.stream, prompt)


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


def test_more_drafted_tokens_than_were_measured_are_refused(tiny):
    assert "at most 16" in usage(tiny.generate, PROMPT, gamma=17)


@pytest.mark.parametrize("prompt", ["", []])
@pytest.mark.parametrize("draft", [True, False])
def test_an_empty_prompt_is_refused(tiny, pair, prompt, draft):
    for loaded in (tiny, pair):
        assert "the prompt is empty" in usage(loaded.generate, prompt, draft=draft)


def test_a_prompt_longer_than_the_cache_names_both_lengths(tiny, pair):
    for loaded in (tiny, pair):
        capacity = loaded.manifest.target.capacity
        said = usage(loaded.generate, [5] * (capacity + 1))
        assert f"{capacity + 1} tokens" in said
        assert f"holds {capacity}" in said


@pytest.mark.parametrize("prompt", [[-1], [3, 272], [10**12]])
def test_a_token_outside_the_vocabulary_is_named(tiny, prompt):
    for draft in (True, False):
        said = usage(tiny.generate, prompt, draft=draft)
        assert f"token {prompt[-1]} " in said
        assert "272 tokens" in said


def test_a_prompt_that_is_no_unicode_text_is_refused(tiny):
    assert "character 2" in usage(tiny.generate, "ab\udcff")


@pytest.mark.parametrize("capacity", [0, -1, 10**13, 10**20])
def test_an_impossible_capacity_is_refused(tiny_folder, pair_folder, capacity):
    for folder in (tiny_folder, pair_folder):
        assert str(capacity) in usage(edgespec.load, folder, threads=1, capacity=capacity)


def test_an_impossible_number_of_threads_is_refused(tiny_folder):
    assert "threads is 0" in usage(edgespec.load, tiny_folder, threads=0)


def test_a_format_that_was_not_exported_lists_those_that_were(tiny_folder):
    for options in ({"target_format": "int3"}, {"draft_format": "int3"}):
        said = usage(edgespec.load, tiny_folder, threads=1, **options)
        assert "'int3'" in said
        assert "fp32" in said


def test_a_pair_without_a_draft_model_says_what_it_has(tiny_checkpoints, tmp_path):
    export(tiny_checkpoints[0], None, tmp_path / "pair")
    lone = load(tmp_path / "pair")
    assert "'lookup'" in usage(lone.generate, PROMPT, draft="model")


def test_a_text_within_a_running_stream_is_refused_and_the_stream_is_not_disturbed(tiny):
    expected = tiny.generate(PROMPT, ignore_eos=True).token_ids
    stream = tiny.stream(PROMPT, ignore_eos=True)
    next(stream)
    assert "is generating another text" in usage(tiny.generate, "xyz")
    for _ in stream:
        pass
    assert stream.result.token_ids == expected


# --- an export that does not come to its end -----------------------------------------------------


def interrupting(done: int):
    """A progress callback that raises KeyboardInterrupt after `done` tensors."""

    def begin(what, size):
        def advance(count):
            nonlocal done
            done -= 1
            if done < 0:
                raise KeyboardInterrupt

        return advance

    return begin


@pytest.mark.parametrize("tensors", [0, 5, 25])
@pytest.mark.parametrize("replace", [False, True])
def test_an_interrupted_export_leaves_everything_as_it_was(
    tiny_checkpoints, own_pair, tensors, replace
):
    folder = own_pair if replace else own_pair.with_name("new")
    before = contents(own_pair.parent)
    with pytest.raises(KeyboardInterrupt):
        export(*tiny_checkpoints, folder, replace=replace, progress=interrupting(tensors))
    after = contents(own_pair.parent)
    assert {name: data for name, data in after.items() if not name.startswith(".")} == before
    assert folder.exists() == replace
    for path in own_pair.parent.glob(".*"):
        failure(load, path)


@pytest.mark.parametrize("tensors", [3, 7, 30])
def test_an_interrupted_export_continues_after_its_last_tensor(
    tiny_checkpoints, own_pair, tensors, monkeypatch
):
    """The result is the same, byte by byte, and finished tensors are not read again."""
    from edgespec_export.onnx_graph.external_data import WeightFile

    folder = own_pair.with_name("new")
    read = []
    original = WeightFile.checkpoint_tensor

    def reading(self, name):
        read.append((self._path.parent.parent.name, name))
        return original(self, name)

    monkeypatch.setattr(WeightFile, "checkpoint_tensor", reading)
    with pytest.raises(KeyboardInterrupt):
        export(*tiny_checkpoints, folder, progress=interrupting(tensors))
    first = read.copy()
    export(*tiny_checkpoints, folder)
    assert contents(folder) == contents(own_pair)
    assert first
    assert not set(first) & set(read[len(first) :])
    assert {path.name for path in own_pair.parent.iterdir()} == {"pair", "new"}


@pytest.mark.parametrize("tensors", [1, 2, 8])
def test_an_interrupted_int8_export_gives_the_same_bytes(tiny_checkpoints, tmp_path, tensors):
    """Also between a matrix and its scales."""
    formats = {"target_formats": ["int8"], "draft_formats": ["int8"], "measure": False}
    export(*tiny_checkpoints, tmp_path / "at once", **formats)
    with pytest.raises(KeyboardInterrupt):
        export(*tiny_checkpoints, tmp_path / "new", progress=interrupting(tensors), **formats)
    export(*tiny_checkpoints, tmp_path / "new", **formats)
    assert contents(tmp_path / "new") == contents(tmp_path / "at once")


def test_an_export_has_its_name_when_the_disk_has_its_bytes(
    tiny_checkpoints, tmp_path, monkeypatch
):
    """Otherwise a crash could leave a folder of the right name with empty files."""
    synced = set()

    def note(descriptor):
        synced.add(os.fstat(descriptor).st_ino)
        assert not (tmp_path / "pair").exists()

    monkeypatch.setattr(os, "fsync", note)
    export(*tiny_checkpoints, tmp_path / "pair")
    files = [path for path in (tmp_path / "pair").rglob("*") if path.is_file()]
    assert {path.stat().st_ino for path in files} <= synced


def test_a_second_export_to_a_folder_that_is_being_written_is_refused(tiny_checkpoints, own_pair):
    """Otherwise each would use the other's unfinished files."""
    folder = own_pair.with_name("new")
    said = []

    def begin(label, total):
        if not said:
            said.append(usage(export, *tiny_checkpoints, folder))
        return lambda count: None

    export(*tiny_checkpoints, folder, progress=begin)
    assert "another process is writing" in said[0]
    assert {path.name for path in own_pair.parent.iterdir()} == {"pair", "new"}
    assert contents(folder) == contents(own_pair)


def test_an_export_does_not_continue_one_of_other_checkpoints(tiny_checkpoints, own_pair):
    folder = own_pair.with_name("new")
    target, draft = tiny_checkpoints
    with pytest.raises(KeyboardInterrupt):
        export(draft, target, folder, progress=interrupting(7))
    export(target, draft, folder)
    assert contents(folder) == contents(own_pair)


KILLED = """
import os, signal, sys
from edgespec_export.export_pair import export_pair
from edgespec.pair.opening.invariance_cache import INVARIANCE_FILE

def begin(what, size):
    def advance(count):
        if what.startswith("draft"):
            os.kill(os.getpid(), signal.SIGKILL)
    return advance

export_pair(*sys.argv[1:], replace=True, threads=1, progress=begin)
"""


@pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGKILL")
def test_a_killed_export_leaves_nothing_loadable_and_the_next_one_cleans_up(
    tiny_checkpoints, own_pair
):
    before = contents(own_pair)
    for folder in (own_pair.with_name("new"), own_pair):
        command = [sys.executable, "-c", KILLED, *map(str, tiny_checkpoints), str(folder)]
        killed = subprocess.run(command, check=False, capture_output=True)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not own_pair.with_name("new").exists()
    assert contents(own_pair) == before
    left = [path for path in own_pair.parent.iterdir() if path.name.startswith(".")]
    assert left
    for path in left:
        failure(load, path)
    for folder in (own_pair.with_name("new"), own_pair):
        export(*tiny_checkpoints, folder, replace=True)
        load(folder)
    assert {path.name for path in own_pair.parent.iterdir()} == {"pair", "new"}


def test_a_machine_that_stopped_between_the_two_renames_has_lost_no_pair(
    tiny_checkpoints, own_pair
):
    before = contents(own_pair)
    own_pair.rename(own_pair.with_name(".pair.replaced"))
    assert "--force" in usage(export, *tiny_checkpoints, own_pair)
    assert contents(own_pair) == before


def test_a_second_rename_that_fails_brings_the_old_pair_back(
    tiny_checkpoints, own_pair, monkeypatch
):
    before = contents(own_pair.parent)
    rename = Path.rename

    def failing(path, new):
        if path.name.endswith(".partial"):
            raise OSError(errno.EIO, "Input/output error")
        return rename(path, new)

    monkeypatch.setattr(Path, "rename", failing)
    assert "Input/output error" in failure(export, *tiny_checkpoints, own_pair, replace=True)
    assert contents(own_pair.parent) == before


class FullDisk:
    """A file that accepts `room` bytes and then reports a full disk."""

    def __init__(self, file, room):
        self._file, self._room = file, room

    def __getattr__(self, name):
        return getattr(self._file, name)

    def write(self, data):
        self._room -= len(data)
        if self._room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write(data)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()


@pytest.mark.parametrize("name", ["tokenizer.json", "weights.data", f".{MANIFEST}.partial"])
@pytest.mark.parametrize("replace", [False, True])
def test_a_full_disk_is_one_line_and_leaves_everything_as_it_was(
    tiny_checkpoints, own_pair, monkeypatch, name, replace
):
    folder = own_pair if replace else own_pair.with_name("new")
    before = contents(own_pair.parent)
    opened = Path.open

    def open_(path, mode="r", *arguments, **options):
        file = opened(path, mode, *arguments, **options)
        return FullDisk(file, 1000) if path.name == name and "w" in mode else file

    monkeypatch.setattr(Path, "open", open_)
    said = failure(export, *tiny_checkpoints, folder, replace=replace)
    assert "the disk is full" in said
    assert str(folder) in said
    monkeypatch.undo()
    assert contents(own_pair.parent) == before


@pytest.mark.skipif(sys.platform != "linux", reason="a limit on file sizes, as Linux has it")
def test_a_file_that_cannot_grow_any_further_is_one_line(tiny_checkpoints, tmp_path):
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
    code = limit + "from edgespec.cli.main import main; main()"
    command = [sys.executable, "-c", code, "export", *map(str, tiny_checkpoints)]
    run = subprocess.run(
        [*command, "-o", str(tmp_path / "pair")], check=False, capture_output=True, text=True
    )
    assert run.returncode == 1
    assert "could not be written" in run.stderr.splitlines()[-1]
    assert "Traceback" not in run.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target_formats": ["int3"]}, "'int3'"),
        ({"draft_formats": ["int3"]}, "'int3'"),
        ({"cache_formats": ["int3"]}, "'int3'"),
        ({"cache_formats": []}, "no cache format"),
        ({}, "not an exported pair"),
    ],
    ids=str,
)
def test_options_are_checked_before_a_model_is_looked_up(tmp_path, monkeypatch, options, said):
    """Otherwise a wrong format would be found only after a download of 44 GB."""
    looked_up = []
    monkeypatch.setattr("edgespec_export.checkpoint.sources.resolve", looked_up.append)
    folder = tmp_path / "pair"
    folder.mkdir()
    (folder / "mine.txt").touch()
    assert said in usage(export_pair, "t5-xxl", None, folder, **options)
    assert looked_up == []


def test_a_missing_torch_is_found_before_a_model_is_looked_up(tmp_path, monkeypatch):
    looked_up = []
    monkeypatch.setattr("edgespec_export.checkpoint.sources.resolve", looked_up.append)
    monkeypatch.setitem(sys.modules, "edgespec_export.verify", None)
    said = failure(export_pair, "t5-xxl", None, tmp_path / "pair", verify=True)
    assert re.search(r"pip install .*\[torch\]", said)
    assert looked_up == []


@pytest.mark.parametrize("options", [{"target_formats": ()}, {"draft_formats": ["int3"]}], ids=str)
def test_a_format_that_does_not_exist_lists_those_that_do(tiny_checkpoints, tmp_path, options):
    assert "fp32" in usage(export, *tiny_checkpoints, tmp_path / "pair", **options)
    assert list(tmp_path.iterdir()) == []


# --- the output folder ---------------------------------------------------------------------------


def test_an_empty_folder_may_become_the_pair(tiny_checkpoints, tmp_path):
    (tmp_path / "pair").mkdir()
    export(*tiny_checkpoints, tmp_path / "pair")
    load(tmp_path / "pair")
    assert [path.name for path in tmp_path.iterdir()] == ["pair"]


def test_missing_parent_folders_are_made(tiny_checkpoints, tmp_path):
    export(tiny_checkpoints[0], None, tmp_path / "a" / "b")
    load(tmp_path / "a" / "b")


def test_a_pair_is_replaced_only_when_asked(tiny_checkpoints, own_pair):
    before = contents(own_pair)
    (own_pair / "mine.txt").write_text("there until it is replaced")
    assert "--force" in usage(export, tiny_checkpoints[0], None, own_pair)
    assert contents(own_pair).keys() - before.keys() == {"mine.txt"}
    export(tiny_checkpoints[0], None, own_pair, replace=True)
    assert load(own_pair).manifest.draft is None
    assert not (own_pair / "mine.txt").exists()


def test_a_replacement_that_fails_leaves_the_old_pair(tiny_checkpoints, own_pair, tmp_path):
    before = contents(own_pair)
    failing = write_llama(tmp_path / "failing", rope_scaling={"rope_type": "twist"})
    failure(export, failing, None, own_pair, replace=True)
    assert contents(own_pair) == before


@pytest.mark.parametrize("replace", [False, True])
def test_any_other_folder_is_never_touched(tiny_checkpoints, tmp_path, replace):
    folder = tmp_path / "home"
    (folder / "photos").mkdir(parents=True)
    (folder / "photos" / "cat.jpg").write_bytes(b"meow")
    assert str(folder) in usage(export, *tiny_checkpoints, folder, replace=replace)
    assert contents(tmp_path) == {"home/photos/cat.jpg": b"meow"}


@pytest.mark.parametrize("replace", [False, True])
def test_a_file_is_never_replaced_by_a_folder(tiny_checkpoints, tmp_path, replace):
    (tmp_path / "pair").write_text("mine")
    assert str(tmp_path / "pair") in usage(
        export, *tiny_checkpoints, tmp_path / "pair", replace=replace
    )
    failure(export, *tiny_checkpoints, tmp_path / "pair" / "below")
    assert contents(tmp_path) == {"pair": b"mine"}


def test_where_a_volume_is_mounted_is_not_replaced(tiny_checkpoints):
    assert "a volume is mounted" in usage(export, *tiny_checkpoints, Path("/"))


@pytest.mark.parametrize("name", [".", "..", "../{here}"])
def test_the_current_folder_is_not_replaced(tiny_checkpoints, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    said = usage(export, *tiny_checkpoints, Path(name.format(here=tmp_path.name)))
    assert "the folder you are in" in said


# --- the command line ----------------------------------------------------------------------------


def run(*arguments: object, **options):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], **options)


def stderr_line(result, code: int) -> str:
    """The only line of a failure: no output, no traceback."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert isinstance(result.exception, SystemExit)
    (line,) = result.stderr.splitlines()
    assert line.startswith("edgespec: ")
    return line


@pytest.mark.parametrize(
    "options",
    [
        ["--temperature", "-1"],
        ["--temperature", "nan"],
        ["--top-k", "-1"],
        ["--top-p", "0"],
        ["--min-p", "2"],
        ["--gamma", "-1"],
        ["--gamma", "x"],
        ["--gamma", "1.5"],
        ["--gamma", "9" * 5000],
        ["--seed", "-1"],
        ["--max-new-tokens", "0"],
        ["--stop", ""],
        ["--chat"],
        ["--logprobs"],
        ["--show-draft", "--json"],
        ["--draft", "model", "--no-draft"],
        ["--capacity", "0"],
        ["--capacity", "10000000000000"],
        ["--file", "x"],
    ],
    ids=lambda options: shortened(" ".join(options)),
)
def test_a_bad_option_is_one_line_and_exit_code_2(tiny_folder, options):
    stderr_line(run("generate", tiny_folder, PROMPT, *options), 2)


@pytest.mark.parametrize(
    "options",
    [["--rule", "luck"], ["--draft", "oracle"], ["--top-k", "x"], ["--threads", "0"], ["--nosuch"]],
    ids=" ".join,
)
def test_what_the_parser_refuses_ends_with_one_line_and_exit_code_2(tiny_folder, options):
    result = run("generate", tiny_folder, PROMPT, *options)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("Error: ")


@pytest.mark.parametrize("command", ["generate", "inspect"])
def test_a_bad_pair_is_one_line_and_exit_code_1(own_pair, command):
    prompt = [PROMPT] if command == "generate" else []
    truncated(own_pair / WEIGHTS)
    assert WEIGHTS in stderr_line(run(command, own_pair, *prompt), 1)
    (own_pair / MANIFEST).write_text("{")
    assert MANIFEST in stderr_line(run(command, own_pair, *prompt), 1)
    shutil.rmtree(own_pair)
    assert "edgespec export" in stderr_line(run(command, own_pair, *prompt), 1)


def test_a_bad_checkpoint_is_one_line_and_exit_code_1(own_checkpoints, tmp_path):
    target, draft = own_checkpoints
    (draft / "model.safetensors").unlink()
    result = run("export", target, draft, "-o", tmp_path / "pair")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("edgespec: ")
    assert "Traceback" not in result.stderr


def test_a_bad_output_folder_is_one_line_and_exit_code_2(tiny_checkpoints, own_pair, tmp_path):
    assert "--force" in stderr_line(run("export", *tiny_checkpoints, "-o", own_pair), 2)
    (tmp_path / "other" / "x").mkdir(parents=True)
    result = run("export", *tiny_checkpoints, "-o", tmp_path / "other", "--force")
    assert "not an exported pair" in stderr_line(result, 2)


def test_ctrl_c_is_one_line_and_exit_code_130(tiny_checkpoints, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("edgespec_export.export_pair.export_pair", interrupted)
    result = run("export", *tiny_checkpoints, "-o", tmp_path / "pair")
    assert result.exit_code == 130
    assert result.stderr.strip() == "edgespec: interrupted"
