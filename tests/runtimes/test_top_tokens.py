"""Claim: greedy calls whose tokens come from the graph give the text that logits give.

With kernels, an int8 target returns the arg-max and no logits, whether its head is its embedding or
its own. Its text is compared with the one that is chosen from logits, token by token, with and
without a draft.
"""

from __future__ import annotations

import shutil

import numpy as np
import onnx
import pytest

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_noisy, write_t5
from edgespec.artifact.graph_io import DECODER, MAX_ROWS, TOP_K, TOP_LOGITS, TOP_TOKENS
from edgespec.artifact.manifest import read_manifest
from edgespec.core.cost_model import Costs
from edgespec.core.device import Device
from edgespec.core.kernels import SWITCH, installed_kernels
from edgespec.core.model import TopTokens
from edgespec.core.randomness import Seeded
from edgespec.core.sampling import Sampling
from edgespec.core.scoring import score_of
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.drafters.vocabulary_map import SharedTokens
from edgespec.errors import EdgespecError
from edgespec.pair.runtime import open_model
from edgespec_export.api import export_pair
from edgespec_runtimes.ort.ort_model import OrtModel

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
    folder = tmp_path_factory.mktemp("choice")
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


@needs_kernels
@pytest.mark.parametrize("draft", [False, "model", "lookup"])
def test_a_greedy_text_is_the_one_that_logits_give(pair, calls, monkeypatch, draft):
    top = [pair.generate(p, draft=draft, max_new_tokens=40).token_ids for p in PROMPTS]
    assert calls["top_tokens"]
    assert not calls["score"]
    monkeypatch.setattr(pair.target, "returns_top_tokens", False)
    by_logits = [pair.generate(p, draft=draft, max_new_tokens=40).token_ids for p in PROMPTS]
    assert calls["score"]
    assert top == by_logits


@needs_kernels
@pytest.mark.parametrize("wish", [{"logprobs": True}, {"temperature": 1.0, "seed": 3}])
def test_who_needs_logits_gets_them(pair, calls, wish):
    pair.generate(PROMPTS[0], max_new_tokens=8, **wish)
    assert calls["score"]
    assert not calls["top_tokens"]


def test_tokens_and_logits_of_the_graph_agree_without_kernels(folder, monkeypatch):
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


def test_positions_that_pad_a_call_are_not_chosen_from(folder):
    model = opened(folder, min_rows=4)
    token = model.prefill(PROMPTS[1])
    top = model.top_tokens([token], probabilities=True)
    assert top.tokens.shape == top.logits.shape == top.probabilities.shape == (1, TOP_K)
    model.rewind(model.length - 1)
    assert top.tokens[0, 0] == model.score([token])[0].argmax()


def test_of_many_tokens_only_the_last_may_be_asked_about(folder):
    """As a draft does after a long run of looked-up tokens; such calls are not cached."""
    model = opened(folder)
    tokens = [model.prefill(PROMPTS[1]), *range(40, 80)]
    all_of_them = model.top_tokens(tokens)
    expected = all_of_them.tokens[-1, 0], all_of_them.logits[-1, 0]
    model.rewind(model.length - len(tokens))
    last = model.top_tokens(tokens, skip=len(tokens) - 1, probabilities=True)
    assert (last.tokens[0, 0], last.logits[0, 0]) == expected
    assert 0 < last.probabilities[0, 0] <= 1
    assert not model._calls


def test_a_full_cache_says_so(folder):
    model = opened(folder, capacity=4)
    model.prefill(PROMPTS[0][:2])
    with pytest.raises(EdgespecError, match=r"asked to score 9 positions with room for [34] of 4"):
        model.top_tokens([1] * 9)


def gammas_of(pair, prompt):
    """How many tokens each round drafted, how many candidates it had in all, and the text."""
    result = pair.generate(prompt, draft="model", gamma="auto", max_new_tokens=40)
    stats = result.stats
    return [round_.drafted for round_ in stats.rounds], stats.candidates, result.token_ids


@needs_kernels
def test_a_draft_is_as_sure_of_its_tokens_as_its_logits_say(pair, monkeypatch):
    """A surer draft goes on: rounds are as long, and tokens the same, either way."""
    assert pair.draft.returns_top_tokens
    cheap = Costs([1 + 0.01 * gamma for gamma in range(MAX_ROWS)], draft=0.02)
    monkeypatch.setattr(pair, "costs", cheap.of_kinds())
    top = [gammas_of(pair, prompt) for prompt in PROMPTS]
    monkeypatch.setattr(pair.draft, "returns_top_tokens", False)
    assert [gammas_of(pair, prompt) for prompt in PROMPTS] == top
    assert len({gamma for gammas, *_ in top for gamma in gammas}) > 1
    assert any(candidates for _, candidates, _ in top)


