"""Claim: int4 keeps the weights of a checkpoint that is in 4 bits already.

Grids of any step, group size and zero point are found from the weights. Where float16 has the
minimum of a group, its weights have the same bits; elsewhere they keep their codes and scales.
"""

from __future__ import annotations

import logging
from functools import partial

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edgespec
from checkpoints import byte_tokenizer, write_llama
from edgespec_export.export_pair import export_pair
from edgespec_export.operators.grouped_rows import GROUP
from edgespec_export.quantization.source_grid import NEAR, on_grid
from quantized_checkpoints import (
    Layout,
    awq,
    four_bits,
    gptq,
    mlx,
    pack_quantized,
    write_quantized,
)

EXACT = {
    "mlx": mlx,
    "mlx, bfloat16, groups of 64": partial(mlx, group=64, dtype=ml_dtypes.bfloat16),
    "mlx, 3 bits": partial(mlx, bits=3),
    "gptq, symmetric": partial(gptq, sym=True),
    "gptq, symmetric, groups of 128": partial(gptq, sym=True, group=128),
    "gptq, symmetric, 2 bits": partial(gptq, sym=True, bits=2),
    "compressed-tensors": pack_quantized,
    "compressed-tensors, a group for a row": partial(pack_quantized, group=128),
}
NEARLY = {
    "awq": awq,
    "awq, groups of 128": partial(awq, group=128),
    "gptq": partial(gptq, group=64),
    "compressed-tensors, zeros": partial(pack_quantized, zeros=True),
}
KEYS = 32  # rows of the keys' matrix
NOT = {
    "nf4": partial(four_bits, nested=False),
    "gptq, act-order": partial(gptq, sym=True, act_order=True),
    "gptq, 8 bits": partial(gptq, bits=8),
}


def matrix_of(draw):
    drawn = draw(np.random.default_rng(0), 64, 128)
    return np.ascontiguousarray(drawn.matrix)


def restored(codes, scale, minimum):
    codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(*codes.shape[:2], GROUP)
    scale, minimum = (x.astype(np.float32)[:, :, None] for x in (scale, minimum))
    return (codes * scale + minimum).reshape(len(codes), -1)


@pytest.mark.parametrize("kind", EXACT)
def test_weights_of_a_grid_that_fits_have_the_same_bits(kind):
    matrix = matrix_of(EXACT[kind])
    found = on_grid(matrix, GROUP)
    assert found is not None
    assert found.is_exact
    assert (restored(*found.rounded) == matrix).all()


@pytest.mark.parametrize("kind", NEARLY)
def test_codes_stay_where_float16_lacks_a_minimum(kind):
    matrix = matrix_of(NEARLY[kind])
    found = on_grid(matrix, GROUP)
    assert found is not None
    assert not found.is_exact
    moved = np.abs(restored(*found.rounded) - matrix).reshape(64, -1, GROUP).max(axis=2)
    assert (moved <= NEAR * np.abs(found.rounded.scale.astype(np.float32))).all()
    assert (moved == 0).any()


@pytest.mark.parametrize("kind", NOT)
def test_other_weights_are_on_no_grid(kind):
    assert on_grid(matrix_of(NOT[kind]), GROUP) is None


@given(
    st.floats(2**-13, 4, width=16),
    st.integers(-40, 40),
    st.lists(st.integers(0, 15), min_size=GROUP, max_size=GROUP),
)
@settings(max_examples=20, deadline=None)
def test_any_codes_of_any_step_are_found(step, first, codes):
    """Also where all codes of a group have a divisor, or are one."""
    matrix = ((np.array([codes]) + first) * np.float64(step)).astype(np.float32)
    found = on_grid(matrix, GROUP)
    if len(set(codes)) > 1:
        assert found is not None
    if found is not None:
        moved = np.abs(restored(*found.rounded) - matrix).max()
        assert moved <= NEAR * abs(float(found.rounded.scale[0, 0]))
        assert found.is_exact == (moved == 0)


# --- the exported model --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return write_llama(
        tmp_path_factory.mktemp("plain") / "checkpoint",
        vocab_size=272,
        tokenizer=byte_tokenizer(272),
        layers=1,
        heads=4,
        kv_heads=2,
        head_size=16,
        width=64,
        inner=96,
    )


def int4_matrices(folder):
    """The matrices in a pair's graph, by the names of the checkpoint's."""
    graph = ir.load(folder / "target" / "int4" / "decoder.onnx").graph
    stored = {name: value.const_value.numpy() for name, value in graph.initializers.items()}
    for name, codes in stored.items():
        if name.endswith(".int4"):
            parts = (codes, stored[f"{name}.scale"], stored[f"{name}.minimum"])
            yield name.removesuffix(".int4").split("+"), restored(*parts)


def exported(plain, tmp_path, draw, caplog, **modules):
    layout = Layout(draw, {"group_size": 32, "bits": 4, **modules}, "quantization")
    tensors = write_quantized(plain, tmp_path / "q", layout)
    with caplog.at_level(logging.INFO, logger="edgespec"):
        export_pair(
            *(str(tmp_path / "q"), None, tmp_path / "pair"),
            target_formats=["int4"],
            calibration="none",
            measure=False,
            threads=1,
        )
    return tensors


def test_the_exported_int4_has_the_sources_own_values(plain, tmp_path, caplog):
    tensors = exported(plain, tmp_path, mlx, caplog)
    found = {tuple(names): matrix for names, matrix in int4_matrices(tmp_path / "pair")}
    assert sum(map(len, found)) == 7
    for names, matrix in found.items():
        expected = np.concatenate([tensors[name] for name in names])
        assert matrix.tobytes() == expected.tobytes()
    assert "int4 keeps the codes and scales of 7 of 7 matrices" in caplog.text
    pair = edgespec.load(tmp_path / "pair", threads=1)
    prompt = list(range(40, 60)) * 3
    alone = pair.generate(prompt, max_new_tokens=24, temperature=0, draft=False)
    assert pair.generate(prompt, max_new_tokens=24, temperature=0, gamma=4).token_ids == (
        alone.token_ids
    )


def test_a_matrix_that_is_not_in_4_bits_leaves_the_others_alone(plain, tmp_path, caplog):
    """Of those that are multiplied together, too: the keys' and the values' are in 8 bits."""

    def draw(rng, out, width):
        return mlx(rng, out, width, bits=8 if out == KEYS else 4)

    own = {f"model.layers.0.self_attn.{part}_proj": {"bits": 8, "group_size": 32} for part in "kv"}
    tensors = exported(plain, tmp_path, draw, caplog, **own)
    assert "int4 keeps the codes and scales of 5 of 7 matrices" in caplog.text
    (names, matrix), *_ = (
        found for found in int4_matrices(tmp_path / "pair") if len(found[0]) == 3
    )
    assert names[0].endswith("q_proj.weight")
    wanted = [tensors[name] for name in names]
    assert (matrix[:64] == wanted[0]).all()
    assert (matrix[64:] != np.concatenate(wanted[1:])).any()
    assert np.abs(matrix[64:] - np.concatenate(wanted[1:])).mean() < 0.02  # of a step of about 0.03
