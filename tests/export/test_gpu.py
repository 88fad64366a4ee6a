"""Claim: an export for a GPU has standard operators only, and computes what the usual export does.

It runs on the processor here; `make test-providers` runs such graphs on WebGPU.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import edgespec
from checkpoints import byte_tokenizer, write_t5
from command import run
from depth import one_in
from edgespec.artifact import graph_io
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import UsageError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_export.passes.device_operators import OPSET
from scored_in_pieces import scored_in_pieces

PROMPT = [5, 9, 30, 31, 32, 9, 30, 31]


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    sizes = {"vocab_size": 320, "head_size": 16, "heads": 2, "width": 32}
    return write_t5(tmp_path_factory.mktemp("gpu") / "t5", tokenizer=byte_tokenizer(), **sizes)


@pytest.fixture(scope="module")
def exported(tiny_checkpoints, t5, tmp_path_factory):
    """Both kinds of models, exported for a GPU and as usual, each once."""
    folder = tmp_path_factory.mktemp("gpu")
    made = {}

    def exported(kind, host="gpu", target_format="fp32"):
        key = kind, host, target_format
        if key not in made:
            target, draft = map(str, tiny_checkpoints) if kind == "llama" else (str(t5), str(t5))
            out = folder / f"pair{len(made)}"
            formats = {"target_formats": (target_format,), "draft_formats": ("fp32",)}
            export_pair(target, draft, out, host=host, threads=1, **formats)
            made[key] = out
        return made[key]

    return exported


@pytest.mark.parametrize("kind", ["llama", "t5"])
def test_a_graph_has_standard_operators_of_an_older_opset_and_is_told_positions(exported, kind):
    folder = exported(kind)
    assert read_manifest(folder).host == "gpu"
    for file in folder.rglob("*.onnx"):
        model = ir.load(file)
        assert not model.functions
        assert model.opset_imports == {"": OPSET}
        assert {node.domain for node in model.graph} == {""}
        newer = {"TensorScatter", "RotaryEmbedding", "RMSNormalization", "Attention"}
        assert not newer & {node.op_type for node in model.graph}
        inputs = {value.name for value in model.graph.inputs}
        told = {graph_io.ROW_POSITIONS, graph_io.KEY_POSITIONS}
        assert file.stem != "decoder" or (told <= inputs and "past_length" not in inputs)


@one_in(2)
@pytest.mark.parametrize(("target_format", "close"), [("fp32", 1e-5), ("fp16", 5e-3)])
@pytest.mark.parametrize("kind", ["llama", "t5"])
def test_it_computes_what_the_usual_export_computes(exported, kind, target_format, close):
    usual = scored_in_pieces(exported(kind, host=None))
    found = scored_in_pieces(exported(kind, target_format=target_format), target_format)
    assert np.abs(found - usual).max() < close * np.abs(usual).max()
    assert np.ptp(usual) > 0


def test_its_buffers_have_one_size_whatever_calls_are_padded_to(exported):
    """A device chooses kernels by it: row invariance is measured with the buffers that are used."""
    folder = exported("llama")
    target = read_manifest(folder).target
    sizes = set()
    for rows in (1, 2, graph_io.MAX_ROWS):
        model = open_model(folder, target, "fp32", capacity=64, min_rows=rows)
        sizes |= {array.shape[2] for array in model.cache.values()}
    assert sizes == {64 + graph_io.MAX_ROWS - 1 + graph_io.SPARE_POSITIONS}


@pytest.mark.parametrize("kind", ["llama", "t5"])
def test_its_texts_with_a_draft_are_those_without(exported, kind):
    pair = edgespec.load(exported(kind), threads=1)
    options = {"max_new_tokens": 40, "gamma": 3, "draft": "model"}
    text = pair.generate(PROMPT, **options)
    assert text.stats.accepted > 0
    assert text.token_ids == pair.generate(PROMPT, max_new_tokens=40, draft=False).token_ids
    sampled = pair.generate(PROMPT, temperature=1.0, seed=3, **options)
    assert sampled.token_ids == pair.generate(PROMPT, temperature=1.0, seed=3, **options).token_ids


def test_the_command_line_exports_for_a_gpu_in_fp32(own_checkpoints, tmp_path):
    run("export", *own_checkpoints, "-o", tmp_path / "pair", "--for", "gpu", "--threads", 1)
    manifest = read_manifest(tmp_path / "pair")
    assert list(manifest.target.variants) == list(manifest.draft.variants) == ["fp32"]
    said = run("inspect", tmp_path / "pair", "--threads", 1).stdout
    assert "row-invariant" in said
    assert "made for: a GPU (--for gpu), for any γ and capacity\n" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target_formats": ("int8",)}, "the target format int8 has no graph for a GPU"),
        ({"draft_formats": ("int4",)}, "the draft format int4 has no graph for a GPU"),
        ({"cache_formats": ("fp16",)}, "the cache formats are fp16"),
        ({"host": "toaster"}, "no host 'toaster'; there is: web, gpu"),
    ],
)
def test_what_no_graph_for_a_gpu_has_is_refused(tiny_checkpoints, tmp_path, options, said):
    target, draft = map(str, tiny_checkpoints)
    with pytest.raises(UsageError, match=said):
        export_pair(target, draft, tmp_path / "pair", **{"host": "gpu", **options})
    assert not (tmp_path / "pair").exists()
