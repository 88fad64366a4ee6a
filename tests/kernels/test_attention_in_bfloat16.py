"""Claim: attention in bfloat16 makes another target, exact like any other.

Its order of additions is one on every processor and for every number of rows; the tests of the
kernels compare bits (runtimes/kernels/tests/test_rounded_attention.cpp, bits.cpp). Here: an export
has it where it was asked for and says so, its text is the same with a draft and without, and a
variant without it keeps its graphs.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_noisy
from edgespec.artifact.graph_io import DECODER
from edgespec.artifact.manifest import MANIFEST, read_manifest
from edgespec.device.device import Device
from edgespec.device.kernels import installed_kernels
from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from manifests import edit_manifest

pytestmark = pytest.mark.skipif(installed_kernels() is None, reason="there are no kernels here")

CACHES = ["fp32", "int8", "int8-bf16"]
WEIGHTS = ["fp32", "int8"]


@pytest.fixture(scope="module")
def folder(made_once):
    def make(folder):
        sizes = {"vocab_size": 272, "head_size": 16, "heads": 4, "kv_heads": 2}
        sizes |= {"tokenizer": byte_tokenizer(272), "max_position_embeddings": 1024}
        target = write_llama(folder / "target", **sizes)
        draft = write_noisy(target, folder / "draft", noise=0.1)
        formats = {"target_formats": WEIGHTS, "cache_formats": CACHES}
        export_pair(str(target), str(draft), folder / "pair", threads=1, **formats)

    return made_once("attention-in-bfloat16", make) / "pair"


def attention_of(folder, variant):
    """The attributes of the decoder's attention."""
    graphs = read_manifest(folder).target.variants[variant].graphs
    nodes = ir.load(folder / graphs[DECODER]).graph
    return {
        node.attributes["bfloat16"].value if "bfloat16" in node.attributes else 0
        for node in nodes
        if "Attention" in node.op_type
    }


def test_the_manifest_and_the_graph_say_which_numbers_attention_adds_up(folder):
    variants = read_manifest(folder).target.variants
    found = {name: (v.cache_format, v.attention_format) for name, v in variants.items()}
    assert found["int8-cache-int8-bf16"] == ("int8", "bf16")
    assert found["int8-cache-int8"] == ("int8", "fp32")
    for name, (_, attention) in found.items():
        assert attention_of(folder, name) == {int(attention == "bf16")}


@pytest.mark.parametrize("weights", WEIGHTS)
def test_it_is_row_invariant_and_near_float32(folder, weights):
    variant = read_manifest(folder).target.variants[f"{weights}-cache-int8-bf16"]
    assert variant.row_invariance.is_row_invariant
    assert variant.distance.kl < 0.1


def test_its_logits_are_others_than_those_of_float32(folder):
    target = read_manifest(folder).target
    tokens = list(range(200))
    rows = [
        open_model(folder, target, name, device=Device(1)).score(tokens)
        for name in ("fp32-cache-int8", "fp32-cache-int8-bf16")
    ]
    difference = np.abs(rows[0] - rows[1]).max() / np.abs(rows[0]).max()
    assert 0 < difference < 0.05


@pytest.mark.parametrize("weights", WEIGHTS)
def test_greedy_text_with_a_draft_is_that_without_one(folder, weights):
    pair = edgespec.load(folder, target_format=f"{weights}-cache-int8-bf16", threads=1)
    prompt = "The keys of a long prompt are read again by every position. " * 5
    texts = [
        pair.generate(prompt, max_new_tokens=40, draft=draft, gamma=gamma).token_ids
        for draft, gamma in ((False, None), ("model", 1), ("model", 4), ("lookup", 7))
    ]
    assert texts.count(texts[0]) == len(texts)


def test_a_cache_format_needs_heads_that_kernels_take(tmp_path):
    odd = write_llama(tmp_path / "odd", vocab_size=272, tokenizer=byte_tokenizer(272))  # of 10
    with pytest.raises(UsageError, match=r"this model's heads \(10 numbers\); give int8"):
        export_pair(str(odd), None, tmp_path / "pair", cache_formats=["int8-bf16"], measure=False)


def test_a_manifest_with_unknown_numbers_is_refused(folder, tmp_path):
    copy = tmp_path / "pair"
    copy.mkdir()
    (copy / MANIFEST).write_bytes((folder / MANIFEST).read_bytes())
    edit_manifest(
        copy,
        lambda data: data["target"]["variants"]["int8"].update(attention_format="fp8"),
    )
    with pytest.raises(EdgespecError, match="attention_format is 'fp8'"):
        read_manifest(copy)
