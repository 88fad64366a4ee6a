"""Claim: the noise of positions is what `edgespec.core.position_noise` states, to the bit.

Then a few numbers to compare another language's with, and statistics of the noise. Each of these
passes a correct generator with probability at least 1 - FALSE_ALARM (1e-6), by a bound that holds
for every sample size, and must find planted mistakes.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_sampled_distribution import FALSE_ALARM, threshold

from edgespec.core.distribution import Distribution, one_hot
from edgespec.core.position_noise import exponential, mixed, noise_key, race
from edgespec.core.randomness import Coupled, Seeded
from edgespec.core.vocab_ops import KERNELS

ALL = np.arange(49152)
P = np.array([0.4, 0.3, 0.15, 0.1, 0.05], np.float32)


def bits(seed, position, tokens=ALL):
    """The 52 bits of each token."""
    a, b, c, d = noise_key(seed, position)
    high, low = mixed(tokens, a, b).astype(np.int64), mixed(tokens, c, d).astype(np.int64)
    return high << 20 | low >> 12


def chosen(seed, position, tokens, weights):
    return Coupled(seed, 0).at(position).categorical(Distribution(tokens, weights), 0)


# --- to the bit --------------------------------------------------------------------------------

# seed, position, token, its 52 bits, E
GOLDEN = """
0 0 0 1303047788663935 0x1.5dc04422ae8f8p-2
0 0 1 3973256613960598 0x1.11ce4cd6782c6p+1
1 17 49151 2780294861704876 0x1.ebd81c6ddfd98p-1
12345 1000 7 1609420997517443 0x1.c4c9b1230b2e0p-2
9007199254740991 8191 151000 2452772542249974 0x1.92c1ab3b7b8fap-1
"""


@pytest.mark.parametrize("line", GOLDEN.strip().splitlines())
def test_the_noise_is_the_stated_one(line):
    seed, position, token, number, noise = line.split()
    found = int(bits(int(seed), int(position), [int(token)])[0])
    assert found == int(number)
    assert exponential(found).hex() == noise


@given(st.integers(0, 2**52 - 1))
def test_an_exponential_number_is_the_logarithm_within_two_units_of_its_last_digit(number):
    expected = -math.log1p(-(number + 0.5) * 2.0**-52) if number < 2**51 else None
    if expected is None:  # near 1 the logarithm of the exact difference is the more precise
        expected = -math.log((2**53 - 2 * number - 1) * 2.0**-53)
    assert abs(exponential(number) - expected) <= 2.5 * math.ulp(expected)


def stated(tokens, weights, seed, position):
    """Every token with its p / E, without a bound that leaves any out."""
    numbers = bits(seed, position, tokens)
    speeds = [float(w) / exponential(int(n)) for w, n in zip(weights, numbers, strict=True)]
    return dict(zip(tokens.tolist(), speeds, strict=True))


@given(st.integers(0, 2**64), st.integers(0, 10**6), st.data())
def test_a_race_finds_what_a_look_at_every_token_finds(seed, position, data):
    count = data.draw(st.integers(1, 400))
    generator = np.random.default_rng(data.draw(st.integers(0, 1000)))
    tokens = np.sort(generator.choice(49152, count, replace=False))
    weights = generator.dirichlet(np.full(count, data.draw(st.sampled_from([0.02, 0.3, 5.0]))))
    weights = weights.astype(np.float32)
    speeds = stated(tokens, weights, seed, position)
    for reach in (1.0, 20.0):
        near = {token for token in speeds if speeds[token] >= max(speeds.values()) / reach}
        expected = sorted(near, key=lambda token: (-speeds[token], token))
        found = race(tokens, weights, noise_key(seed, position), reach)
        assert found == [(token, speeds[token]) for token in expected]
        if KERNELS is not None:
            assert KERNELS.race(tokens, weights, noise_key(seed, position), reach) == found


def test_a_token_without_weight_is_never_chosen():
    weights = np.zeros(1000, np.float32)
    weights[[3, 600]] = 0.5
    found = {chosen(1, position, np.arange(1000), weights) for position in range(50)}
    assert found == {3, 600}


def test_the_noise_of_a_token_does_not_depend_on_the_others():
    """So a draft with fewer tokens, or a smaller support, sees the target's noise."""
    few = np.arange(0, 49152, 7)
    np.testing.assert_array_equal(bits(3, 9)[few], bits(3, 9, few))


