"""Claim: GGUF files are read under any name, in parts and alone in a folder, or a line says how."""

from __future__ import annotations

import shutil

import gguf
import numpy as np
import pytest

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.gguf.gguf_file import open_gguf
from edgespec_export.checkpoint.sources import resolve
from tiny_checkpoints import (
    HEADS,
    KV_HEADS,
    add_value,
    gguf_name,
    hugging_face_tensors,
    metadata,
    permuted,
    write_gguf,
)


def write_part(path, names, number, count):
    """A part as gguf-split writes it: the first one has the metadata."""
    writer = gguf.GGUFWriter(path, "llama")
    tensors = hugging_face_tensors()
    for key, value in metadata().items() if number == 0 else ():
        add_value(writer, key, value)
    writer.add_uint16("split.no", number)
    writer.add_uint16("split.count", count)
    writer.add_int32("split.tensors.count", len(tensors))
    for name in names:
        heads = {"q_proj": HEADS, "k_proj": KV_HEADS}.get(name.split(".")[-2])
        tensor = permuted(tensors[name], heads) if heads else tensors[name]
        writer.add_tensor(gguf_name(name), tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_split(folder, count=3, form="m-{:05d}-of-{:05d}.gguf"):
    folder.mkdir(exist_ok=True)
    names = sorted(hugging_face_tensors())
    return [
        write_part(folder / form.format(part + 1, count), names[part::count], part, count)
        for part in range(count)
    ]


def message_of(action, *arguments):
    with pytest.raises(EdgespecError) as caught:
        action(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("part", [0, 1, 2])
@pytest.mark.parametrize("form", ["m-{:05d}-of-{:05d}.gguf", "M-{:05d}-of-{:05d}.GGUF"])
def test_a_split_file_is_read_whole_from_any_of_its_parts(part, form, tmp_path):
    parts = write_split(tmp_path / "split", form=form)
    weights = open_gguf(resolve(str(parts[part])).path).weights
    tensors = hugging_face_tensors()
    assert weights.names() == sorted(tensors)
    for name, tensor in tensors.items():
        assert np.array_equal(weights.read(name), tensor)


def test_a_part_that_is_missing_is_named(tmp_path):
    parts = write_split(tmp_path / "split")
    parts[1].unlink()
    message = message_of(open_gguf, parts[0])
    assert "m-00002-of-00003.gguf is not beside it: put all 3 parts into one folder" in message


@pytest.mark.parametrize("number", [0, 1])
def test_a_part_whose_name_does_not_say_so_is_called_one(number, tmp_path):
    part = write_split(tmp_path / "split")[number].rename(tmp_path / "sha256-0123")
    assert "join them with llama-gguf-split --merge" in message_of(open_gguf, part)


def test_parts_with_the_same_tensor_are_no_model(tmp_path):
    names = sorted(hugging_face_tensors())
    first = write_part(tmp_path / "m-00001-of-00002.gguf", names, 0, 2)
    write_part(tmp_path / "m-00002-of-00002.gguf", names[:1], 1, 2)
    assert "of another part" in message_of(open_gguf, first)


@pytest.mark.parametrize("name", ["sha256-0123", "M.GGUF", "model", "model.bin"])
def test_a_file_is_known_by_its_first_bytes(name, tmp_path):
    path = write_gguf(tmp_path / "m.gguf").rename(tmp_path / name)
    assert open_gguf(resolve(str(path)).path).config["model_type"] == "llama"


def test_a_folder_with_one_model_is_that_model(tmp_path):
    alone, split = tmp_path / "alone", tmp_path / "split"
    alone.mkdir()
    path = write_gguf(alone / "M.GGUF")
    parts = write_split(split)
    assert resolve(str(alone)).path == path
    assert resolve(str(split)).path == parts[0]


def test_a_folder_with_several_models_asks_for_one(tmp_path):
    shutil.copy(write_gguf(tmp_path / "a.gguf"), tmp_path / "b.gguf")
    message = message_of(resolve, str(tmp_path))
    assert "has 2 GGUF files and no config.json: name one of them (a.gguf, b.gguf)" in message


@pytest.mark.parametrize(
    ("name", "words"),
    [("model.safetensors", "give its folder"), ("model.onnx", "edgespec reads safetensors")],
)
def test_a_file_of_another_kind_says_what_to_give(name, words, tmp_path):
    (tmp_path / name).write_bytes(b"something else")
    assert words in message_of(resolve, str(tmp_path / name))
