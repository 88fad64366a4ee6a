"""Claim: a checkpoint's tensors are read bit for bit, one at a time, or one line says why not."""

import json
import pickle
import re
import struct
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.checkpoint import open_weights
from edgespec_export.checkpoint.safetensors_file import Safetensors
from edgespec_export.checkpoint.torch_file import TorchBin
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.onnx_graph.external_data import WeightFile, journal_of
from tiny_checkpoints import CODES, write_safetensors

TENSORS = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b.weight": np.arange(4, dtype=np.float16),
    "c.weight": np.asarray([[1.5, -2.0]], ml_dtypes.bfloat16),
    "d.scalar": np.asarray(7.0, np.float32),
    "e.empty": np.zeros((0, 3), np.float32),
}


def write_shards(folder: Path, weight_map=None):
    names = list(TENSORS)
    parts = {"model-1.safetensors": names[:2], "model-2.safetensors": names[2:]}
    for file, held in parts.items():
        write_safetensors(folder / file, {name: TENSORS[name] for name in held})
    found = {name: file for file, held in parts.items() for name in held}
    index = {"metadata": {"total_size": 1}, "weight_map": found | (weight_map or {})}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def assert_same_tensors(weights: Weights, tensors=TENSORS):
    assert weights.names() == sorted(tensors)
    for name, tensor in tensors.items():
        read = weights.read(name)
        assert weights.shape(name) == read.shape == tensor.shape
        assert read.dtype == tensor.dtype
        assert read.flags.c_contiguous
        assert read.tobytes() == tensor.tobytes()


def message_of(action) -> str:
    with pytest.raises(EdgespecError) as caught:
        action()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- safetensors ---------------------------------------------------------------------------------


def test_one_file_comes_back_bit_for_bit(tmp_path):
    write_safetensors(tmp_path / "model.safetensors", TENSORS)
    assert_same_tensors(open_weights(tmp_path))


def test_shards_come_back_bit_for_bit(tmp_path):
    write_shards(tmp_path)
    assert_same_tensors(open_weights(tmp_path))


def test_nan_is_read_as_nan(tmp_path):
    write_safetensors(tmp_path / "model.safetensors", {"x": np.asarray([np.nan], np.float32)})
    assert np.isnan(open_weights(tmp_path).read("x")).all()


def test_every_truncation_is_one_line(tmp_path):
    path = tmp_path / "model.safetensors"
    write_safetensors(path, TENSORS)
    whole = path.read_bytes()
    for size in [*range(0, 64), *range(64, len(whole), 11), len(whole) - 1]:
        path.write_bytes(whole[:size])
        assert "model.safetensors: cut off" in message_of(lambda: open_weights(tmp_path))


@pytest.mark.parametrize(
    "content",
    [
        b"GGUF" + bytes(64),
        struct.pack("<Q", 2**60) + b"{}",
        struct.pack("<Q", 4) + b"nope",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 3) + b"\xff\xff\xff",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
    ],
)
def test_every_bad_header_is_one_line(tmp_path, content):
    (tmp_path / "model.safetensors").write_bytes(content)
    assert "model.safetensors" in message_of(lambda: open_weights(tmp_path))


@pytest.mark.parametrize("second", ["a.weight", "a\\u002eweight"])
def test_a_tensor_that_a_header_names_twice_is_refused(tmp_path, second):
    """The library would read the second one without an error."""
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {"a.weight": TENSORS["a.weight"]})
    whole = path.read_bytes()
    size = struct.unpack("<Q", whole[:8])[0]
    text = whole[8 : 8 + size].decode()
    doubled = f'{text[:-1]}, "{second}": {text.partition(": ")[2]}'.encode()
    path.write_bytes(struct.pack("<Q", len(doubled)) + doubled + whole[8 + size :])
    said = message_of(lambda: open_weights(tmp_path))
    assert str(path) in said
    assert "'a.weight' twice" in said


def test_shapes_are_read_from_the_file_once(tmp_path):
    path = tmp_path / "model.safetensors"
    write_safetensors(path, TENSORS)
    weights = open_weights(tmp_path)
    path.unlink()
    assert weights.shape("a.weight") == (2, 3)


