"""Claim: each block of a layer that one operator can compute is fused; the others have a reason.

The manifest and `edgespec inspect` show the count of each graph; the export logs the reasons.
"""

from __future__ import annotations

import logging

import numpy as np
import onnx
import pytest

from checkpoints import byte_tokenizer, write_llama, write_t5
from command import run
from depth import one_in
from edgespec.artifact.manifest import FusedBlocks, read_manifest
from edgespec.device.device import Device
from edgespec.device.kernels import installed_kernels
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export import write_graphs
from edgespec_export.export_pair import export_pair
from edgespec_export.passes.fuse_blocks import Fusion, fuse_blocks
from gemma3_checkpoints import write_gemma3
from manifests import edit_manifest

SIZES = {
    "vocab_size": 272,
    "tokenizer": byte_tokenizer(272),
    "head_size": 16,
    "width": 64,
    "inner": 96,
}

# Formats of weights with fused blocks.
WITH_BLOCKS = ["int8", "int4", "int4-int8", "int8-groups", "bf16-products"]
# Families and options with the fused blocks of each graph, of 3 decoder layers and 1 encoder layer.
CASES = {
    "llama": (write_llama, {}, {"decoder": (6, 6)}),
    "t5 v1.0": (write_t5, {}, {"decoder": (9, 9), "encoder": (1, 2)}),
    "t5 v1.1": (write_t5, {"gated": True}, {"decoder": (9, 9), "encoder": (1, 2)}),
    "qwen2, whose queries, keys and values have biases": (
        write_llama,
        {"model_type": "qwen2"},
        {"decoder": (6, 6)},
    ),
    "biases of all attention projections": (
        write_llama,
        {"attention_bias": True},
        {"decoder": (3, 6)},
    ),
    "qwen3, whose heads are normalised": (
        write_llama,
        {"model_type": "qwen3"},
        {"decoder": (6, 6)},
    ),
    "an activation without an operator": (
        write_llama,
        {"hidden_act": "gelu"},
        {"decoder": (3, 6)},
    ),
    "an odd width, which is not rotated": (
        write_llama,
        {"inner": 97},
        {"decoder": (3, 6)},
    ),
    "heads too small for the fused attention": (
        write_llama,
        {"head_size": 8},
        {"decoder": (3, 6)},
    ),
}


def export(write, options, tmp_path, **settings):
    source = write(tmp_path / "checkpoint", **{**SIZES, **options})
    return export_pair(str(source), None, tmp_path / "pair", measure=False, threads=1, **settings)


@one_in(2)
@pytest.mark.parametrize("case", CASES)
def test_fused_blocks_of_each_graph_are_counted(case, tmp_path):
    write, options, expected = CASES[case]
    export(write, options, tmp_path, target_formats=["int8"])
    variant = read_manifest(tmp_path / "pair").target.variants["int8"]
    assert variant.blocks == {name: FusedBlocks(*counts) for name, counts in expected.items()}
    for name, path in variant.graphs.items():
        graph = onnx.load(tmp_path / "pair" / path, load_external_data=False).graph
        fused = [node for node in graph.node if node.op_type.endswith("Block")]
        assert len(fused) == variant.blocks[name].fused


def test_a_format_without_operators_for_blocks_counts_none(tmp_path):
    manifest = export(write_llama, {}, tmp_path, target_formats=["fp32", "fp16"])
    assert [variant.blocks for variant in manifest.target.variants.values()] == [{}, {}]


@one_in(2)
@pytest.mark.parametrize("number_format", ["int8", "int4"])
def test_blocks_with_a_narrow_cache_are_fused(number_format, tmp_path):
    formats = {"target_formats": [number_format], "cache_formats": ["fp32", "fp16", "int8"]}
    manifest = export(write_llama, {"inner": 128, "head_size": 32}, tmp_path, **formats)
    counts = [variant.blocks["decoder"] for variant in manifest.target.variants.values()]
    assert counts == [FusedBlocks(6, 6)] * 3


def write_phi3(folder):
    """Its heads are rotated by half."""
    from test_phi3 import write_phi3

    return write_phi3(folder, partial_rotary_factor=0.5)


def write_qwen3(folder):
    return write_llama(folder, **{**SIZES, "model_type": "qwen3", "head_size": 32, "heads": 4})


