"""Claim: a checkpoint that another program quantized is read as the numbers that it stands for.

Every layout is packed bit by bit in tests/quantized_checkpoints.py, from numbers that are known;
the matrices that are read have the same bits. What is exported then is the model of these numbers.
"""

from __future__ import annotations

import json
import logging
import os
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import edgespec
from checkpoints import byte_tokenizer, write_llama
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.quantized.kinds import KINDS
from edgespec_export.checkpoint.sources import resolve
from edgespec_export.checkpoint.weights import read_rows
from edgespec_export.export_pair import export_pair
from edgespec_export.verify import differences
from quantized_checkpoints import (
    Layout,
    awq,
    eight_bits,
    float8,
    four_bits,
    gptq,
    mlx,
    pack_quantized,
    whole_numbers,
    write_plain,
    write_quantized,
    write_tensors,
)

AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": False}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [48, 48]}
PACKED = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {}}
NF4 = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
MLX = {"group_size": 32, "bits": 4}
LAYOUTS = {
    "awq": Layout(awq, AWQ),
    "awq, groups of 16": Layout(partial(awq, group=16), AWQ | {"group_size": 16}),
    "awq of older versions": Layout(
        awq, None, files={"quant_config.json": {"w_bit": 4, "q_group_size": 32, "version": "GEMM"}}
    ),
    **{
        f"gptq, {bits} bits": Layout(partial(gptq, bits=bits), GPTQ | {"bits": bits})
        for bits in (2, 3, 4, 8)
    },
    "gptq, act-order": Layout(partial(gptq, act_order=True), GPTQ | {"desc_act": True}),
    "gptq, symmetric": Layout(partial(gptq, sym=True), GPTQ | {"sym": True}),
    "gptq, version 2": Layout(
        partial(gptq, added=0, bits=3), GPTQ | {"bits": 3, "checkpoint_format": "gptq_v2"}
    ),
    "gptq of older versions": Layout(gptq, None, files={"quantize_config.json": {"bits": 4}}),
    "fp8, blocks": Layout(partial(float8, scale=48), FP8),
    "fp8, one scale": Layout(partial(float8, scale="tensor"), FP8 | {"weight_block_size": None}),
    "fp8, rows": Layout(
        partial(float8, scale="channel", name="weight_scale"), {"quant_method": "fbgemm_fp8"}
    ),
    "compressed-tensors, fp8": Layout(
        partial(float8, scale="channel", name="weight_scale", dtype=ml_dtypes.bfloat16),
        PACKED | {"format": "float-quantized"},
    ),
    "compressed-tensors, fp8 blocks": Layout(
        partial(float8, scale=32, name="weight_scale"), PACKED | {"format": "float-quantized"}
    ),
    "compressed-tensors, int8": Layout(whole_numbers, PACKED | {"format": "int-quantized"}),
    "compressed-tensors, int8 with zeros": Layout(
        partial(whole_numbers, zeros=True), PACKED | {"format": "int-quantized"}
    ),
    **{
        f"compressed-tensors, {bits} bits": Layout(partial(pack_quantized, bits=bits), PACKED)
        for bits in (3, 4, 8)
    },
    "compressed-tensors, zeros": Layout(partial(pack_quantized, zeros=True), PACKED),
    "compressed-tensors without a key": Layout(pack_quantized, None),
    "bitsandbytes nf4": Layout(partial(four_bits, nested=False), NF4),
    "bitsandbytes nf4, nested": Layout(partial(four_bits, nested=True), NF4),
    "bitsandbytes fp4, cut blocks": Layout(partial(four_bits, nested=True, block=100), NF4),
    "bitsandbytes int8": Layout(eight_bits, {"quant_method": "bitsandbytes", "load_in_8bit": True}),
    **{
        f"mlx, {bits} bits": Layout(partial(mlx, bits=bits), MLX | {"bits": bits}, "quantization")
        for bits in (2, 3, 4, 5, 6, 8)
    },
    "mlx, bfloat16": Layout(partial(mlx, dtype=ml_dtypes.bfloat16), MLX, "quantization"),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return write_llama(
        tmp_path_factory.mktemp("plain") / "checkpoint",
        vocab_size=272,
        tokenizer=byte_tokenizer(272),
        layers=1,
        heads=4,
        head_size=16,
        width=64,
        inner=96,
    )


def weights_of(folder):
    checkpoint = open_checkpoint(resolve(str(folder)))
    assert checkpoint.refusal is None
    return checkpoint.weights


def message_of(folder):
    with pytest.raises(EdgespecError) as caught:
        export_pair(str(folder), None, folder.parent / "pair", measure=False, threads=1)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_kind_has_a_layout_here():
    """MXFP4, which only experts have, is in test_gpt_oss.py."""
    named = {str((layout.config or {}).get("quant_method")) for layout in LAYOUTS.values()}
    assert set(KINDS) <= named | {"MLX", "mxfp4"}


# --- the numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_matrix_has_the_bits_of_its_numbers(name, plain, tmp_path):
    expected = write_quantized(plain, tmp_path / "q", LAYOUTS[name])
    weights = weights_of(tmp_path / "q")
    assert weights.names() == sorted(expected)
    for name, tensor in expected.items():
        assert weights.shape(name) == tensor.shape
        assert weights.read(name).tobytes() == tensor.tobytes()
        if tensor.ndim == 2:
            assert read_rows(weights, name, 3, 14).tobytes() == tensor[3:14].tobytes()


def test_tables_are_read_in_rows_too(plain, tmp_path):
    layout = LAYOUTS["mlx, 4 bits"]
    expected = write_quantized(plain, tmp_path / "t", layout, only="embed_tokens.weight")
    name = "model.embed_tokens.weight"
    rows = read_rows(weights_of(tmp_path / "t"), name, 100, 272)
    assert rows.tobytes() == expected[name][100:].tobytes()


def test_mlx_layers_may_differ(plain, tmp_path):
    """A module's own bits and group size come before those of all."""

    def draw(rng, out, width):
        return mlx(rng, out, width, **({"bits": 8, "group": 16} if out == 96 else {}))

    own = {"bits": 8, "group_size": 16}
    names = [f"model.layers.0.mlp.{part}_proj" for part in ("gate", "up")]
    config = MLX | dict.fromkeys(names, own) | {"lm_head": False}
    expected = write_quantized(plain, tmp_path / "q", Layout(draw, config, "quantization"))
    weights = weights_of(tmp_path / "q")
    for name, tensor in expected.items():
        assert weights.read(name).tobytes() == tensor.tobytes()


def test_modules_that_were_left_out_stay_as_they_are(plain, tmp_path):
    expected = write_quantized(plain, tmp_path / "q", LAYOUTS["awq"], only="up_proj.weight")
    weights = weights_of(tmp_path / "q")
    assert weights.read("lm_head.weight").tobytes() == expected["lm_head.weight"].tobytes()
    assert weights.names() == sorted(expected)


def test_what_activations_and_caches_are_rounded_to_is_passed_over(plain, tmp_path):
    expected = write_quantized(plain, tmp_path / "q", LAYOUTS["compressed-tensors, fp8"])
    stored = tmp_path / "q" / "model.safetensors"
    tensors = {}
    for at in ("q_proj.input_scale", "k_proj.output_scale", "k_scale", "v_scale"):
        tensors[f"model.layers.0.self_attn.{at}"] = np.ones(1, np.float32)
    write_tensors(tmp_path / "q" / "model-2.safetensors", tensors)
    index = dict.fromkeys(_stored_names(stored), "model-1.safetensors")
    index |= dict.fromkeys(tensors, "model-2.safetensors")
    stored.rename(tmp_path / "q" / "model-1.safetensors")
    text = json.dumps({"weight_map": index})
    (tmp_path / "q" / "model.safetensors.index.json").write_text(text)
    assert weights_of(tmp_path / "q").names() == sorted(expected)


def _stored_names(path):
    data = path.read_bytes()
    return list(json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]))