@pytest.mark.parametrize("code", ["I8", "F8_E4M3", "U8", "BOOL"])
def test_another_dtype_is_refused_by_name_when_it_is_read(tmp_path, code):
    tensors = {"x": np.ones(4, np.int8), "y": np.ones(4, np.float32)}
    write_safetensors(tmp_path / "model.safetensors", tensors, CODES | {"int8": code})
    weights = open_weights(tmp_path)
    assert weights.read("y").sum() == 4
    assert f"x is stored as {code}" in message_of(lambda: weights.read("x"))


def test_an_unknown_name_lists_the_close_ones(tmp_path):
    write_safetensors(tmp_path / "model.safetensors", TENSORS)
    weights = open_weights(tmp_path)
    for action in (weights.read, weights.shape):
        assert "a.weight" in message_of(lambda action=action: action("a.weigth"))


# --- the index -----------------------------------------------------------------------------------


def test_a_missing_shard_is_named(tmp_path):
    write_shards(tmp_path)
    (tmp_path / "model-2.safetensors").unlink()
    assert "model-2.safetensors: missing" in message_of(lambda: open_weights(tmp_path))


@pytest.mark.parametrize(
    "shard", ["../m.safetensors", "/etc/passwd", "..", "", "a\\b", "C:x", "sub/m", 3, None]
)
def test_a_shard_outside_the_folder_is_refused(tmp_path, shard):
    write_shards(tmp_path, {"a.weight": shard})
    assert repr(shard) in message_of(lambda: open_weights(tmp_path))


