"""Exports for NPUs: graphs with fixed shapes make the texts that other graphs make."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import external_data_helper

import edgespec
from checkpoints import byte_tokenizer, write_noisy, write_small_llama, write_t5
from command import run
from depth import deep
from edgespec.artifact.manifest import read_manifest
from edgespec.artifact.static_calls import StaticCalls
from edgespec.device.device import Device
from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.opening import loading, provider_check, runtime
from edgespec.pair.opening.provider_check import refuse_if_far
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_export.passes.standard_operators import OPSET, TAKEN
from edgespec_runtimes.ort.ort_model import OrtModel
from logged import logged_lines

PROMPTS = ("hello world", "The museum opens at nine in the morning and closes at six.")


@pytest.fixture(scope="module")
def npu_folder(tiny_checkpoints, tmp_path_factory) -> Path:
    """The tiny pair for NPUs, with calls of 2 and 5 rows. Read only."""
    target, draft = tiny_checkpoints
    folder = tmp_path_factory.mktemp("npu") / "pair"
    export_pair(str(target), str(draft), folder, host="npu", threads=1)
    return folder


@pytest.fixture(scope="module")
def npu(npu_folder) -> edgespec.Pair:
    return edgespec.load(npu_folder, threads=1)


def text(pair: edgespec.Pair, prompt: str, **options) -> str:
    return pair.generate(prompt, max_new_tokens=40, temperature=0, **options).text


@pytest.mark.parametrize("prompt", PROMPTS)
def test_fixed_shapes_give_the_text_of_other_graphs(tiny, npu, prompt):
    wanted = text(tiny, prompt, draft=False)
    assert text(npu, prompt, draft=False) == wanted
    assert text(npu, prompt, gamma=4) == wanted
    assert text(npu, prompt, draft="lookup") == wanted


def test_drafts_are_accepted(npu):
    found = npu.generate(PROMPTS[1], max_new_tokens=40, temperature=0, gamma=4)
    assert found.stats.accepted > 0


def test_graphs_have_fixed_shapes_and_standard_operators(npu_folder):
    variant = read_manifest(npu_folder).target.variants["fp32"]
    assert variant.static == StaticCalls([2, 5], 32, 96, None, "fp32")
    for name in variant.static.graphs:
        model = onnx.load(npu_folder / variant.graphs[name], load_external_data=False)
        assert not model.functions
        assert [(o.domain, o.version) for o in model.opset_import] == [("", OPSET)]
        assert {node.op_type for node in model.graph.node} <= TAKEN
        for value in (*model.graph.input, *model.graph.output):
            assert all(dim.dim_value > 0 for dim in value.type.tensor_type.shape.dim), value.name
            assert value.type.tensor_type.elem_type != onnx.TensorProto.INT64, value.name
        onnx.checker.check_model(str(npu_folder / variant.graphs[name]))


def test_all_graphs_read_one_file_of_weights(npu_folder):
    variant = read_manifest(npu_folder).target.variants["fp32"]
    places: dict[str, set[tuple[str, ...]]] = {}
    for name in variant.static.graphs:
        model = onnx.load(npu_folder / variant.graphs[name], load_external_data=False)
        for tensor in model.graph.initializer:
            if external_data_helper.uses_external_data(tensor):
                entries = {entry.key: entry.value for entry in tensor.external_data}
                where = entries["location"], entries["offset"]
                places.setdefault(tensor.name, set()).add(where)
    assert len(places) > 10
    assert all(len(where) == 1 for where in places.values())


def test_a_prompt_graph_returns_keys_and_values_only(npu_folder):
    variant = read_manifest(npu_folder).target.variants["fp32"]
    model = onnx.load(npu_folder / variant.graphs["prompt"], load_external_data=False)
    assert {value.name.split(".")[0] for value in model.graph.output} == {
        "present_key",
        "present_value",
    }


def model_of(folder: Path, **options):
    manifest = read_manifest(folder)
    return open_model(folder, manifest.target, "fp32", **options)


@pytest.mark.parametrize("split", [(1, 1, 1, 1, 1), (2, 3), (4, 1)])
def test_a_row_has_the_same_bits_in_every_call(npu_folder, split):
    model, rest = model_of(npu_folder), [7, 40, 99, 12, 5]
    model.prefill([*range(30, 70)])
    start = model.length
    wanted = model.score(rest).copy()
    model.rewind(start)
    for kept in split:
        at = model.length - start
        found = model.score(rest[at : at + kept])
        assert np.array_equal(found, wanted[at : at + kept])


@pytest.mark.parametrize("rows", [2, 5])
def test_a_call_copies_its_rows_and_no_cache(npu_folder, rows):
    """New keys and values, logits, a mask and a row's place in the cache, the rows of tables."""
    model, exported = model_of(npu_folder), read_manifest(npu_folder).target
    model.prefill([5, 6, 7])
    before = model.copied_bytes
    model.score([5] * rows)
    of_cache = sum(2 * shape.kv_heads * shape.head_size * rows for shape in exported.cache_shapes)
    by_position = (2 * rows + 1) * exported.capacity
    embedding, angles = rows * 32, rows * 2 * 16
    numbers = of_cache + rows * exported.vocab_size + by_position + embedding + angles
    assert model.copied_bytes - before == 4 * numbers