def write_qwen2(folder):
    return write_llama(folder, **{**SIZES, "model_type": "qwen2", "head_size": 16, "heads": 4})


def write_even_gemma3(folder):
    return write_gemma3(
        folder, hidden_size=64, num_attention_heads=4, intermediate_size=96, sliding_window=7
    )


@one_in(2, turn=1)
@pytest.mark.parametrize("number_format", WITH_BLOCKS)
@pytest.mark.parametrize("write", [write_qwen2, write_qwen3, write_phi3, write_even_gemma3])
def test_whole_families_are_fused_with_every_cache(write, number_format, tmp_path):
    manifest = export_pair(
        str(write(tmp_path / "checkpoint")),
        None,
        tmp_path / "pair",
        target_formats=[number_format],
        cache_formats=["fp32", "fp16", "int8"],
        calibration="none",
        measure=False,
        threads=1,
    )
    counts = [variant.blocks["decoder"] for variant in manifest.target.variants.values()]
    assert len(counts) == 3
    assert all(blocks.fused == blocks.total > 0 for blocks in counts)


@one_in(2)
@pytest.mark.skipif(installed_kernels() is None, reason="bodies round otherwise")
@pytest.mark.parametrize("number_format", WITH_BLOCKS)
@pytest.mark.parametrize("write", [write_qwen2, write_qwen3, write_phi3, write_even_gemma3])
def test_a_fused_model_has_the_bits_of_one_that_is_not_fused(
    write, number_format, tmp_path, monkeypatch
):
    source = write(tmp_path / "checkpoint")
    tokens = [int(token) for token in np.random.default_rng(0).integers(3, 272, size=60)]
    logits, counts = [], []
    for name, fuse in (("fused", fuse_blocks), ("not fused", leave_blocks)):
        monkeypatch.setattr(write_graphs, "fuse_blocks", fuse)
        formats = {"target_formats": [number_format], "calibration": "none"}
        exported = export_pair(str(source), None, tmp_path / name, measure=False, **formats).target
        model = open_model(tmp_path / name, exported, number_format, device=Device(2))
        logits.append([model.score(tokens[at : at + 9]).copy() for at in range(0, 60, 9)])
        counts.append(exported.variants[number_format].blocks["decoder"].fused)
    assert counts[0] > counts[1] == 0
    for ours, theirs in zip(*logits, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def leave_blocks(model, blocks):
    return Fusion(0, {block.name: "" for block in blocks})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"inner": 97}, "mlp (3 blocks) not fused: after SiluGate is Int8MatMul, not Hadamard"),
        ({"mlp_bias": True}, "mlp (3 blocks) not fused: before SiluGate is Sum, not RMSNorm"),
        ({"hidden_act": "gelu"}, "mlp (3 blocks) not fused: no operator computes a whole block"),
        ({"attention_bias": True}, "self_attn (3 blocks) not fused: after Int8MatMul is Sum, not"),
    ],
    ids=["an odd width, which is not rotated", "a bias", "an activation", "a bias at the end"],
)
def test_the_export_logs_why_blocks_are_not_fused(options, reason, tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="edgespec"):
        export(write_llama, options, tmp_path, target_formats=["int8"])
    assert f"target int8 decoder: 3 of 6 blocks fused; model.layers.*.{reason}" in caplog.text


def test_inspect_shows_the_count(tmp_path):
    export(write_llama, {"inner": 97}, tmp_path, target_formats=["fp32", "int8"])
    lines = run("inspect", str(tmp_path / "pair")).output.splitlines()
    assert "    decoder: target/int8/decoder.onnx, 3 of 6 blocks fused" in lines
    assert "    decoder: target/fp32/decoder.onnx" in lines


def test_more_fused_blocks_than_there_are_is_one_line(tmp_path):
    export(write_llama, {}, tmp_path, target_formats=["int8"])
    folder = tmp_path / "pair"
    counts = {"decoder": {"fused": 7, "total": 6}}
    edit_manifest(folder, lambda data: data["target"]["variants"]["int8"].update(blocks=counts))
    with pytest.raises(EdgespecError, match="fused is 7, total 6"):
        read_manifest(folder)
