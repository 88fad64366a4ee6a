"""Claim: rotations, embeddings, gates and norms are what their operators' bodies make."""

from __future__ import annotations

import numpy as np
import pytest

from edgespec.device.kernels import installed_kernels
from edgespec_export.operators.activations import GATES
from edgespec_export.operators.int8_ops import HADAMARD_ROTATION, INT8_EMBEDDING
from edgespec_export.operators.norm_ops import RMS_NORM
from edgespec_export.quantization.hadamard import hadamard
from operator_calls import MANY, head_of, rows_of

pytestmark = pytest.mark.skipif(installed_kernels() is None, reason="there are no kernels here")


@pytest.mark.parametrize(("width", "block"), [(576, 64), (1024, 512), (96, 32), (4, 4), (3, 1)])
def test_a_rotation_equals_that_of_the_standard_operators(called, rng, width, block):
    inputs, fixed = {"x": rows_of(rng, MANY, width)}, {"hadamard": hadamard(block)}
    attributes = {"blocks": [-1, block], "rows": [-1, width]}
    (ours,) = called(HADAMARD_ROTATION, inputs, fixed, **attributes)
    (theirs,) = called(HADAMARD_ROTATION, inputs, fixed, kernel=False, **attributes)
    largest = np.abs(inputs["x"]).max(axis=1, keepdims=True)
    assert (np.abs(ours - theirs) <= 2e-6 * largest * np.sqrt(block)).all()


def test_an_embedding_equals_that_of_the_standard_operators(called, rng):
    fixed = {name: head_of(rng, 100, 33, 4)[name] for name in ("table", "scale")}
    tokens = {"tokens": np.array([32, 0, 7, 7], np.int64)}
    (ours,) = called(INT8_EMBEDDING, tokens, fixed)
    (theirs,) = called(INT8_EMBEDDING, tokens, fixed, kernel=False)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("token", [-1, 33])
def test_a_token_id_outside_the_embedding_is_refused(called, rng, token):
    fixed = {name: head_of(rng, 100, 33, 4)[name] for name in ("table", "scale")}
    with pytest.raises(Exception, match=rf"token {token} is not in the table of 33 tokens"):
        called(INT8_EMBEDDING, {"tokens": np.array([token], np.int64)}, fixed)


@pytest.mark.parametrize("activation", ["silu", "gelu_new"])
@pytest.mark.parametrize("width", [3, 64, 1536])
def test_a_gate_equals_that_of_the_standard_operators(called, rng, activation, width):
    gate = np.concatenate([rng.normal(size=(6, width)) * 5, np.full((2, width), 300)])
    gate[-1] *= -1  # e^300 is beyond float32
    x = {"gate": gate.astype(np.float32), "up": rng.normal(size=(8, width)).astype(np.float32)}
    (ours,) = called(GATES[activation], x, {})
    (theirs,) = called(GATES[activation], x, {}, kernel=False)
    np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("width", [1, 64, 100, 576])
def test_a_norm_equals_that_of_the_standard_operators(called, rng, width):
    x = rng.normal(size=(MANY, width)) * 10.0 ** rng.integers(-3, 4, (MANY, 1))
    norm = rng.uniform(0.5, 2, width).astype(np.float32)
    inputs = {"x": x.astype(np.float32), "norm": norm}
    (ours,) = called(RMS_NORM, inputs, {}, epsilon=1e-5)
    (theirs,) = called(RMS_NORM, inputs, {}, kernel=False, epsilon=1e-5)
    np.testing.assert_allclose(ours, theirs, rtol=2e-6)


@pytest.mark.parametrize("outlier", [np.nan, np.inf, 1e30])
def test_a_norm_that_is_not_finite_gives_nan(called, rng, outlier):
    x = rng.normal(size=(5, 64)).astype(np.float32)
    x[3, 7] = outlier
    (y,) = called(RMS_NORM, {"x": x, "norm": np.ones(64, np.float32)}, {}, epsilon=1e-5)
    assert np.isnan(y[3]).all()
    assert np.isfinite(np.delete(y, 3, axis=0)).all()
