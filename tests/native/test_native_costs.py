"""Claim: libedgespec chooses γ as Python does, measures row invariance where nobody has, and
knows the memory of a pair before it is loaded."""

from __future__ import annotations

import ctypes
import json
import random

import pytest

import edgespec
from edgespec.artifact.manifest import manifest_digest, read_manifest
from edgespec.costs.controller import Adaptive, Confident
from edgespec.costs.cost_model import Costs
from edgespec.costs.measured_costs import (
    DraftingTimes,
    MeasuredCosts,
    Timed,
    VerificationTimes,
)
from edgespec.device.device import Device
from edgespec.pair.opening.invariance_cache import known_invariance
from native_library import NativeError, NativeModel

ROUNDS = 700
GUESSES = {
    "a fast draft": ([1 + 0.03 * n for n in range(17)], 0.1, 0.2, 0.1),
    "a slow draft": ([1 + 0.1 * n for n in range(17)], 0.5, 0.3, 0.1),
    "one that may pay": ([1 + 0.1 * n for n in range(17)], 0.45, 0.05, 0.05),
}


class Drafter:
    seconds = 0.0


class Target:
    length = 0


def drafted_by(controller, most, sureness):
    """Tokens of a round: γ, or fewer where the draft is not sure enough."""
    if sureness is None:
        return most
    drafted, probability = min(most, 1), 1.0
    while drafted < most:
        probability *= sureness
        if not controller.should_continue(probability, 1 + drafted):
            break
        drafted += 1
    return drafted


def pythons_gammas(guess, luck, times, sureness=None, confident=Confident):
    """Drafted tokens of each round: by guesses, or by a clock that these times move."""
    verify, draft, overhead, without_overhead = guess
    costs, without = Costs(verify, draft, overhead), Costs(verify, 0.0, without_overhead)
    drafter, target, now, gammas = Drafter(), Target(), 0.0, []
    kind = Adaptive if sureness is None else confident
    controller = chooser = kind(costs)
    if times is not None:
        verification = VerificationTimes(without)
        drafting = DraftingTimes(drafter, costs, without)
        chooser = kind(MeasuredCosts(costs, verification, drafting))
        controller = Timed(chooser, target, verification, drafting, lambda: now)
    for index, share in enumerate(luck):
        gamma = drafted_by(chooser, controller.gamma(), sureness and sureness[index])
        gammas.append(gamma)
        accepted = int(share * (gamma + 1))
        if times is not None:
            drafter.seconds += gamma * times[2 * index]
            now += gamma * times[2 * index] + (gamma + 8) * times[2 * index + 1]
        controller.observe(gamma, min(accepted + 1, gamma), min(accepted, gamma), 0)
        target.length += accepted + 1
    return gammas


def doubles(values):
    return None if values is None else (ctypes.c_double * len(values))(*values)


