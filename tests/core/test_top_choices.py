"""Claim: top-n-sigma and XTC are part of the target's distribution, as other tools have it.

The coin of XTC is not drawn: p is the mean of both distributions, so a verified text needs none.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from edgespec.core.distribution_options import Sampling
from edgespec.core.sampling import SamplingProcessor
from edgespec.errors import UsageError

LOGITS = np.log(np.array([0.4, 0.3, 0.2, 0.06, 0.04], np.float32))


def p_of(logits, **options) -> list[float]:
    distribution = SamplingProcessor(Sampling(temperature=1.0, **options))(logits)
    return [distribution.of(token) for token in range(len(logits))]


@pytest.mark.parametrize(
    ("n", "kept"), [(0.1, {0}), (0.8, {0, 1, 2}), (3.0, {0, 1, 2, 3, 4}), (0, {0, 1, 2, 3, 4})]
)
def test_top_n_sigma_keeps_logits_so_near_the_largest(n, kept):
    deviation = float(np.std(LOGITS.astype(np.float64)))
    near = {token for token in range(5) if LOGITS[token] >= LOGITS[0] - n * deviation}
    assert kept == (near if n else set(range(5)))
    assert {token for token, p in enumerate(p_of(LOGITS, top_n_sigma=n)) if p} == kept


def test_top_n_sigma_looks_at_logits_that_are_not_removed():
    masked = np.append(LOGITS, np.float32(-np.inf))
    assert p_of(masked, top_n_sigma=1.0)[:5] == p_of(LOGITS, top_n_sigma=1.0)


@pytest.mark.parametrize("probability", [0.25, 0.5, 1.0])
def test_xtc_is_the_mean_of_with_and_without_the_top_choices(probability):
    whole = [Fraction(value).limit_denominator(100) for value in (0.4, 0.3, 0.2, 0.06, 0.04)]
    without = [Fraction(0), Fraction(0), *whole[2:]]  # of three above 0.1 the least stays
    coin = Fraction(probability)
    expected = [
        (1 - coin) * one + coin * other / sum(without)
        for one, other in zip(whole, without, strict=True)
    ]
    found = p_of(LOGITS, xtc_probability=probability, xtc_threshold=0.1)
    assert found == pytest.approx([float(value) for value in expected], abs=1e-6)
    assert sum(found) == pytest.approx(1)


def test_xtc_leaves_a_single_top_choice_alone():
    assert p_of(LOGITS, xtc_probability=1.0, xtc_threshold=0.35) == p_of(LOGITS)


def test_of_equal_least_top_choices_the_first_stays():
    equal = np.zeros(4, np.float32)
    assert p_of(equal, xtc_probability=1.0, xtc_threshold=0.2) == [1, 0, 0, 0]


def test_greedy_text_depends_on_neither():
    process = SamplingProcessor(Sampling(top_n_sigma=1.0, xtc_probability=1.0))
    assert process(LOGITS).of(0) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"top_n_sigma": -1}, "top_n_sigma is -1; give 0 (off) or a number above it"),
        ({"xtc_probability": 1.5}, "xtc_probability is 1.5; give a number from 0 (off) to 1"),
        ({"xtc_threshold": "x"}, "xtc_threshold is 'x'; give a number from 0 to 1"),
    ],
)
def test_values_out_of_range_are_refused(options, words):
    with pytest.raises(UsageError) as error:
        Sampling(**options)
    assert str(error.value) == words