def test_the_text_model_of_a_wrapper_is_dequantized(plain, tmp_path):
    expected = write_quantized(plain, tmp_path / "q", LAYOUTS["awq"], prefix="language_model.")
    config = json.loads((tmp_path / "q" / "config.json").read_text())
    quantization = config.pop("quantization_config")
    outer = {"model_type": "llava", "text_config": config, "quantization_config": quantization}
    (tmp_path / "q" / "config.json").write_text(json.dumps(outer))
    weights = weights_of(tmp_path / "q")
    for name, tensor in expected.items():
        assert weights.read(name).tobytes() == tensor.tobytes()


# --- the model -----------------------------------------------------------------------------------


ALL = os.environ.get("EDGESPEC_CORPUS") == "all"
EXPORTED = list(LAYOUTS) if ALL else ["gptq, act-order"]
FORMATS = ["fp32", "int4"] if ALL else ["fp32"]


@pytest.mark.parametrize("name", EXPORTED)
def test_the_export_is_the_model_of_these_numbers(name, plain, tmp_path):
    expected = write_quantized(plain, tmp_path / "q", LAYOUTS[name])
    out = tmp_path / "pair"
    exported = export_pair(
        *(str(tmp_path / "q"), None, out), target_formats=FORMATS, measure=False, threads=1
    ).target
    model = open_model(out, exported, "fp32", min_rows=2)
    reference = write_plain(plain, tmp_path / "p", expected)
    assert differences(reference, exported, model)["decoder"] <= 1e-5
    assert differences(tmp_path / "q", exported, model)["decoder"] <= 1e-5  # as --verify does
    prompt = list(range(40, 60)) * 3
    for variant in FORMATS:
        pair = edgespec.load(out, target_format=variant, threads=1)
        options = {"max_new_tokens": 24, "temperature": 0}
        alone = pair.generate(prompt, draft=False, **options).token_ids
        assert pair.generate(prompt, gamma=4, **options).token_ids == alone