def test_a_tensor_the_shard_lacks_is_named(tmp_path):
    write_shards(tmp_path, {"ghost": "model-1.safetensors"})
    assert "lacks 'ghost'" in message_of(lambda: open_weights(tmp_path))


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", '{"weight_map": {}}', "\ud800", "[" * 9999])
def test_a_corrupt_index_is_one_line(tmp_path, text):
    path = tmp_path / "model.safetensors.index.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    assert "model.safetensors.index.json" in message_of(lambda: open_weights(tmp_path))


def test_an_empty_folder_says_what_was_looked_for(tmp_path):
    said = message_of(lambda: open_weights(tmp_path))
    assert "model.safetensors.index.json" in said
    assert "pytorch_model.bin" in said


# --- PyTorch files -------------------------------------------------------------------------------


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def as_torch(torch, tensor):
    if tensor.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(tensor.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(tensor.copy())


def test_pytorch_files_come_back_bit_for_bit(tmp_path, torch):
    torch.save({n: as_torch(torch, t) for n, t in TENSORS.items()}, tmp_path / "pytorch_model.bin")
    weights = open_weights(tmp_path)
    assert isinstance(weights, TorchBin)
    assert_same_tensors(weights)


def test_pytorch_shards_and_transposed_tensors_come_back(tmp_path, torch):
    matrix = torch.arange(6.0).reshape(2, 3)
    torch.save({"x": matrix}, tmp_path / "pytorch_model-1.bin")
    torch.save({"y": matrix.T}, tmp_path / "pytorch_model-2.bin")
    index = {"weight_map": {"x": "pytorch_model-1.bin", "y": "pytorch_model-2.bin"}}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    assert_same_tensors(
        open_weights(tmp_path),
        {"x": matrix.numpy(), "y": np.ascontiguousarray(matrix.numpy().T)},
    )


def test_safetensors_come_first(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"not read")
    write_safetensors(tmp_path / "model.safetensors", TENSORS)
    assert isinstance(open_weights(tmp_path), Safetensors)


class Trap:
    def __reduce__(self):
        return (print, ("edgespec ran code from a checkpoint",))


def test_a_pickle_that_runs_code_is_refused_and_not_run(tmp_path, torch, capsys):
    torch.save({"x": torch.ones(1), "trap": Trap()}, tmp_path / "pytorch_model.bin")
    assert "never unpickled" in message_of(lambda: open_weights(tmp_path))
    assert capsys.readouterr().out == ""


def test_a_file_from_before_pytorch_1_6_is_refused(tmp_path, torch):
    path = tmp_path / "pytorch_model.bin"
    torch.save({"x": torch.ones(1)}, path, _use_new_zipfile_serialization=False)
    assert "convert it to safetensors" in message_of(lambda: open_weights(tmp_path))
    path.write_bytes(pickle.dumps({"x": 1}))
    assert "convert it to safetensors" in message_of(lambda: open_weights(tmp_path))


def test_a_truncated_pytorch_file_is_one_line(tmp_path, torch):
    path = tmp_path / "pytorch_model.bin"
    torch.save({"x": torch.ones(100)}, path)
    whole = path.read_bytes()
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        assert "pytorch_model.bin" in message_of(lambda: open_weights(tmp_path))


def test_another_dtype_in_a_pytorch_file_is_refused_by_name(tmp_path, torch):
    torch.save({"x": torch.ones(1, dtype=torch.int8)}, tmp_path / "pytorch_model.bin")
    weights = open_weights(tmp_path)
    assert "torch.int8" in message_of(lambda: weights.read("x"))


def test_without_torch_the_line_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    assert re.search(r"pip install .*\[torch\]", message_of(lambda: open_weights(tmp_path)))


def test_reading_safetensors_does_not_import_torch():
    code = "import sys, edgespec_export.checkpoint.checkpoint; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- the file that an export writes --------------------------------------------------------------


def written(folder, first=None, **options):
    """The bytes of a checkpoint's weight file, and the tensors that this call added to it."""
    path, added = folder / "weights.data", []
    with WeightFile(path, open_weights(folder), **options) as file:
        for name in sorted(TENSORS)[:first]:

            def make(name=name):
                added.append(name)
                return file.checkpoint_tensor(name)

            file.tensor(name, make)
    return path.read_bytes(), added


@pytest.fixture
def whole(tmp_path):
    """The bytes of a whole weight file; the file itself was interrupted after three tensors."""
    write_safetensors(tmp_path / "model.safetensors", TENSORS)
    whole, added = written(tmp_path)
    assert added == sorted(TENSORS)
    (tmp_path / "weights.data").unlink()
    journal_of(tmp_path / "weights.data").unlink()
    written(tmp_path, 3)
    return whole


def test_an_interrupted_file_continues_after_its_last_tensor(tmp_path, whole):
    assert written(tmp_path) == (whole, sorted(TENSORS)[3:])


def test_interrupted_shards_continue_after_their_last_tensor(tmp_path):
    """Those that follow are written again, to the same bytes."""
    write_safetensors(tmp_path / "model.safetensors", TENSORS)
    limit = 2 * max(tensor.nbytes for tensor in TENSORS.values()) // 3  # the largest is in pieces

    def shards():
        return {path.name: path.read_bytes() for path in tmp_path.glob("weights*.data")}

    written(tmp_path, shard_bytes=limit)
    whole = shards()
    assert len(whole) > 2
    assert max(map(len, whole.values())) <= limit
    for path in tmp_path.glob("weights*"):
        path.unlink()
    written(tmp_path, 3, shard_bytes=limit)
    assert len(shards()) < len(whole)
    assert written(tmp_path, shard_bytes=limit)[1] == sorted(TENSORS)[3:]
    assert shards() == whole
    last = max(tmp_path.glob("weights-*.data"), key=lambda path: int(path.stem.split("-")[1]))
    last.unlink()
    assert written(tmp_path, shard_bytes=limit)[1]
    assert shards() == whole


def test_tensors_that_did_not_reach_the_disk_are_written_again(tmp_path, whole):
    """Although the journal names them; the file is not filled with zeros instead."""
    path = tmp_path / "weights.data"
    path.write_bytes(path.read_bytes()[:-1])
    assert written(tmp_path, 3)[1] == sorted(TENSORS)[2:3]
    path.write_bytes(path.read_bytes()[:5])
    assert written(tmp_path) == (whole, sorted(TENSORS))
    assert written(tmp_path)[0] == whole


@pytest.mark.parametrize("line", ["", "\0" * 9, "[]", '{"name": "c.weight"}', '{"na'])
def test_a_journal_is_used_up_to_its_first_damaged_line(tmp_path, whole, line):
    journal = journal_of(tmp_path / "weights.data")
    first, *_ = journal.read_text().splitlines()
    journal.write_text(f"{first}\n{line}\n")
    assert written(tmp_path) == (whole, sorted(TENSORS)[1:])
