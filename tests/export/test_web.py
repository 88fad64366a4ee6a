"""Claim: an export for the web has what a browser needs, in files that static hosts take.

What cannot run there is refused. Python reads such a folder like any other.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops.op_reduce_max import ReduceMax_18

import edgespec
from command import run
from edgespec.artifact.integrity import check_weights
from edgespec.artifact.manifest import is_weights, read_manifest
from edgespec.errors import EdgespecError, UsageError
from edgespec_export.export_pair import export_pair
from edgespec_export.hosts import web
from edgespec_export.operators.int8_ops import INT8_HEAD
from edgespec_export.passes.inline_functions import FOR_KERNELS
from edgespec_export.quantization.hadamard import hadamard
from logged import logged_lines
from operator_calls import one_call, rows_of

PROMPT = "abc abc abd"


@pytest.fixture
def exported(tiny_checkpoints, tmp_path):
    """Exports the tiny pair; returns the folder."""

    def exported(name="pair", **options):
        target, draft = map(str, tiny_checkpoints)
        options = {"host": "web", "draft_formats": ("int8",), "threads": 1} | options
        export_pair(target, draft, tmp_path / name, **options)
        return tmp_path / name

    return exported


# --- formats -------------------------------------------------------------------------------------


def test_int8_is_the_default_and_caches_are_small(own_checkpoints, tmp_path):
    target, draft = own_checkpoints
    run("export", target, draft, "-o", tmp_path / "pair", "--for", "web", "--threads", 1)
    manifest = read_manifest(tmp_path / "pair")
    assert list(manifest.target.variants) == list(manifest.draft.variants) == ["int8"]
    limited = web.with_limited_capacity(
        dataclasses.replace(
            manifest, target=dataclasses.replace(manifest.target, capacity=web.CAPACITY + 1)
        )
    )
    assert limited.target.capacity == web.CAPACITY
    assert limited.draft.capacity == manifest.draft.capacity


def test_another_format_of_the_target_leaves_the_draft_in_int8(own_checkpoints, tmp_path):
    target, draft = own_checkpoints
    one = ("--target-format", "fp32", "--threads", 1)
    run("export", target, draft, "-o", tmp_path / "pair", "--for", "web", *one)
    manifest = read_manifest(tmp_path / "pair")
    assert list(manifest.target.variants) == ["fp32"]
    assert list(manifest.draft.variants) == ["int8"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target_formats": ("int8", "fp32")}, "2 target formats are given"),
        ({"draft_formats": ("int8", "int4")}, "2 draft formats are given"),
        ({"target_formats": ("bf16",)}, "the target format bf16 is not known to run in a browser"),
        ({"cache_formats": ("int8",)}, "the cache formats are int8"),
    ],
)
def test_what_a_browser_cannot_use_is_refused(exported, tmp_path, options, said):
    with pytest.raises(UsageError, match=said):
        exported(**options)
    assert not (tmp_path / "pair").exists()


# --- graphs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", ["fp32", "int8"])
def test_graphs_have_no_functions_and_the_bits_of_those_with_functions(
    exported, tiny_checkpoints, tmp_path, format_
):
    inlined = exported(target_formats=(format_,), measure=False)
    target, draft = map(str, tiny_checkpoints)
    usual = tmp_path / "usual"
    export_pair(target, draft, usual, target_formats=(format_,), measure=False, threads=1)
    graphs = [folder / f"target/{format_}/decoder.onnx" for folder in (inlined, usual)]
    assert [bool(ir.load(graph).functions) for graph in graphs] == [False, True]
    calls = [_calls(graph) for graph in graphs]
    assert np.array_equal(*calls)
    assert np.ptp(calls[0]) > 0


def test_an_inlined_graph_does_not_take_what_only_kernels_understand(exported):
    graph = ir.load(
        exported(target_formats=("int8",), measure=False) / "target/int8/decoder.onnx"
    ).graph
    assert not FOR_KERNELS & {value.name for value in graph.inputs}


def _calls(graph):
    """Logits of calls of one and of five tokens after some others, without kernels."""
    session = ort.InferenceSession(graph)
    feeds = {
        value.name: np.zeros([16 if isinstance(size, str) else size for size in value.shape], "f4")
        for value in session.get_inputs()
        if value.name.startswith("past_") and value.type == "tensor(float)"
    }
    logits = []
    for past, rows in ((0, 6), (6, 1), (7, 5)):
        made = session.run(
            None,
            feeds
            | {
                "tokens": np.arange(rows, dtype=np.int64) + past,
                "past_length": np.array([past], np.int64),
                "skip": np.array([0], np.int64),
            },
        )
        by_name = dict(zip([value.name for value in session.get_outputs()], made, strict=True))
        feeds = {name: by_name[name.replace("past_", "present_")] for name in feeds}
        logits.append(by_name["logits"])
    return np.concatenate(logits)


# --- files ---------------------------------------------------------------------------------------


@pytest.fixture
def sharded(exported, monkeypatch):
    """The tiny pair in files of at most 16 kB, so that tables are in pieces; and in one file."""
    whole = exported("whole", target_formats=("fp32",))
    monkeypatch.setattr(web, "SHARD_BYTES", 16_000)
    return exported("sharded", target_formats=("fp32",)), whole


def test_no_file_of_weights_is_larger_than_a_shard(sharded):
    folder, whole = sharded
    files = read_manifest(folder).files
    weights = {name: record.bytes for name, record in files.items() if is_weights(name)}
    assert max(weights.values()) <= web.SHARD_BYTES
    shards = [name for name in weights if name.startswith("target/")]
    later = [f"target/fp32/weights-{shard}.data" for shard in range(2, len(shards) + 1)]
    assert sorted(shards) == sorted(["target/fp32/weights.data", *later])
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*.data")} == set(weights)
    graph = ir.load(folder / "target/fp32/decoder.onnx").graph
    assert any(node.op_type == "Concat" and len(node.inputs) > 1 for node in graph)
    target = read_manifest(folder).bytes("target", "fp32")
    assert target >= sum(weights[name] for name in shards)
    assert not (whole / "target/fp32/weights-2.data").exists()


def test_shards_give_the_text_of_one_file(sharded):
    pairs = [edgespec.load(folder, threads=1) for folder in sharded]
    texts = [pair.generate(PROMPT, max_new_tokens=40).token_ids for pair in pairs]
    assert texts[0] == texts[1]
    assert pairs[0].generate(PROMPT, max_new_tokens=40, draft=False).token_ids == texts[0]


def test_shards_are_checked_like_other_weights(sharded):
    folder, _ = sharded
    shard = folder / "target/fp32/weights-2.data"
    files = read_manifest(folder).files
    check_weights(folder, files)
    content = bytearray(shard.read_bytes())
    content[5] ^= 1
    shard.write_bytes(content)
    with pytest.raises(EdgespecError, match=r"weights-2\.data is not the file that was exported"):
        check_weights(folder, files)
    shard.write_bytes(content[:-1])
    with pytest.raises(EdgespecError, match=r"weights-2\.data has"):
        edgespec.load(folder)
    shard.unlink()
    with pytest.raises(EdgespecError, match=r"weights-2\.data is missing"):
        edgespec.load(folder)


# --- memory --------------------------------------------------------------------------------------


def test_the_export_says_what_a_browser_downloads_and_needs(exported):
    with logged_lines() as lines:
        folder = exported()
    manifest = read_manifest(folder)
    download = sum(record.bytes for record in manifest.files.values())
    assert (
        f"web: {download / 1e6:.0f} MB to download, about {web.memory(manifest) / 1e6:.0f}"
        in (lines[-1])
    )
    assert web.memory(manifest) > web.RUNTIME_BYTES + download


def test_memory_grows_with_the_cache(exported):
    manifest = read_manifest(exported())
    target = dataclasses.replace(manifest.target, capacity=manifest.target.capacity + 10)
    more = web.memory(dataclasses.replace(manifest, target=target)) - web.memory(manifest)
    keys_and_values = 2 * target.layers * target.kv_heads * target.head_size * 4 * 10
    assert more == 2 * keys_and_values  # as input and as output


@pytest.mark.parametrize(
    ("parameters", "formats", "fits"),
    [
        (2_000_000_000, "int8", True),
        (3_000_000_000, "int8", False),
        (500_000_000, "fp32", True),
        (1_000_000_000, "fp16", False),
    ],
)
def test_models_beyond_32_bit_addresses_are_refused_before_they_are_written(
    parameters, formats, fits
):
    models = [(4 * parameters, formats)]
    if fits:
        web.check_estimate(models)
    else:
        with pytest.raises(EdgespecError, match=r"in a browser, and WebAssembly has 4\.3 GB; take"):
            web.check_estimate(models)


def test_a_pair_that_does_not_fit_leaves_no_folder(exported, monkeypatch, tmp_path):
    monkeypatch.setattr(web, "HEAP_BYTES", web.RUNTIME_BYTES)  # room for the weights alone
    with pytest.raises(EdgespecError, match="smaller model"):
        exported()
    assert not (tmp_path / "pair").exists()


# --- operators -----------------------------------------------------------------------------------


class RefusingReduceMax(ReduceMax_18):
    """As on WebGPU."""

    op_domain = ""

    def _run(self, data, axes=None, **attributes):
        assert data.size > 0, "ReduceMax of an empty tensor"
        return super()._run(data, axes, **attributes)


@pytest.mark.parametrize("choose", [0, 1, 2])
def test_the_head_reduces_no_empty_tensor(choose):
    rng = np.random.default_rng(3)
    inputs = {"x": rows_of(rng, 3, 64), "choose": np.array([choose], np.int64)}
    fixed = {
        "norm": np.ones(64, np.float32),
        "hadamard": hadamard(64),
        "table": rng.integers(-128, 128, (48, 64), dtype=np.int8),
        "scale": np.full(48, 1e-3, np.float32),
    }
    model = ir.to_proto(
        one_call(INT8_HEAD, inputs, fixed, {"epsilon": 1e-5, "blocks": [-1, 64], "rows": [-1, 64]})
    )
    outputs = ReferenceEvaluator(model, new_ops=[RefusingReduceMax]).run(None, inputs)
    rows = {0: [3, 0, 0, 0], 1: [0, 3, 3, 0], 2: [0, 3, 3, 3]}[choose]
    assert [len(output) for output in outputs] == rows