def test_positions_are_counted_from_the_start_of_the_prompt():
    """A text that is continued from its own first half continues as it did."""
    distribution = Distribution(ALL, np.full(len(ALL), 1 / len(ALL), np.float32))
    once = [Coupled(5, 10).at(emitted).categorical(distribution, 0) for emitted in range(8)]
    again = [Coupled(5, 14).at(emitted).categorical(distribution, 0) for emitted in range(4)]
    ahead = [Coupled(5, 10).at(2).categorical(distribution, index) for index in range(6)]
    assert again == once[4:]
    assert ahead == once[2:]


def test_a_certain_token_needs_no_noise():
    assert Coupled(0, 0).categorical(one_hot(7), 0) == 7


def test_guesses_begin_with_the_choice_and_add_up():
    weights = np.array([0.5, 0.3, 0.2], np.float32)
    distribution = Distribution(np.arange(3), weights)
    for position in range(20):
        randomness = Coupled(0, position)
        ranked = randomness.ranked(distribution, 0)
        assert ranked[0][0] == randomness.categorical(distribution, 0)
        shares = [share for _, share in ranked]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1)


def test_a_drafters_own_decisions_use_other_numbers():
    assert Coupled(4, 9).at(2)._uniform() == Seeded(4).at(2)._uniform()


# --- statistics --------------------------------------------------------------------------------


def differs(counts, distribution):
    """Whether counts cannot come from a distribution: n · KL exceeds its bound (Agrawal, 2020)."""
    seen, n = counts > 0, counts.sum()
    kl = (counts[seen] * np.log(counts[seen] / n / distribution[seen])).sum()
    return bool(kl > threshold(int(n), distribution.size))


def pairs_of(choose, n=6000):
    """How often each pair of tokens is chosen at two neighbouring positions, for n seeds."""
    counts = np.zeros((5, 5))
    for seed in range(n):
        counts[choose(seed, 0), choose(seed, 1)] += 1
    return counts


def test_two_positions_are_independent_and_have_the_distribution():
    counts = pairs_of(lambda seed, position: chosen(seed, position, np.arange(5), P))
    assert not differs(counts, np.outer(P, P))


@pytest.mark.parametrize(
    "position_of", [lambda position: 0, lambda position: position // 2], ids=["one", "halved"]
)
def test_noise_that_is_used_at_two_positions_is_caught(position_of):
    mutant = lambda seed, position: chosen(seed, position_of(position), np.arange(5), P)  # noqa: E731
    assert differs(pairs_of(mutant), np.outer(P, P))


def test_another_distribution_is_caught():
    near = np.float32([0.34, 0.36, 0.15, 0.1, 0.05])
    counts = pairs_of(lambda seed, position: chosen(seed, position, np.arange(5), near))
    assert differs(counts, np.outer(P, P))


def correlation(first, second):
    """The mean product of two rows of numbers in [-1, 1]."""
    rows = [(numbers.astype(float) + 0.5) * 2.0**-51 - 1 for numbers in (first, second)]
    return float(np.mean(rows[0] * rows[1]))


def largest_by_chance(comparisons):
    """Hoeffding: products of independent numbers in [-1, 1] have a larger mean with probability at
    most FALSE_ALARM, in any of the comparisons."""
    return math.sqrt(2 * math.log(2 * comparisons / FALSE_ALARM) / len(ALL))


def test_noise_of_different_positions_and_seeds_is_uncorrelated():
    """Neighbouring positions and seeds, and those whose numbers differ in one bit."""
    others = [(7, 100 ^ 1 << bit) for bit in range(20)] + [(7 ^ 1 << bit, 100) for bit in range(40)]
    found = [abs(correlation(bits(7, 100), bits(*other))) for other in others]
    assert max(found) < largest_by_chance(len(found))
    assert correlation(bits(7, 100), bits(7, 100)) > largest_by_chance(1)


def test_noise_of_neighbouring_tokens_is_uncorrelated():
    found = []
    for position in range(20):
        row = bits(11, position)
        found += [abs(correlation(row, np.roll(row, 2**power))) for power in range(15)]
    assert max(found) < largest_by_chance(len(found))


def test_every_bit_is_set_in_half_of_the_tokens():
    """Within Hoeffding's bound for 52 bits of 8 positions."""
    shares = [(bits(3, position) >> bit & 1).mean() for position in range(8) for bit in range(52)]
    bound = math.sqrt(math.log(2 * len(shares) / FALSE_ALARM) / (2 * len(ALL)))
    assert max(abs(share - 0.5) for share in shares) < bound


def test_a_long_text_does_not_repeat():
    """3000 tokens of 1000 equally likely ones repeat no five in a row: by chance one in 2e8 do."""
    equal = np.full(1000, 1e-3, np.float32)
    text = [chosen(0, position, np.arange(1000), equal) for position in range(3000)]
    runs = {tuple(text[start : start + 5]) for start in range(len(text) - 4)}
    assert len(runs) == len(text) - 4
