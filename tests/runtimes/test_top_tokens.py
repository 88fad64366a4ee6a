"""Claim: greedy calls that return top tokens give the same text as calls that return logits.

With kernels, an int8 target returns the arg-max and no logits, with tied embeddings or without. Its
text is compared with the one from logits, token by token, with and without a draft.
"""

from __future__ import annotations

import numpy as np
import pytest

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_noisy, write_t5
from depth import one_in
from edgespec.artifact.graph_io import MAX_ROWS, TOP_K
from edgespec.artifact.manifest import read_manifest
from edgespec.core.distribution import RefusedRow
from edgespec.core.distribution_options import Sampling
from edgespec.core.draft import proposed
from edgespec.core.model import TopTokens
from edgespec.core.randomness import Seeded
from edgespec.core.requests import computed
from edgespec.core.sampling import SamplingProcessor
from edgespec.core.scoring import score_of
from edgespec.costs.cost_model import Costs
from edgespec.device.device import Device
from edgespec.device.kernels import SWITCH, installed_kernels
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.drafters.registry import costs_by_name
from edgespec.drafters.vocabulary_map import SharedTokens
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_runtimes.ort.graph_run import TopTokensRun

TINY = {"vocab_size": 272, "head_size": 16}
TARGETS = {
    "llama": lambda folder: write_llama(
        folder, **TINY, tokenizer=byte_tokenizer(272), kv_heads=1, tie_word_embeddings=True
    ),
    "t5 v1.0": lambda folder: write_t5(
        folder, **TINY, tokenizer=byte_tokenizer(272, append_eos=True), tie_word_embeddings=True
    ),
    "llama, own head": lambda folder: write_llama(folder, **TINY, tokenizer=byte_tokenizer(272)),
    "t5 v1.1": lambda folder: write_t5(
        folder, **TINY, tokenizer=byte_tokenizer(272, append_eos=True), gated=True
    ),
}
PROMPTS = [list(prompt.encode()) for prompt in ("Greedy", "a", "the arg-max of a row", "…")]


def opened(folder, **options):
    target = read_manifest(folder).target
    return open_model(folder, target, "int8", device=Device(1), **options)


needs_kernels = pytest.mark.skipif(installed_kernels() is None, reason="there are no kernels here")


@pytest.fixture(scope="module", params=TARGETS)
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("top-tokens")
    target = TARGETS[request.param](folder / "target")
    draft = write_noisy(target, folder / "draft", noise=0.1)
    export_pair(
        str(target),
        str(draft),
        folder / "pair",
        target_formats=["int8"],
        draft_formats=["int8"],
        threads=1,
    )
    return folder / "pair"


@pytest.fixture(scope="module")
def pair(folder):
    return edgespec.load(folder, threads=1)


@pytest.fixture
def calls(pair, monkeypatch):
    """Counts calls that return logits and calls that return tokens."""
    counts = {"score": 0, "top_tokens": 0}
    for name in counts:
        method = getattr(pair.target, name)

        def counting(*given, name=name, method=method, **how):
            counts[name] += 1
            return method(*given, **how)

        monkeypatch.setattr(pair.target, name, counting)
    return counts


@one_in(2)
@needs_kernels
@pytest.mark.parametrize("draft", [False, "model", "lookup"])
def test_a_greedy_text_equals_the_one_from_logits(pair, calls, monkeypatch, draft):
    top = [pair.generate(p, draft=draft, max_new_tokens=40).token_ids for p in PROMPTS]
    assert calls["top_tokens"]
    assert not calls["score"]
    monkeypatch.setattr(pair.target, "returns_top_tokens", False)
    by_logits = [pair.generate(p, draft=draft, max_new_tokens=40).token_ids for p in PROMPTS]
    assert calls["score"]
    assert top == by_logits


@needs_kernels
@pytest.mark.parametrize("wish", [{"logprobs": True}, {"temperature": 1.0, "seed": 3}])
def test_logprobs_and_sampling_use_logits(pair, calls, wish):
    pair.generate(PROMPTS[0], max_new_tokens=8, **wish)
    assert calls["score"]
    assert not calls["top_tokens"]


def test_top_tokens_and_logits_agree_without_kernels(folder, monkeypatch):
    monkeypatch.setenv(SWITCH, "0")
    model = opened(folder)
    assert not model.returns_top_tokens
    tokens = [model.prefill(PROMPTS[2]), *b"any text"]
    logits = model.score(tokens).copy()
    model.rewind(model.length - len(tokens))
    top = model.top_tokens(tokens)
    np.testing.assert_array_equal(top.tokens[:, 0], logits.argmax(axis=1))
    np.testing.assert_array_equal(top.logits[:, 0], logits.max(axis=1))
    assert top.probabilities is None


def test_rows_that_pad_a_call_are_not_returned(folder):
    model = opened(folder, min_rows=4)
    token = model.prefill(PROMPTS[1])
    top = model.top_tokens([token], probabilities=True)
    assert top.tokens.shape == top.logits.shape == top.probabilities.shape == (1, TOP_K)
    model.rewind(model.length - 1)
    assert top.tokens[0, 0] == model.score([token])[0].argmax()