@pytest.mark.parametrize("gammas", [(), pytest.param((1,), marks=deep)])
def test_a_first_answer_takes_a_minute_at_a_second_a_call(
    tiny_checkpoints, npu_folder, tmp_path, gammas, monkeypatch
):
    """At 1.3 s a call: the distance from the processor, and whether rows keep their bits."""
    folder = npu_folder
    if gammas:
        folder, target = tmp_path / "pair", str(tiny_checkpoints[0])
        export_pair(target, None, folder, host="npu", gammas=gammas, measure=False, threads=1)
    manifest, calls = read_manifest(folder), []

    class Slow(OrtModel):
        """A model on a device."""

        def score(self, tokens, candidates=()):
            before = self.calls
            logits = super().score(tokens, candidates)
            calls.append(self.calls - before)
            return logits

    def opened(folder, exported, variant, **options):
        return Slow(folder, exported, variant, **options)

    monkeypatch.setattr(runtime, "open_model", opened)
    there, here = opened(folder, manifest.target, "fp32"), model_of(folder)
    monkeypatch.setattr(provider_check, "_both", lambda *_: [there, here])
    with logged_lines() as said:
        refuse_if_far(folder, manifest, "fp32", Device(1, "elsewhere"))
    assert said[-1].startswith("target fp32 on elsewhere: logits within 0.0e+00")
    found = runtime.measure_row_invariance(folder, manifest.target, "fp32")
    assert found.is_row_invariant
    assert 20 < sum(calls) <= 44


def test_a_rewind_leaves_no_trace(npu_folder):
    model = model_of(npu_folder)
    model.prefill([*range(30, 50)])
    wanted = model.score([7, 40, 99]).copy()
    model.rewind(model.length - 2)
    model.score([200, 201, 202, 203, 204])
    model.rewind(model.length - 5)
    assert np.array_equal(model.score([40, 99]), wanted[1:])


def test_a_prompt_in_pieces_is_the_prompt(npu_folder, tiny_folder):
    prompt = [3 + n % 250 for n in range(80)]  # three pieces, the last one padded
    static, dynamic = model_of(npu_folder), model_of(tiny_folder)
    for model in (static, dynamic):
        assert model.prefill(prompt) == prompt[-1]
    here, there = (model.score([prompt[-1]])[0] for model in (static, dynamic))
    assert np.abs(here - there).max() < 1e-3


def test_a_longer_call_is_made_of_several(npu_folder, tiny_folder):
    tokens = [3 + n % 250 for n in range(23)]
    scored = []
    for folder in (npu_folder, tiny_folder):
        model = model_of(folder)
        model.prefill([5, 6, 7])
        scored.append(model.score(tokens).copy())
    assert np.abs(scored[0] - scored[1]).max() < 1e-3


def test_the_cache_can_be_filled_to_its_end(tiny, npu):
    wanted = tiny.generate("hello world", max_new_tokens=500, temperature=0, draft=False)
    found = npu.generate("hello world", max_new_tokens=500, temperature=0, gamma=4)
    assert found.text == wanted.text


@deep
def test_windows_are_crossed(tmp_path):
    target = write_small_llama(
        tmp_path / "target", model_type="mistral", sliding_window=8, max_position_embeddings=96
    )
    draft = write_noisy(target, tmp_path / "draft", noise=0.05)
    texts = []
    for host in (None, "npu"):
        folder = tmp_path / f"pair-{host}"
        export_pair(str(target), str(draft), folder, host=host, threads=1)
        texts.append(text(edgespec.load(folder, threads=1), PROMPTS[1]))
    assert texts[0] == texts[1]


