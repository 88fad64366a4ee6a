"""Claim: sampled text with a draft has the target's distribution, through exported models.

The distribution of the first two tokens of a text is known exactly from the target's own logits: 25
outcomes of a five-token vocabulary. The shipped loop generates texts on ONNX Runtime, and their
empirical distribution is compared with the exact one by n · KL(empirical, exact). For every n, its
tail is bounded by Agrawal (2020), "Finite-sample concentration of the multinomial in relative
entropy":
P(KL ≥ ε) ≤ e^(-nε) · (e ε n / (k - 1))^(k - 1) for k outcomes. So, without asymptotics:

- a correct loop fails a test with probability at most FALSE_ALARM (1e-6);
- a distribution at total variation DETECTABLE (0.09) from the exact one is found (tested);
- planted mutants of the loop are found (tested).

EDGESPEC_SAMPLES=200000 makes n larger and the detectable distance smaller. By default one rule is
drawn, and its mutants; EDGESPEC_DEEP=1 draws each with each way to sample, and finds a distance of
0.06.
"""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
from test_exact_distribution import residual_is_p, swapped_ratio

import edgespec
from checkpoints import write_llama, write_noisy
from depth import DEEP, deep
from edgespec.artifact.manifest import read_manifest
from edgespec.core.distribution_options import Sampling
from edgespec.core.sampling import SamplingProcessor
from edgespec.core.verification import RULES
from edgespec.device.device import Device
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair

# Other tests run these lines too; counting them here would double the time of each pass.
pytestmark = pytest.mark.no_cover

FALSE_ALARM = 1e-6
DETECTABLE = 0.06 if DEEP else 0.09
SAMPLES = int(os.environ.get("EDGESPEC_SAMPLES", "8000" if DEEP else "4000"))
VOCAB = 5
PROMPT = [3, 4, 1, 3]

SAMPLINGS = {
    "temperature 1": SamplingProcessor(Sampling(temperature=1.0)),
    "temperature 0.7, top-k 3": SamplingProcessor(Sampling(temperature=0.7, top_k=3)),
    "top-p 0.8": SamplingProcessor(Sampling(temperature=1.2, top_p=0.8)),
    "min-p 0.2": SamplingProcessor(Sampling(temperature=1.5, min_p=0.2)),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sampled")
    target = write_llama(
        folder / "target", vocab_size=VOCAB, heads=2, head_size=16, layers=2, spread=1.0
    )
    draft = write_noisy(target, folder / "draft", noise=0.5)
    export_pair(str(target), str(draft), folder / "pair", threads=1)
    return folder / "pair"


@pytest.fixture(scope="module")
def small_pair(folder):
    return edgespec.load(folder, threads=1)


def exact_distribution(folder, process):
    """P(x1, x2) = p(x1) p(x2 | x1), computed one token per call: [VOCAB, VOCAB]."""
    model = open_model(folder, read_manifest(folder).target, "fp32", device=Device(1), min_rows=2)

    def after(text):
        pending = model.prefill(PROMPT)
        for token in text:
            model.score([pending])
            pending = token
        p = process(model.score([pending])[0])
        dense = np.zeros(VOCAB)
        dense[p.tokens] = p.probabilities
        return dense

    return np.array([p_first * after([token]) for token, p_first in enumerate(after([]))])


def empirical(pair, process, samples=SAMPLES, **options):
    counts = np.zeros((VOCAB, VOCAB))
    accepted = 0
    for seed in range(samples):
        result = pair.generate(
            PROMPT,
            max_new_tokens=3,
            ignore_eos=True,
            seed=seed,
            temperature=process.sampling.temperature,
            top_k=process.sampling.top_k,
            top_p=process.sampling.top_p,
            min_p=process.sampling.min_p,
            **options,
        )
        counts[tuple(result.token_ids[:2])] += 1
        accepted += result.stats.accepted
    return counts, accepted


def threshold(samples, outcomes):
    """The n · KL that a correct sampler exceeds with probability at most FALSE_ALARM."""
    free = outcomes - 1
    low, high = float(free), 1e6
    for _ in range(100):
        middle = (low + high) / 2
        tail = -middle + free * (1 + math.log(middle / free))
        low, high = (middle, high) if tail > math.log(FALSE_ALARM) else (low, middle)
    return high


def differs(counts, distribution):
    """Whether the counts cannot come from the distribution, at the stated false-alarm rate."""
    samples = int(counts.sum())
    if (counts[distribution == 0] > 0).any():
        return True
    seen = counts > 0
    kl = (counts[seen] * np.log(counts[seen] / samples / distribution[seen])).sum()
    return bool(kl > threshold(samples, int((distribution > 0).sum())))


# Every rule and every way to sample once; prompt lookup has the fourth.
# Texts by the coupled rule are plain decoding's (tests/pair/test_identity.py); those by the block
# rule have its distribution in every branch (tests/core/test_block_distribution.py).
DEFAULT = [("temperature 0.7, top-k 3", "token")]
OTHERS = [(sampling, rule) for sampling in SAMPLINGS for rule in ("coupled", "token", "block")]


@pytest.mark.parametrize(
    ("sampling", "rule"),
    [*DEFAULT, *(pytest.param(*case, marks=deep) for case in OTHERS if case not in DEFAULT)],
)
def test_sampled_text_has_the_targets_distribution(folder, small_pair, sampling, rule):
    process = SAMPLINGS[sampling]
    counts, accepted = empirical(small_pair, process, rule=rule, gamma=2)
    assert not differs(counts, exact_distribution(folder, process))
    assert accepted > SAMPLES / 4  # speculation did happen


@deep
def test_prompt_lookup_keeps_the_distribution(folder, small_pair):
    process = SAMPLINGS["min-p 0.2"]
    counts, _ = empirical(small_pair, process, draft="lookup", gamma=2)
    assert not differs(counts, exact_distribution(folder, process))


@pytest.mark.parametrize("mutant", [swapped_ratio, residual_is_p], ids=lambda rule: rule.__name__)
def test_a_wrong_rule_is_caught(folder, small_pair, mutant, monkeypatch):
    monkeypatch.setitem(RULES, "token", mutant)
    process = SAMPLINGS["temperature 1"]
    counts, _ = empirical(small_pair, process, SAMPLES // 3, rule="token", gamma=2)
    assert differs(counts, exact_distribution(folder, process))


def test_a_distribution_at_the_detectable_distance_is_found(folder):
    """In at least 99 of 100 repetitions, for shifts of mass in random directions."""
    distribution = exact_distribution(folder, SAMPLINGS["temperature 1"])
    generator = np.random.default_rng(0)
    found = 0
    for _ in range(100):
        shift = (
            generator.dirichlet(np.ones(distribution.size)).reshape(distribution.shape)
            - distribution
        )
        shifted = distribution + shift * DETECTABLE / (np.abs(shift).sum() / 2)
        found += differs(
            generator.multinomial(SAMPLES, shifted.ravel()).reshape(distribution.shape),
            distribution,
        )
    assert found >= 99


def test_the_exact_distribution_itself_passes(folder):
    distribution = exact_distribution(folder, SAMPLINGS["temperature 1"])
    generator = np.random.default_rng(1)
    draws = (generator.multinomial(SAMPLES, distribution.ravel()) for _ in range(1000))
    assert not any(differs(counts.reshape(distribution.shape), distribution) for counts in draws)