def test_biases_of_zeros_that_the_model_does_not_have_are_passed_over(plain, tmp_path):
    """AutoGPTQ writes one for each matrix; any other tensor too many is refused."""

    def draw(rng, out, width, value=0):
        drawn = gptq(rng, out, width)
        drawn.parts["bias"] = np.full(out, value, np.float16)
        return drawn

    write_quantized(plain, tmp_path / "q", Layout(draw, GPTQ))
    export_pair(str(tmp_path / "q"), None, tmp_path / "made", measure=False, threads=1)
    other = Layout(partial(draw, value=1), GPTQ)
    write_quantized(plain, tmp_path / "other", other)
    assert "7 tensors that its config does not account for" in message_of(tmp_path / "other")


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("awq", {"version": "gemv"}, r"by awq in the layout 'gemv', and only 'gemm'"),
        ("awq", {"bits": 8}, r"by awq with 8 bits, and only 4"),
        ("gptq, 4 bits", {"checkpoint_format": "marlin"}, r"by gptq in the layout 'marlin'"),
        ("compressed-tensors, 4 bits", {"format": "nvfp4-pack-quantized"}, r"format 'nvfp4-pack"),
        (
            "compressed-tensors, 4 bits",
            {"transform_config": {"config_groups": {"u": {}}}},
            r"transform_config",
        ),
        ("compressed-tensors, fp8", {"quant_method": "quark"}, r"by quark; take"),
        ("fp8, blocks", {"weight_block_size": [32, 32]}, r"scales of model.*do not fit"),
        ("mlx, 4 bits", {"mode": "mxfp4"}, r"by MLX in the mode 'mxfp4'"),
        ("mlx, 4 bits", {"bits": 7}, r"by MLX with 7 bits"),
        ("mlx, 4 bits", {"group_size": 64}, r"do not fit one another"),
    ],
)
def test_what_is_not_read_is_named_with_a_way_out(name, changes, said, plain, tmp_path):
    layout = LAYOUTS[name]
    changed = Layout(layout.draw, (layout.config or {}) | changes, layout.key)
    write_quantized(plain, tmp_path / "q", changed)
    message = message_of(tmp_path / "q")
    assert "take the model's unquantized checkpoint" in message
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(message)


def test_a_number_of_bits_that_gptq_does_not_have(plain, tmp_path):
    layout = Layout(partial(gptq, bits=5), GPTQ | {"bits": 5})
    write_quantized(plain, tmp_path / "q", layout)
    assert "by gptq with 5 bits" in message_of(tmp_path / "q")


def test_parts_that_do_not_fit_are_one_line(plain, tmp_path):
    """Of a file that was put together from two."""
    for name in ("awq", "gptq, 4 bits", "bitsandbytes int8", "compressed-tensors, 4 bits"):
        layout = LAYOUTS[name]

        def draw(rng, out, width, layout=layout):
            drawn = layout.draw(rng, out, width)
            for part in ("scales", "SCB", "weight_scale"):
                if part in drawn.parts:
                    drawn.parts[part] = drawn.parts[part][: len(drawn.parts[part]) // 3]
            return drawn

        folder = tmp_path / name.split(",")[0].replace(" ", "-")
        write_quantized(plain, folder, Layout(draw, layout.config))
        assert "fit" in message_of(folder)


def test_a_line_says_what_was_read(plain, tmp_path, caplog):
    write_quantized(plain, tmp_path / "q", LAYOUTS["awq"])
    with caplog.at_level(logging.INFO, logger="edgespec"):
        weights_of(tmp_path / "q")
    assert "7 matrices quantized by awq are read as float32" in caplog.text
