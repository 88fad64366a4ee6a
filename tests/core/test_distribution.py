"""Claim: sampling options mean what users expect, and draws follow their distribution.

On random logits, temperature, top-k, top-p and min-p are compared with a plain definition over
sorted probabilities. Draws are compared with the interval that a uniform number falls into.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from edgespec.core.distribution import Distribution
from edgespec.core.distribution_options import Sampling
from edgespec.core.randomness import Seeded
from edgespec.core.sampling import SamplingProcessor
from edgespec.errors import EdgespecError

# Sixteenths: sums of exponentials of distinct numbers do not tie with a cut.
logits = arrays.arrays(
    np.float32,
    st.integers(1, 40),
    elements=st.integers(-160, 160).map(lambda n: n / 16),
    unique=True,
)


def definition(logits, temperature, top_k, top_p, min_p):
    """A dictionary from token to probability."""
    order = sorted(range(len(logits)), key=lambda token: -logits[token])
    if top_k:
        order = order[:top_k]
    weights = {t: np.exp((float(logits[t]) - float(logits.max())) / temperature) for t in order}
    total = sum(weights.values())
    kept, mass = {}, 0.0
    for token in order:
        if kept and mass >= top_p * total * (1 - 1e-9):
            break
        kept[token] = weights[token]
        mass += weights[token]
    kept = {token: weight for token, weight in kept.items() if weight >= min_p}
    return {token: weight / sum(kept.values()) for token, weight in kept.items()}


@given(
    logits,
    st.sampled_from([0.3, 1.0, 2.5]),
    st.integers(0, 12),
    st.sampled_from([1.0, 0.95, 0.6, 0.1]),
    st.sampled_from([0.0, 0.05, 0.5]),
)
def test_a_distribution_follows_its_definition(logits, temperature, top_k, top_p, min_p):
    distribution = SamplingProcessor(Sampling(temperature, top_k, top_p, min_p))(logits)
    expected = definition(logits, temperature, top_k, top_p, min_p)
    found = dict(
        zip(distribution.tokens.tolist(), distribution.probabilities.tolist(), strict=True)
    )
    # Where a sum of probabilities meets top_p within rounding, either cut is right.
    borderline = set(found) ^ set(expected)
    assert sum(expected.get(t, found.get(t, 0)) for t in borderline) < 1e-6 or not borderline
    for token in set(found) & set(expected):
        assert found[token] == pytest.approx(expected[token], rel=1e-5)
    assert distribution.probabilities.sum() == pytest.approx(1)
    assert (np.diff(distribution.tokens) > 0).all()


@given(logits)
def test_at_temperature_0_only_the_largest_logit_has_probability(logits):
    distribution = SamplingProcessor(Sampling())(logits)
    assert distribution.tokens.tolist() == [int(logits.argmax())]
    assert distribution.of(int(logits.argmax())) == 1


@given(logits, st.integers(0, 50))
def test_a_token_outside_the_support_has_probability_0(logits, token):
    distribution = SamplingProcessor(Sampling(temperature=1.0, top_k=5))(logits)
    inside = np.flatnonzero(distribution.tokens == token)
    assert distribution.of(token) == (distribution.probabilities[inside[0]] if len(inside) else 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_nan_or_infinite_logit_is_refused(bad, temperature):
    with pytest.raises(EdgespecError, match="as its largest logit"):
        SamplingProcessor(Sampling(temperature))(np.array([1.0, bad, 2.0], np.float32))


def test_masked_tokens_have_probability_0():
    distribution = SamplingProcessor(Sampling(temperature=1.0))(
        np.array([0.0, -np.inf, 0.0], np.float32)
    )
    assert distribution.of(1) == 0
    assert distribution.of(0) == 0.5


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=1000).filter(any),
    st.floats(0, 1, exclude_max=True),
)
def test_a_draw_is_the_token_whose_interval_the_uniform_number_falls_into(weights, uniform):
    randomness = Seeded(0)
    randomness._uniform = lambda: uniform
    distribution = Distribution(np.arange(len(weights)), np.array(weights, float))
    token = randomness.categorical(distribution, 0)
    assert weights[token] > 0
    point = uniform * sum(weights)
    assert sum(weights[:token]) <= point + 1e-9
    assert point <= sum(weights[: token + 1]) + 1e-9


def test_a_draw_at_the_very_end_is_the_last_token_with_any_weight():
    randomness = Seeded(0)
    randomness._uniform = lambda: np.nextafter(1.0, 0)
    weights = np.zeros(1000)
    weights[[3, 600]] = [0.1, 0.2]
    assert randomness.categorical(Distribution(np.arange(1000), weights), 0) == 600


def test_each_round_has_its_own_random_stream():
    """Draws of an earlier round do not change those of a later one."""
    few, many = Seeded(5), Seeded(5)
    few.at(0).bernoulli(0.5)
    for _ in range(100):
        many.at(0).bernoulli(0.5)
    coin = [randomness.at(3).bernoulli(0.5) for randomness in (few, many) for _ in range(1)]
    assert coin[0] == coin[1]
    assert Seeded(5)._uniform() != Seeded(6)._uniform()
    assert Seeded(5).at(1)._uniform() != Seeded(5).at(2)._uniform()