def test_the_output_can_be_limited_to_the_last_row(folder):
    """A draft does this after many looked-up tokens. Bindings of long calls are not stored."""
    model = opened(folder)
    tokens = [model.prefill(PROMPTS[1]), *range(40, 80)]
    every = model.top_tokens(tokens)
    expected = every.tokens[-1, 0], every.logits[-1, 0]
    model.rewind(model.length - len(tokens))
    last = model.top_tokens(tokens, skip=len(tokens) - 1, probabilities=True)
    assert (last.tokens[0, 0], last.logits[0, 0]) == expected
    assert 0 < last.probabilities[0, 0] <= 1
    assert not any(kind is TopTokensRun for kind, _ in model._decoder._calls)


def test_a_full_cache_says_so(folder):
    model = opened(folder, capacity=4)
    model.prefill(PROMPTS[0][:2])
    with pytest.raises(EdgespecError, match=r"asked to score 9 positions with room for [34] of 4"):
        model.top_tokens([1] * 9)


def gammas_of(pair, prompt):
    """Drafted tokens of each round, candidates of all rounds, and the text."""
    result = pair.generate(prompt, draft="model", gamma="auto", max_new_tokens=40)
    stats = result.stats
    return [round_.drafted for round_ in stats.rounds], stats.candidates, result.token_ids


@needs_kernels
def test_a_drafts_probabilities_equal_those_of_its_logits(pair, monkeypatch):
    """γ "auto" depends on them: rounds have the same lengths and tokens either way."""
    assert pair.draft.returns_top_tokens
    cheap = Costs([1 + 0.01 * gamma for gamma in range(MAX_ROWS)], draft=0.02)
    monkeypatch.setattr(pair.drafting, "costs", costs_by_name(cheap))
    monkeypatch.setattr(pair.drafting, "clock", None)
    top = [gammas_of(pair, prompt) for prompt in PROMPTS]
    monkeypatch.setattr(pair.draft, "returns_top_tokens", False)
    assert [gammas_of(pair, prompt) for prompt in PROMPTS] == top
    assert len({gamma for gammas, *_ in top for gamma in gammas}) > 1
    assert any(candidates for _, candidates, _ in top)


class StubModel:
    """A model of 8 tokens that returns the same row of logits after every token."""

    vocab_size, capacity, length, valid_length, seconds = 8, 99, 0, 0, 0.0
    row = np.arange(8, dtype=np.float32)

    def score(self, tokens):
        return np.tile(self.row, (len(tokens), 1))

    def prefill(self, prompt, assistant_spans=None):
        return prompt[-1]

    def rewind(self, length):
        pass


class NanModel(StubModel):
    """A model whose largest logit is NaN."""

    returns_top_tokens = True

    def top_tokens(self, tokens, candidates=(), *, skip=0, probabilities=False):
        nan = np.full((len(tokens), 1), np.nan, np.float32)
        return TopTokens(np.zeros((len(tokens), 1), np.int64), nan, None)


def test_a_draft_with_more_tokens_than_its_target_is_asked_for_logits():
    """Its arg-max might be a token that the target lacks."""
    draft = ModelDrafter(StubModel(), SamplingProcessor(Sampling()), SharedTokens(6))
    draft.begin([1])
    assert computed(proposed(draft, [1], 2, Seeded(0))).tokens == [5, 5]


def test_a_candidates_probability_is_the_product_of_its_parents_and_its_own():
    asked = []

    def worth_candidate(probability, rows):
        asked.append((probability, rows))
        return len(asked) % 2 == 1  # the second best token, and not the third

    draft = ModelDrafter(
        StubModel(), SamplingProcessor(Sampling()), SharedTokens(8), worth_candidate=worth_candidate
    )
    draft.begin([1])
    proposal = computed(proposed(draft, [1], 3, Seeded(0)))
    first, second, third = np.exp(np.arange(7, 4, -1)) / np.exp(np.arange(8)).sum()
    alternatives = [(parent, other) for parent in range(3) for other in (second, third)]
    expected = [
        (first**parent * other, rows) for rows, (parent, other) in enumerate(alternatives, start=2)
    ]
    np.testing.assert_allclose(asked, expected, rtol=1e-6)
    assert proposal.candidates == [(0, 6), (1, 6), (2, 6)]


def test_a_nan_logit_is_an_error():
    distributions = computed(
        score_of(NanModel(), SamplingProcessor(Sampling()), logits=False)([1], (), ())
    )
    row = distributions[0]
    assert isinstance(row, RefusedRow)  # raised where the text arrives there
    assert "returned nan as its largest logit" in str(row.error)


def test_a_model_without_top_tokens_is_asked_for_logits():
    distributions = computed(
        score_of(StubModel(), SamplingProcessor(Sampling()), logits=False)([2], [1], ())
    )
    assert [distributions[row].tokens.item() for row in (0, 1)] == [7, 7]
    np.testing.assert_array_equal(distributions.logits.argmax(axis=1), [7, 7])
