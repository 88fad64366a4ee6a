"""Claim: the kernels of sampling compute what numpy computes."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from edgespec.core.distribution import one_hot
from edgespec.core.distribution_options import Sampling
from edgespec.core.randomness import Seeded
from edgespec.core.sampling import SamplingProcessor
from edgespec.core.verification import residual
from edgespec.core.vocab_ops import NumpyVocabOps, vocab_ops_for
from edgespec.device.kernels import SWITCH, installed_kernels

pytestmark = pytest.mark.skipif(installed_kernels() is None, reason="there are no kernels here")


SamplingKernels = type(vocab_ops_for(np.zeros(1, np.float32)))


needs_sampling = pytest.mark.skipif(
    SamplingKernels is NumpyVocabOps, reason="built without Python's headers"
)


ROWS = arrays.arrays(
    np.float32,
    st.integers(1, 700),
    elements=st.one_of(
        st.integers(-160, 160).map(lambda n: n / 16), st.sampled_from([-np.inf, 1e-30, 88.0])
    ),
)


@needs_sampling
@given(ROWS)
def test_the_arg_max_is_the_first_of_equal_maxima(row):
    assert SamplingKernels().arg_max(row) == int(row.argmax())


@needs_sampling
@given(ROWS, st.integers(0, 699))
def test_a_nan_is_the_arg_max(row, index):
    row[index % len(row)] = np.nan
    assert SamplingKernels().arg_max(row) == int(row.argmax())


@needs_sampling
@given(ROWS.filter(lambda row: np.isfinite(row.max())), st.sampled_from([0.3, 1.0, 2.5]))
def test_weights_differ_from_those_of_numpy_by_rounding(row, temperature):
    ours, theirs = np.empty_like(row), np.empty_like(row)
    totals = [
        arithmetic.exp_weights(row, float(row.max()), temperature, out)
        for arithmetic, out in ((SamplingKernels(), ours), (NumpyVocabOps(), theirs))
    ]
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-37)
    assert totals[0] == pytest.approx(float(ours.sum(dtype=np.float64)), rel=1e-12)
    assert totals[0] == pytest.approx(totals[1], rel=2e-5)


WEIGHTS = arrays.arrays(
    np.float32, st.integers(1, 700), elements=st.sampled_from([0.0, 0.0, 1.0, 3.0, 0.125])
).filter(lambda row: row.any())


POWERS_OF_TWO = arrays.arrays(
    np.float32, st.integers(1, 700), elements=st.sampled_from([*range(-9, 1), -200, -np.inf])
).filter(lambda row: row.max() == 0)


@needs_sampling
@given(POWERS_OF_TWO, st.sampled_from([0.05, 0.5, 0.9, 0.95, 0.999]))
def test_a_nucleus_is_the_one_that_numpy_finds(row, share):
    """The temperature turns these rows into powers of two, so the sums are exact."""
    found = []
    for arithmetic in (SamplingKernels(), NumpyVocabOps()):
        indices, weights = np.empty(len(row), np.int64), np.empty(len(row), np.float32)
        count = arithmetic.nucleus(row, 0.0, 1 / np.log(2), share, indices, weights)
        found.append((indices[:count], weights[:count]))
    (ours, our_weights), (theirs, their_weights) = found
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(our_weights, their_weights, rtol=2e-5, atol=1e-37)


@needs_sampling
def test_a_flat_distribution_has_a_nucleus_of_almost_all_tokens():
    row = np.zeros(49152, np.float32)
    indices, weights = np.empty(len(row), np.int64), np.empty(len(row), np.float32)
    assert SamplingKernels().nucleus(row, 0.0, 1.0, 0.75, indices, weights) == 36864
    np.testing.assert_array_equal(indices[:36864], np.arange(36864))


@needs_sampling
@given(WEIGHTS, st.floats(0, 1, exclude_max=True))
def test_a_draw_is_the_one_that_numpy_makes(weights, uniform):
    """All sums of these weights are exact, so both find the same index."""
    assert SamplingKernels().draw(weights, uniform) == NumpyVocabOps().draw(weights, uniform)


@needs_sampling
def test_a_draw_with_uniform_1_is_the_last_index_with_weight():
    weights = np.zeros(1000, np.float32)
    weights[[3, 600]] = [0.1, 0.2]
    assert SamplingKernels().draw(weights, float(np.nextafter(1.0, 0))) == 600
    assert SamplingKernels().draw(weights, 1.0) == 600


@needs_sampling
@given(WEIGHTS, WEIGHTS, st.sampled_from([1.0, 0.5]), st.randoms(use_true_random=False))
def test_an_excess_equals_that_of_numpy(p, q, factor, random):
    indices = np.array(sorted(random.sample(range(1400), len(q))), np.int64)
    np.testing.assert_array_equal(
        SamplingKernels().excess(p, factor, q, indices),
        NumpyVocabOps().excess(p, factor, q, indices),
    )


@needs_sampling
def test_an_excess_takes_indices_of_any_integer_type_and_stride():
    p, q = np.full(40, 0.025, np.float32), np.full(3, 0.1, np.float32)
    for indices in (np.array([1, 5, 9], np.int32), np.arange(6)[::2]):
        expected = NumpyVocabOps().excess(p, 1, q, indices)
        np.testing.assert_array_equal(vocab_ops_for(p, q).excess(p, 1, q, indices), expected)


@needs_sampling
@pytest.mark.parametrize(("switch", "kernels"), [("0", False), ("1", True)])
def test_vocabulary_operations_by_kernels_are_switched_off_when_edgespec_is_imported(
    switch, kernels
):
    code = "from edgespec.core import vocab_ops; print(vocab_ops.KERNELS is not None)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, SWITCH: switch},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == str(kernels)


@needs_sampling
def test_the_sampling_loop_reads_no_environment(monkeypatch):
    process = SamplingProcessor(Sampling(temperature=0.8, top_p=0.9))
    q = one_hot(3)
    with monkeypatch.context() as patch:
        patch.setattr(os, "environ", None)  # reading it would fail
        p = process(np.linspace(0, 3, 64, dtype=np.float32))
        assert Seeded(0).categorical(residual(p, q), 0) < 64


@needs_sampling
def test_numbers_other_than_float32_are_left_to_numpy(rng):
    row = rng.normal(size=64).astype(np.float32)
    assert isinstance(vocab_ops_for(row), SamplingKernels)
    for other in (row.astype(np.float64), row[::2], np.array([Fraction(1, 3)])):
        assert isinstance(vocab_ops_for(other), NumpyVocabOps)
    assert isinstance(vocab_ops_for(row, row.astype(np.float64)), NumpyVocabOps)
    assert isinstance(
        vocab_ops_for(row, np.ones(1, np.int64)), SamplingKernels
    )  # of a determined token