def as_once_exported(graph):
    """A head of before, which had one token for each row, and is no operator that kernels know."""
    model = onnx.load(graph, load_external_data=False)
    for named in (*model.functions, *model.graph.node):
        attribute = "name" if isinstance(named, onnx.FunctionProto) else "op_type"
        if getattr(named, attribute) == "Int8Head":
            setattr(named, attribute, "Int8HeadOfBefore")
    for output in model.graph.output:
        if output.name in (TOP_TOKENS, TOP_LOGITS):
            (head,) = (node for node in model.graph.node if output.name in node.output)
            head.output[list(head.output).index(output.name)] = f"{output.name}_rows"
            squeezed = onnx.helper.make_node("Squeeze", [f"{output.name}_rows"], [output.name])
            model.graph.node.append(squeezed)
            del output.type.tensor_type.shape.dim[1]
    onnx.save(model, graph)


@needs_kernels
def test_a_graph_of_an_older_export_is_read_by_its_logits(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "pair")
    model = read_manifest(folder).target
    as_once_exported(tmp_path / "pair" / model.variants["int8"].graphs[DECODER])
    old, new = (OrtModel(f, model, "int8", device=Device(1)) for f in (tmp_path / "pair", folder))
    assert new.returns_top_tokens
    assert not old.returns_top_tokens
    tokens = [new.prefill(PROMPTS[0]), *PROMPTS[2][:6]]
    old.prefill(PROMPTS[0])
    top = new.top_tokens(tokens).tokens[:, 0]
    np.testing.assert_array_equal(old.score(tokens).argmax(axis=1), top)


class AllTokens:
    """A draft model that has its say on any token."""

    vocab_size, capacity, length, valid_length, seconds, returns_top_tokens = 8, 99, 0, 0, 0.0, True

    def score(self, tokens):
        return np.tile(np.arange(8, dtype=np.float32), (len(tokens), 1))

    def prefill(self, prompt, answers=None):
        return prompt[-1]

    def rewind(self, length):
        pass


def test_a_draft_with_more_tokens_than_its_target_is_asked_for_logits():
    """Its arg-max might be none of the target's."""
    draft = ModelDrafter(AllTokens(), Sampling().processor(), SharedTokens(6))
    draft.begin([1])
    assert draft.propose([1], 2, Seeded(0)).tokens == [5, 5]


def test_a_candidates_probability_is_that_of_the_line_before_it_and_its_own():
    asked = []

    def worth_candidate(probability, rows):
        asked.append((probability, rows))
        return len(asked) % 2 == 0

    draft = ModelDrafter(
        AllTokens(), Sampling().processor(), SharedTokens(8), worth_candidate=worth_candidate
    )
    draft.begin([1])
    proposal = draft.propose([1], 3, Seeded(0))
    first, second, third = np.exp(np.arange(7, 4, -1)) / np.exp(np.arange(8)).sum()
    places = [(place, other) for place in range(3) for other in (second, third)]
    expected = [(first**place * other, 2 + 2 * place) for place, other in places]
    np.testing.assert_allclose(asked, expected, rtol=1e-6)
    assert proposal.candidates == [(0, 5), (1, 5), (2, 5)]


class Broken:
    """A model whose largest logit is no number."""

    returns_top_tokens = True

    def top_tokens(self, tokens, candidates=(), *, skip=0, probabilities=False):
        nothing = np.full((len(tokens), 1), np.nan, np.float32)
        return TopTokens(np.zeros((len(tokens), 1), np.int64), nothing, None)


def test_a_logit_that_is_no_number_is_an_error_and_no_token():
    distributions = score_of(Broken(), Sampling().processor(), logits=False)([1], ())
    with pytest.raises(EdgespecError, match="returned nan as its largest logit"):
        distributions[0]


class Deaf:
    """A model without another way than its logits."""

    def score(self, tokens):
        return np.eye(4, dtype=np.float32)[list(tokens)]


def test_a_model_that_cannot_choose_is_asked_for_logits():
    distributions = score_of(Deaf(), Sampling().processor(), logits=False)([2, 1], ())
    assert [distributions[row].tokens.item() for row in (0, 1)] == [2, 1]
    np.testing.assert_array_equal(distributions.logits.argmax(axis=1), [2, 1])