def write_t5_pair(folder: Path) -> tuple[Path, Path]:
    tokens = byte_tokenizer(272)
    target = write_t5(
        folder / "target", vocab_size=272, heads=2, head_size=16, width=32, tokenizer=tokens
    )
    return target, write_noisy(target, folder / "draft", noise=0.05)


@pytest.fixture(scope="module")
def t5_folders(tmp_path_factory) -> dict[str | None, Path]:
    """A tiny T5 pair for any machine and for NPUs."""
    folder = tmp_path_factory.mktemp("t5")
    target, draft = write_t5_pair(folder)
    for host in (None, "npu"):
        asked = {"capacity": 64, "gammas": (3,)} if host else {}
        export_pair(str(target), str(draft), folder / f"{host}", host=host, threads=1, **asked)
    return {host: folder / f"{host}" for host in (None, "npu")}


def test_an_encoder_decoder_gives_the_text_of_other_graphs(t5_folders):
    pairs = {host: edgespec.load(folder, threads=1) for host, folder in t5_folders.items()}
    for prompt in ("hello", "The museum opens at nine."):  # the second source is longer
        wanted = text(pairs[None], prompt, draft=False)
        assert text(pairs["npu"], prompt, draft=False) == wanted
        assert text(pairs["npu"], prompt, gamma=3) == wanted


def test_a_source_beyond_the_capacity_is_refused(t5_folders):
    pair = edgespec.load(t5_folders["npu"], threads=1)
    with pytest.raises(UsageError, match=r"80 tokens and the cache holds 64; .* with more cap"):
        pair.generate("a" * 80)


def test_a_gamma_that_was_not_exported_is_refused_with_those_that_were(npu):
    with pytest.raises(UsageError, match=r"gamma is 7, .* exported for 1, 4; .*--gamma 7"):
        npu.generate("hello", gamma=7)


def test_a_gamma_between_those_that_were_exported_is_padded(npu):
    wanted = npu.generate("hello", max_new_tokens=20, draft=False)
    found = npu.generate("hello", max_new_tokens=20, gamma=2)
    assert found.token_ids == wanted.token_ids
    assert found.stats.drafted > 0


def test_a_capacity_that_was_not_exported_is_refused_before_anything_is_measured(
    npu_folder, monkeypatch
):
    monkeypatch.setattr(loading, "invariance_here", None)
    with pytest.raises(UsageError) as error:
        edgespec.load(npu_folder, threads=1, capacity=97)
    assert str(error.value).endswith(
        " takes 1 to 96, as it was exported; export it again with --capacity 97"
    )
    with pytest.raises(UsageError, match=r"capacity is 0; .* takes 1 to 96$"):
        edgespec.load(npu_folder, threads=1, capacity=0)


def test_a_prompt_beyond_the_capacity_names_the_way_out(npu):
    with pytest.raises(UsageError, match=r"97 tokens .* holds 96; .* export the pair again with "):
        npu.generate([5] * 97)


def test_a_capacity_beyond_the_models_positions_is_lowered_and_said(tiny_checkpoints, tmp_path):
    asked = {"host": "npu", "capacity": 200, "gammas": (1,), "measure": False, "threads": 1}
    with logged_lines() as said:
        manifest = export_pair(str(tiny_checkpoints[0]), None, tmp_path / "pair", **asked)
    assert manifest.target.capacity == 96
    assert "target has 96 positions, so that is its capacity" in said


def test_inspect_and_show_say_which_calls_were_exported(npu_folder, t5_folders):
    calls = "an NPU (--for npu): γ 1 or 4, prompts in pieces of 32 tokens, capacity 96"
    assert f"made for: {calls}\n" in run("inspect", npu_folder).stdout
    assert f" {calls}\n" in run("show", npu_folder).stdout
    as_data = {"host": "npu", "gammas": [1, 4], "prompt_rows": 32, "capacity": 96, "source": None}
    for command in ("inspect", "show"):
        assert json.loads(run(command, npu_folder, "--json").stdout)["made_for"] == as_data
    said = run("show", t5_folders["npu"]).stdout
    assert "γ 1 or 3, capacity 64, sources of up to 64 tokens" in said
    assert "any machine" in run("show", t5_folders[None]).stdout


