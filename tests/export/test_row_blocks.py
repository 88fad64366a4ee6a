"""Claim: a table is read and rounded in blocks of rows, with the result of the whole.

A vocabulary's table in float32 can be larger than all that an export stores.
"""

import tracemalloc

import gguf
import ml_dtypes
import numpy as np
import pytest

from checkpoints import write_llama
from edgespec_export.checkpoint import weights as weights_module
from edgespec_export.checkpoint.checkpoint import open_checkpoint, open_weights
from edgespec_export.checkpoint.gguf.gguf_file import open_gguf
from edgespec_export.checkpoint.sources import Source
from edgespec_export.checkpoint.weights import row_blocks
from edgespec_export.families import family_of
from edgespec_export.onnx_graph.external_data import WeightFile
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.quantization.formats import FORMATS
from edgespec_export.quantization.int8 import Int8
from edgespec_export.quantization.int8_tables import int8_table
from edgespec_export.quantization.rounding import per_row
from gemma3_checkpoints import write_gemma3
from tiny_checkpoints import hugging_face_tensors, write_gguf, write_safetensors


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(weights_module, "BLOCK", 100)


def assert_blocks_are_the_tensor(weights, name):
    blocks = list(row_blocks(weights, name))
    whole = weights.read(name)
    assert len(blocks) > 1
    assert {block.dtype for block in blocks} == {whole.dtype}
    np.testing.assert_array_equal(np.concatenate(blocks), whole)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_blocks_of_a_safetensors_file(tmp_path, dtype):
    table = np.random.default_rng(0).normal(size=(37, 12)).astype(dtype)
    write_safetensors(tmp_path / "model.safetensors", {"table": table})
    assert_blocks_are_the_tensor(open_weights(tmp_path), "table")


@pytest.mark.parametrize("kind", ["F32", "BF16", "Q8_0", "Q4_1"])
def test_blocks_of_a_gguf_file_also_of_reordered_heads(tmp_path, kind):
    names = ["model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight"]
    kinds = dict.fromkeys(names, gguf.GGMLQuantizationType[kind])
    file = write_gguf(tmp_path / "a.gguf", hugging_face_tensors(), kinds=kinds)
    weights = open_gguf(file).weights
    for name in names:
        assert_blocks_are_the_tensor(weights, name)


def test_blocks_of_a_source_that_reads_whole_tensors_only():
    class Whole:
        def shape(self, name):
            return (30, 9)

        def read(self, name):
            return np.arange(270, dtype=np.float32).reshape(30, 9)

    assert_blocks_are_the_tensor(Whole(), "any")


def viewed(folder):
    checkpoint = open_checkpoint(Source(folder, "test"))
    family = family_of(checkpoint.config, "test")
    return family, family.view(checkpoint.weights)


def test_blocks_of_gemma3(tmp_path):
    _, weights = viewed(write_gemma3(tmp_path / "gemma", vision=True))
    assert_blocks_are_the_tensor(weights, "model.embed_tokens.weight")


@pytest.mark.parametrize("tied", [False, True])
def test_blocks_of_rotated_weights(tmp_path, tied):
    """Products of fewer rows may have other last bits."""
    family, weights = viewed(write_llama(tmp_path / "llama", tie_word_embeddings=tied))
    rotated = Int8().transform_checkpoint(weights, family.residual_stream())
    for name in rotated.names():
        if len(rotated.shape(name)) > 1:
            whole = rotated.read(name)
            found = np.concatenate(list(row_blocks(rotated, name)))
            np.testing.assert_allclose(found, whole, atol=1e-6)


def test_a_table_is_rounded_as_the_whole_and_never_whole_in_float32(tmp_path, monkeypatch):
    monkeypatch.setattr(weights_module, "BLOCK", 2**14)
    table = np.random.default_rng(1).normal(size=(20_000, 64)).astype(ml_dtypes.bfloat16)
    write_safetensors(tmp_path / "model.safetensors", {"table": table})
    with WeightFile(tmp_path / "weights.data", open_weights(tmp_path)) as file:
        tracemalloc.start()
        int8_table(Graph("table", file), "table")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert file.unread == frozenset()
    codes, scale = per_row(table.astype(np.float32))
    assert peak < 4 * table.size  # its bytes as float32
    written = (tmp_path / "weights.data").read_bytes()
    assert written[: codes.size] == codes.tobytes()
    assert written[-scale.nbytes :] == scale.tobytes()


@pytest.mark.parametrize("name", ["fp16", "bf16", "bf16-products", "int8-groups"])
def test_other_formats_store_the_same_table_from_blocks(tmp_path, monkeypatch, name):
    table = np.random.default_rng(2).normal(size=(60, 32)).astype(np.float32)
    write_safetensors(tmp_path / "model.safetensors", {"table": table})

    def written(block):
        monkeypatch.setattr(weights_module, "BLOCK", block)
        path = tmp_path / f"{block}.data"
        with WeightFile(path, open_weights(tmp_path)) as file:
            graph = Graph("table", file)
            FORMATS[name].make().table(graph, graph.input("tokens", np.int64, ["m"]), "table")
        return path.read_bytes()

    assert written(100) == written(table.size)
