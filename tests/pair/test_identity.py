"""Claim: text with a draft is the target's own text, bit by bit, on ONNX Runtime: greedy text, and
sampled text with the coupled rule.

200 prompts × γ from 1 to 8 × all rules, for encoder-decoder and decoder-only, with drafts that are
sometimes right: a guard checks that drafts are accepted and rejected, since a test of identity
passes when nothing ever is. The logits of the tokens are compared bitwise as well. By default each
prompt meets every rule with one γ, and one way of sampling; with EDGESPEC_DEEP=1 all of them.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_noisy, write_t5
from depth import by_turns, one_in
from edgespec_export.export_pair import export_pair

# Other tests run these lines too; counting them here would double the time of each pass.
pytestmark = pytest.mark.no_cover

PROMPTS = 200  # for each family
LENGTH = 14

FAMILIES = {
    "t5": lambda folder: write_t5(
        folder, vocab_size=272, tokenizer=byte_tokenizer(272, append_eos=True), head_size=16
    ),
    "llama": lambda folder: write_llama(
        folder, vocab_size=272, tokenizer=byte_tokenizer(272), head_size=16, kv_heads=1
    ),
}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("identity")
    target = FAMILIES[request.param](folder / "target")
    draft = write_noisy(target, folder / "draft", noise=0.1)
    export_pair(str(target), str(draft), folder / "pair", threads=1)
    return edgespec.load(folder / "pair", threads=1)


@pytest.fixture(scope="module")
def prompts():
    generator = np.random.default_rng(7)
    return [
        [int(token) for token in generator.integers(3, 272, size=generator.integers(1, 12))]
        for _ in range(PROMPTS)
    ]


@pytest.fixture(scope="module")
def alone(family, prompts):
    """Each prompt's own greedy text, with the log-probabilities of its tokens."""
    return [
        family.generate(prompt, draft=False, max_new_tokens=LENGTH, logprobs=True)
        for prompt in prompts
    ]


RULES = ["coupled", "token", "block"]
GAMMAS = range(1, 9)


@one_in(3)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("gamma", GAMMAS)
def test_greedy_text_with_a_draft_is_the_targets_own(family, prompts, alone, gamma, rule):
    accepted = evaluated = 0
    cases = list(zip(prompts, alone, strict=True))
    for prompt, expected in by_turns(cases, gamma + 3 * RULES.index(rule), len(GAMMAS)):
        drafted = family.generate(
            prompt, gamma=gamma, rule=rule, max_new_tokens=LENGTH, logprobs=True
        )
        assert drafted.token_ids == expected.token_ids
        assert drafted.logprobs == expected.logprobs
        accepted += drafted.stats.accepted
        evaluated += drafted.stats.evaluated
    assert 0.2 < accepted / evaluated < 0.99


SAMPLINGS = [
    {"temperature": 0.3},
    {"temperature": 0.8, "top_p": 0.95},
    {"temperature": 1.0},
    {"temperature": 1.5, "top_k": 20},
    {"temperature": 1.2, "min_p": 0.1, "top_p": 0.9},
]


@one_in(2)
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda options: ",".join(map(str, options)))
def test_sampled_text_with_a_draft_is_the_targets_own(family, prompts, sampling):
    """A seed has one text, whatever drafts and whatever γ is."""
    accepted, drafted = Counter(), Counter()
    cases = list(enumerate(prompts))
    for seed, prompt in by_turns(cases, SAMPLINGS.index(sampling), 2 * len(SAMPLINGS)):
        options = {"seed": seed, "max_new_tokens": LENGTH, "logprobs": True, **sampling}
        expected = family.generate(prompt, draft=False, **options)
        for draft in ("model", "both"):
            found = family.generate(prompt, draft=draft, gamma=1 + seed % 8, **options)
            assert found.token_ids == expected.token_ids
            assert found.logprobs == expected.logprobs
            accepted[draft] += found.stats.accepted
            drafted[draft] += found.stats.drafted
    assert all(0 < accepted[draft] < drafted[draft] for draft in ("model", "both"))


def test_with_a_draft_another_seed_draws_another_text(family, prompts):
    texts = [
        family.generate(prompts[0], seed=seed, temperature=1.0, max_new_tokens=LENGTH).token_ids
        for seed in range(20)
    ]
    assert len(set(map(tuple, texts))) > 15


@one_in(2)
@pytest.mark.parametrize(
    "sampling", [{}, {"temperature": 0.5, "seed": 1}], ids=["greedy", "sampled"]
)
def test_prompt_lookup_keeps_the_text_and_is_sometimes_right(family, prompts, sampling):
    accepted = 0
    for prompt in prompts[:40]:
        repeated = (prompt * 4)[:24]
        options = {"max_new_tokens": 40, "ignore_eos": True, **sampling}
        expected = family.generate(repeated, draft=False, **options)
        drafted = family.generate(repeated, draft="lookup", gamma=4, **options)
        assert drafted.token_ids == expected.token_ids
        accepted += drafted.stats.accepted
    assert accepted > 0


def test_the_shipped_pair_gives_the_targets_text_with_its_draft(pair):
    prompts = [
        "GNOME development IDE, for C/C++ - data files",
        "Python bindings for the GNU scientific library",
        "This package contains the documentation.",
        "common files for the desktop environment",
    ]
    accepted = 0
    for prompt in prompts:
        expected = pair.generate(prompt, draft=False)
        for gamma in (1, 4, 8, "auto"):
            drafted = pair.generate(prompt, gamma=gamma)
            assert drafted.token_ids == expected.token_ids
            assert drafted.text == expected.text
            accepted += drafted.stats.accepted
    assert accepted > 0


def test_a_draft_equal_to_the_target_is_always_accepted(tmp_path, prompts):
    """Greedy: all of it. The draft is called with one row and the target with several, which are
    not the same kernel, so sampled acceptance is compared with one up to that difference."""
    target = FAMILIES["llama"](tmp_path / "target")
    export_pair(str(target), str(target), tmp_path / "pair", threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    for temperature in (0.0, 1.0):
        for prompt in prompts[:20]:
            stats = pair.generate(
                prompt, draft="model", gamma=4, temperature=temperature, seed=3, max_new_tokens=25
            ).stats
            assert stats.accepted == stats.evaluated
            assert stats.accepted > 0 or stats.tokens == 1
