"""Claim: any temperature that is allowed draws legal tokens only, however many are masked."""

from __future__ import annotations

import numpy as np
import pytest

from edgespec.core.distribution_options import MAX_TEMPERATURE, MIN_TEMPERATURE, Sampling
from edgespec.core.sampling import SamplingProcessor
from edgespec.errors import UsageError

MASKED = np.full(50, -np.inf, np.float32)
MASKED[[3, 7, 40]] = [1.0, -2.0, 30.0]
OTHERS = [{}, {"top_k": 2}, {"top_p": 0.9}, {"min_p": 0.1}, {"top_n_sigma": 3.0}, {"top_k": 40}]


@pytest.mark.parametrize("temperature", [MIN_TEMPERATURE, 1.0, 1e9, MAX_TEMPERATURE])
@pytest.mark.parametrize("others", OTHERS, ids=str)
def test_masked_tokens_have_no_probability(temperature, others):
    p = SamplingProcessor(Sampling(temperature=temperature, **others))(MASKED)
    drawn = p.tokens[p.probabilities > 0]
    assert set(drawn.tolist()) <= {3, 7, 40}
    assert np.all(np.isfinite(p.probabilities))
    assert float(p.probabilities.sum()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("temperature", [1e31, 1e44, 1e308, float("inf"), float("nan")])
def test_what_is_larger_is_refused(temperature):
    with pytest.raises(UsageError, match=r"temperature is .* give 0 \(greedy\) or 1e-06 or more"):
        Sampling(temperature=temperature)