def luck_and_times(name):
    numbers = random.Random(name)
    luck = [numbers.random() ** (1 + index // 200) for index in range(ROUNDS)]
    times = [numbers.uniform(0.5, 1.5) * (0.3, 0.1)[index % 2] for index in range(2 * ROUNDS)]
    return luck, times, [numbers.random() ** 0.3 for _ in range(ROUNDS)]


def librarys_gammas(hooks, guess, luck, times, sureness=None):
    verify, draft, overhead, without_overhead = guess
    found = (ctypes.c_int64 * ROUNDS)()
    hooks.edgespec_hook_gammas(
        doubles(verify),
        ctypes.c_int64(17),
        ctypes.c_double(draft),
        ctypes.c_double(overhead),
        ctypes.c_double(without_overhead),
        ctypes.c_int64(ROUNDS),
        doubles(luck),
        doubles(times),
        doubles(sureness),
        found,
    )
    return list(found)


@pytest.mark.parametrize("by_clock", [False, True])
@pytest.mark.parametrize("name", GUESSES)
def test_gammas_are_pythons(hooks, name, by_clock):
    luck, times, sureness = luck_and_times(name)
    times = times if by_clock else None
    for sure in (None, sureness):
        expected = pythons_gammas(GUESSES[name], luck, times, sure)
        assert librarys_gammas(hooks, GUESSES[name], luck, times, sure) == expected
        assert len(set(expected)) > 1


class NoMoreThanBest(Confident):
    def gamma(self):
        return Adaptive.gamma(self)


class AnyGain(Confident):
    def should_continue(self, probability, rows):
        acceptance = self._accepted / self._evaluated
        return probability * acceptance > self._costs.draft + self._costs.marginal_cost(rows)


class NoRate(Confident):
    def should_continue(self, probability, rows):
        cost = self._costs.draft + self._costs.marginal_cost(rows)
        return probability > cost * max(1.0, self._expected_speedup)


class OneRowLess(Confident):
    def should_continue(self, probability, rows):
        return super().should_continue(probability, rows - 1)


@pytest.mark.parametrize("mistake", [NoMoreThanBest, AnyGain, NoRate, OneRowLess])
def test_another_way_to_end_drafts_is_found(hooks, mistake):
    different = 0
    for name, guess in GUESSES.items():
        luck, times, sureness = luck_and_times(name)
        wrong = pythons_gammas(guess, luck, times, sureness, mistake)
        different += librarys_gammas(hooks, guess, luck, times, sureness) != wrong
    assert different


def test_drafts_end_where_pythons_do(large_folder, built):
    """Without a clock the draft's own probabilities decide alone."""
    pair, model = edgespec.load(large_folder, threads=1), NativeModel(large_folder, threads=1)
    accepted = 0
    prompt, options = [5, 60, 7, 8, 60, 7, 8], {"temperature": 1.0, "max_new_tokens": 60}
    for rule in ("token", "block"):
        for seed in range(4):
            session = model.session()
            text = session.text(prompt, draft=1, seed=seed, rule=rule, ignore_eos=1, **options)
            whole = pair.generate(
                prompt, draft="model", seed=seed, rule=rule, ignore_eos=True, **options
            )
            assert text == whole.token_ids
            stats = whole.stats
            assert (session.rounds, session.accepted) == (stats.target_calls, stats.accepted)
            accepted += session.accepted
    assert accepted > 10


@pytest.mark.parametrize("given", [{}, {"temperature": 1.0}, {"temperature": 1.0, "rule": "token"}])
@pytest.mark.parametrize("draft", [1, 2, 3])
def test_texts_by_the_clock_are_those_of_any_gamma(native_tiny, given, draft):
    session, prompt = native_tiny.session(), [5, 60, 7, 8, 60, 7, 8]
    options = {"seed": 2, "ignore_eos": 1, "max_new_tokens": 40, **given}
    text = session.text(prompt, gamma=-1, draft=draft, **options)
    if "rule" in given:
        assert text == native_tiny.session().text(prompt, gamma=-1, draft=draft, **options)
    else:
        assert text == session.text(prompt, draft=0, **options)
    with pytest.raises(NativeError, match="gamma is -2; give a whole number from 0, or -1"):
        session.begin(prompt, gamma=-2)


def without_result(folder):
    path = folder / "edgespec.json"
    data = json.loads(path.read_text())
    for variant in data["target"]["variants"].values():
        variant["row_invariance"] = None
    data["digest"] = manifest_digest(data)
    path.write_text(json.dumps(data))


def test_row_invariance_is_measured_once_and_kept(own_pair, built):
    without_result(own_pair)
    kept = own_pair / "row_invariance.json"
    kept.unlink(missing_ok=True)
    inexact = NativeModel(own_pair, threads=1, allow_inexact=1)
    assert not kept.exists()
    model = NativeModel(own_pair, threads=1)
    (entry,) = json.loads(kept.read_text())
    assert entry["row_invariance"]["is_row_invariant"]
    assert entry["row_invariance"]["one_row_difference"] == 0
    text = model.session().text([5, 60, 7], gamma=3, max_new_tokens=12)
    assert text == model.session().text([5, 60, 7], draft=0, max_new_tokens=12)
    assert text == inexact.session().text([5, 60, 7], gamma=3, max_new_tokens=12)
    written = kept.stat()
    NativeModel(own_pair, threads=1)
    assert kept.stat() == written
    NativeModel(own_pair, threads=2)
    assert len(json.loads(kept.read_text())) == 2
    manifest = read_manifest(own_pair)
    variant = next(iter(manifest.target.variants))
    assert known_invariance(own_pair, manifest, variant, Device(1)) is None  # Python measures more


def test_a_damaged_result_is_measured_again(own_pair, built):
    without_result(own_pair)
    kept = own_pair / "row_invariance.json"
    for content in ("", "[{}]", "{", '[{"graph": 1}]'):
        kept.write_text(content)
        NativeModel(own_pair, threads=1)
        assert len(json.loads(kept.read_text())) == 1


def test_memory_is_known_before_loading(own_pair, native_tiny):
    estimate = native_tiny.estimate
    manifest = read_manifest(own_pair)
    weights, caches = estimate(own_pair)
    assert weights == sum(
        file.bytes for name, file in manifest.files.items() if name != "tokenizer.json"
    )
    models = (manifest.target, manifest.draft)
    numbers = sum(2 * one.layers * one.kv_heads * one.head_size for one in models)
    assert caches == numbers * 4 * manifest.target.capacity
    assert estimate(own_pair, capacity=10) == (weights, numbers * 40)
    with pytest.raises(NativeError, match=r"capacity is 97; .* takes 1 to 96"):
        estimate(own_pair, capacity=97)
    with pytest.raises(NativeError, match="is not an exported pair"):
        estimate(own_pair / "target")
