"""Claim: with the same uniforms, both implementations of the verification rules decide the same.

numpy's works on supports in float64, JAX's on dense rows in float32. The random distributions are
of several kinds and are multiples of 1/64, which both formats represent exactly. Decisions closer
to a tie than float32's rounding are not compared. The same comparison must catch mutants.
"""

import numpy as np
import pytest

from edgespec.core.distribution import Distribution
from edgespec.core.draft import Proposal
from edgespec.core.verification import RULES
from edgespec_jax.draw_table import DrawTable, TableRandomness

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
verification = pytest.importorskip("edgespec_jax.jax_verification")
jax_draws = pytest.importorskip("edgespec_jax.jax_draws")

GAMMA, V, CASES = 4, 6, 400
KINDS = ("dense", "sparse", "one-hot", "equal")
ROUNDING = 1e-6


def random_distribution(generator, kind):
    if kind == "one-hot":
        return np.eye(V)[generator.integers(V)]
    weights = generator.random(V) ** 3
    if kind == "sparse":
        weights[generator.permutation(V)[: generator.integers(1, V)]] = 0
    counts = np.floor(64 * weights / weights.sum())
    counts[weights.argmax()] += 64 - counts.sum()
    return counts / 64


def random_case(seed):
    """Tokens drawn from q [γ, V], q, p [γ + 1, V], the number of valid tokens, a random table."""
    generator = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    p = np.array([random_distribution(generator, kind) for _ in range(GAMMA + 1)])
    q = (
        p[:GAMMA]
        if kind == "equal"
        else np.array([random_distribution(generator, kind) for _ in p[:-1]])
    )
    if kind == "one-hot" and seed % 3:  # otherwise nearly every first token is rejected
        q = np.where(generator.random((GAMMA, 1)) < 0.7, p[:GAMMA], q)
    tokens = np.array([generator.choice(V, p=row) for row in q])
    return tokens, q, p, int(generator.integers(GAMMA + 1)), DrawTable.draw(seed, 1, GAMMA, V)


def on_support(row):
    tokens = np.flatnonzero(row)
    return Distribution(tokens, row[tokens])


def numpy_round(rule, case):
    """(accepted, evaluated, last token, narrowest decision) by `edgespec.core.verification`."""
    tokens, q, p, drafted, table = case
    randomness = TableRandomness(table)
    # The drafted tokens read their entries of the table first.
    for ahead, row in enumerate(q[:drafted]):
        randomness.categorical(on_support(row), ahead)
    randomness.closest = np.inf
    proposal = Proposal(tokens[:drafted].tolist(), [on_support(row) for row in q[:drafted]])
    result = rule(proposal, [on_support(row) for row in p], randomness)
    last = randomness.categorical(result.next, result.accepted)
    return (result.accepted, result.evaluated, last), randomness.closest


def jax_round(rule):
    @jax.jit
    def round_(tokens, q, p, drafted, uniforms, noise):
        result = rule(tokens, q, p, drafted, uniforms)
        last = verification.draw_token(result.next, noise[drafted], greedy=False)
        return result.accepted, result.evaluated, last

    def run(case):
        tokens, q, p, drafted, table = case
        rows = (np.float32(q), np.float32(p))
        result = round_(tokens, *rows, drafted, table.uniforms[0], table.noise[0])
        return tuple(int(value) for value in result)

    return run


def differences(rule, reference):
    """Seeds of the cases with different results, except where rounding may decide."""
    run = jax_round(rule)
    wrong = []
    for seed in range(CASES):
        case = random_case(seed)
        expected, closest = numpy_round(reference, case)
        if run(case) != expected and closest > ROUNDING:
            wrong.append(seed)
    return wrong


@pytest.mark.parametrize("name", verification.RULES)
def test_both_implementations_decide_the_same(name):
    assert differences(verification.RULES[name], RULES[name]) == []


def test_the_cases_reach_every_accepted_length_under_both_rules():
    for rule in map(RULES.get, verification.RULES):
        seen = {numpy_round(rule, random_case(seed))[0][0] for seed in range(CASES)}
        assert seen == set(range(GAMMA + 1))


def residual_is_p(tokens, q, p, drafted, uniforms):
    result = verification.token_rule(tokens, q, p, drafted, uniforms)
    return result._replace(next=p[result.accepted])


def drafted_is_ignored(tokens, q, p, drafted, uniforms):
    return verification.token_rule(tokens, q, p, jnp.int32(GAMMA), uniforms)


@pytest.mark.parametrize("mutant", [residual_is_p, drafted_is_ignored, verification.block_rule])
def test_a_different_rule_gives_different_decisions(mutant):
    assert differences(mutant, RULES["token"])


def test_a_greedy_distribution_is_one_hot_at_the_first_maximum():
    logits = jnp.array([[1.0, 3.0, 3.0], [-1.0, -2.0, -5.0]])
    distribution = verification.distribution(logits, jnp.float32(1), greedy=True)
    assert distribution.tolist() == [[0, 1, 0], [1, 0, 0]]


def chi_squared(draw_token):
    """χ² of the winners of 20 000 keyed races against their weights: 4 degrees of freedom."""
    weights, count = jnp.array([0.4, 0.3, 0.15, 0.1, 0.05, 0.0]), 20_000
    draws = jax_draws.Keyed(jax.random.key(1))

    def one(emitted):
        return draw_token(weights, jax_draws.noise(draws, emitted, 0, 6))

    seen = np.bincount(jax.vmap(one)(jnp.arange(count)), minlength=6)
    assert seen[5] == 0  # a token without weight never wins
    expected = np.array(weights[:5]) * count
    return float(((seen[:5] - expected) ** 2 / expected).sum())


def test_a_race_is_won_as_often_as_a_weight_says():
    """The limit is the χ² of p = 1e-6; the key is fixed, so the result never changes.

    The same number of races must detect weights that are wrong by 2 % of the mass.
    """
    limit = 33.4
    assert chi_squared(lambda w, noise: verification.draw_token(w, noise, greedy=False)) < limit
    wrong = jnp.array([-0.02, 0.02, 0, 0, 0, 0])
    assert (
        chi_squared(lambda w, noise: verification.draw_token(w + wrong, noise, greedy=False))
        > limit
    )


def test_every_decision_has_its_own_random_numbers():
    draws = jax_draws.Keyed(jax.random.key(0))
    rows = [jax_draws.noise(draws, jnp.int32(e), k, 3) for e in range(4) for k in range(4)]
    rows += [jax_draws.uniforms(draws, jnp.int32(e), 3) for e in range(4)]
    assert len({float(value) for row in rows for value in row}) == 3 * len(rows)


def test_noise_drawn_at_once_is_that_of_each_decision():
    for draws in (jax_draws.Keyed(jax.random.key(3)), jax_draws.tabled(DrawTable.draw(3, 9, 4, V))):
        at_once = jax_draws.noises(draws, jnp.int32(7), 3, V)
        each = [jax_draws.noise(draws, jnp.int32(7), decision, V) for decision in range(3)]
        assert np.array_equal(at_once, each)
        assert len(np.unique(at_once)) == 3 * V