def test_a_provider_that_takes_a_part_is_told_which_operators_it_leaves(npu_folder):
    """Of a plug-in that runs none of them; ONNX Runtime's own message is cut in its middle."""
    pytest.importorskip("nxrt_ep_cpu", reason="this system has no such plug-in")
    said = run("generate", npu_folder, "a", "--provider", "cpu_ep", code=1).stderr.splitlines()[-1]
    assert "cpu_ep does not take all operators of " in said
    assert re.search(r"it leaves \d+ to the processor \(\d+ Mul, .* and \d+ other kinds\); ", said)
    assert said.endswith(
        "take another provider (cpu), or export the pair without --for npu, for a GPU with "
        "--for gpu"
    )
    assert "less --capacity" not in said


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"host": "npu", "gammas": (0,)}, "gamma is 0; give 1 to 16"),
        ({"host": "npu", "gammas": (17,)}, "gamma is 17; give 1 to 16"),
        ({"host": "npu", "capacity": 8}, "capacity is 8; give 34 or more"),
        (
            {"host": "npu", "target_formats": ["int8"]},
            "no target format 'int8'; there is: fp32",
        ),
        ({"host": "npu", "cache_formats": ["int8"]}, "leave --cache-format out"),
        ({"gammas": (4,)}, "add --for npu"),
        ({"capacity": 64}, "add --for npu"),
        ({"target_formats": ["w8a16"]}, "no target format 'w8a16'"),
    ],
)
def test_what_cannot_be_exported_is_refused_before_a_checkpoint_is_read(tmp_path, asked, message):
    with pytest.raises(UsageError, match=message):
        export_pair("nowhere", None, tmp_path / "pair", **asked)


def test_numbers_that_are_not_finite_are_an_error_and_no_text(npu_folder, tmp_path):
    folder = Path(shutil.copytree(npu_folder, tmp_path / "pair"))
    weights = folder / "target" / "fp32" / "weights.data"
    values = np.fromfile(weights, np.float32)
    values[:] = np.inf
    values.tofile(weights)
    pair = edgespec.load(folder, threads=1, allow_inexact=True)
    with pytest.raises(EdgespecError) as error:
        pair.generate("hello", max_new_tokens=4)
    assert str(error.value) == (
        "the model's logits are not finite numbers in fp32 on cpu; take a format with a wider range"
    )


@pytest.mark.parametrize(("name", "most"), [("w8a16", 0.1), pytest.param("w4a8", 2.0, marks=deep)])
def test_quantized_products_are_exported_with_their_distance(
    tiny_checkpoints, tmp_path, name, most
):
    target, _ = tiny_checkpoints
    (tmp_path / "texts").write_text(PROMPTS[1])
    asked = {"target_formats": ["fp32", name], "capacity": 64, "gammas": (1,)}
    asked["calibration"] = str(tmp_path / "texts")
    manifest = export_pair(str(target), None, tmp_path / "pair", host="npu", threads=1, **asked)
    variant = manifest.target.variants[name]
    assert variant.static is not None
    assert variant.static.precision == "quantized"
    assert variant.distance is not None
    assert 0 < variant.distance.kl < most
    model = onnx.load(tmp_path / "pair" / variant.graphs["decoder"], load_external_data=False)
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("QuantizeLinear") > kinds.count("Gemm") > 0  # of inputs and of results
    pair = edgespec.load(tmp_path / "pair", threads=1, target_format=name, allow_inexact=True)
    assert pair.generate("hello", max_new_tokens=8, draft=False).token_ids


@deep
@pytest.mark.parametrize("kind", ["llama", "t5"])
def test_a_draft_that_reads_its_target_stays_on_the_processor(kind, tmp_path):
    pytest.importorskip("torch")
    from eagle_checkpoints import write_eagle, write_target
    from shared_encoder_checkpoints import write_target as write_encoder_decoder

    write = {"llama": partial(write_target, kind="llama", max_position_embeddings=128)}
    target = write.get(kind, write_encoder_decoder)(tmp_path / "target")
    write_eagle(target, tmp_path / "draft")
    texts = []
    for host in (None, "npu"):
        folder = tmp_path / f"{host}"
        export_pair(str(target), str(tmp_path / "draft"), folder, host=host, threads=1)
        pair = edgespec.load(folder, threads=1)
        texts.append([text(pair, PROMPTS[1], draft="model", gamma=4), text(pair, PROMPTS[1])])
        texts.append([text(pair, PROMPTS[1], draft=False)] * 2)
    assert texts[0] == texts[1] == texts[2] == texts[3]
