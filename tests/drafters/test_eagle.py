"""Claim: an EAGLE head computes the same numbers on the device as in training.

It reads hidden states of its target through feature fusion.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_t5
from depth import one_in
from eagle_checkpoints import GUESSES, PROMPT, SIZE, write_eagle, write_target
from edgespec.artifact.manifest import read_manifest, write_manifest
from edgespec.core.decode import decoded, speculate
from edgespec.core.distribution_options import Sampling
from edgespec.core.draft import proposed
from edgespec.core.randomness import Seeded
from edgespec.core.requests import computed
from edgespec.core.sampling import SamplingProcessor
from edgespec.core.verification import RULES
from edgespec.costs.controller import controller
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.errors import EdgespecError
from edgespec.measure.predict import agreement, model_trace
from edgespec_distill.data.draft_vocabulary import full_vocabulary
from edgespec_distill.data.examples import Text
from edgespec_distill.data.features import Features
from edgespec_distill.data.text_generation import GenerationSettings, generate_texts
from edgespec_distill.models.causal import Causal
from edgespec_distill.models.reading.eagle_module import Eagle, embedded, feature_layers, fused
from edgespec_distill.models.reading.eagle_student import EagleStudent
from edgespec_distill.models.rms_norm import rms_norm
from edgespec_distill.models.untrained_draft import last_layers, untrained_draft
from edgespec_export.export_pair import export_pair
from edgespec_runtimes.ort import prefill
from tables import as_distribution


@pytest.fixture(scope="module", params=[("llama", 1), ("qwen2", 1), ("qwen3", 2)], ids=str)
def case(request, tmp_path_factory) -> tuple[Path, int]:
    kind, layers = request.param
    return write_target(tmp_path_factory.mktemp("target") / kind, kind), layers


@pytest.fixture(scope="module")
def causal(case) -> Causal:
    model = AutoModelForCausalLM.from_pretrained(case[0], dtype=torch.float32).eval()
    causal = Causal(model, full_vocabulary(SIZE))
    causal.feature_layers = feature_layers(3)
    return causal


@pytest.fixture
def target(tmp_path) -> Path:
    return write_target(tmp_path / "target", "llama")


@pytest.fixture(scope="module")
def reading(case, tmp_path_factory):
    target, layers = case
    folder = tmp_path_factory.mktemp("eagle")
    learner = write_eagle(target, folder / "draft", layers=layers)
    export_pair(
        str(target),
        str(folder / "draft"),
        folder / "pair",
        target_formats=("fp32", "int8"),
        draft_formats=("fp32", "int8"),
    )
    return learner, folder / "pair"


def guesses(reading, causal: Causal, text: Text, count: int = GUESSES) -> list[np.ndarray]:
    """Logits of the first, second, … drafted token, as training computes them."""
    learner = EagleStudent(*reading[0], Features(causal, 0))
    hidden = islice(learner.hidden_states([text]), count)
    return [(states @ learner.head.T).detach().numpy() for states in hidden]


def starting(causal: Causal, width: int | None) -> tuple[EagleStudent, list[Text]]:
    """An untrained head and texts to start from."""
    prompts = [[40 + n, 41, 42, 50 + n, 60] for n in range(40)]
    texts = generate_texts(causal, prompts, GenerationSettings(20, [1], 1.0))
    shape = {"layers": 1, "encoder_layers": 1, "width": width, "vocabulary": full_vocabulary(SIZE)}
    body = untrained_draft(causal.model, **shape, seed=0, keep=last_layers)
    eagle = Eagle(body, causal.feature_layers, causal.model.config.hidden_size)
    return EagleStudent(eagle, full_vocabulary(SIZE), Features(causal, 0)), texts


@torch.no_grad()
def error(draft: EagleStudent, texts: list[Text]) -> float:
    """Mean squared error of the best linear prediction of the next state."""
    join, errors = draft.model.join, []
    for text in texts:
        ids = torch.tensor([*text.prompt, *text.output[:-1]])
        state = rms_norm(join.state_norm, fused(draft.model, draft._features.of([text])[0]))
        token = rms_norm(join.token_norm, embedded(draft.model, ids))
        errors.append((join.token(token[1:]) + join.state(state[:-1]) - state[1:]).square())
    return torch.cat(errors).mean().item()


def test_the_targets_features_are_the_hidden_states_of_transformers(causal, reading):
    text = Text(PROMPT, (5, 9, 80, 3))
    pair = edgespec.load(reading[1], threads=1)
    pair.target.score([pair.target.prefill(PROMPT), *text.output[:-1]])
    ids = torch.tensor([[*PROMPT, *text.output[:-1]]])
    with torch.no_grad():
        states = causal.model(ids, output_hidden_states=True).hidden_states
    (ours,) = causal.features([text])
    torch.testing.assert_close(ours[:, :64], states[2][0], atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(pair.target.features[: len(ours)], ours, atol=2e-5, rtol=1e-4)


@one_in(2)
@pytest.mark.parametrize("width", [None, 32])
def test_an_untrained_head_predicts_the_next_state_by_least_squares(causal, width):
    draft, texts = starting(causal, width)
    before = error(draft, texts)
    draft.initialise(texts, causal.model)
    least = error(draft, texts)
    assert least < 0.8 * before
    generator = torch.Generator().manual_seed(0)
    for part in (draft.model.join.token, draft.model.join.state):
        best = part.weight.detach().clone()
        for _ in range(5):
            part.weight.data = best + 0.01 * torch.randn(best.shape, generator=generator)
            assert error(draft, texts) > least
        part.weight.data = best


def test_layers_start_as_copies_of_the_targets_last_ones(causal):
    draft, texts = starting(causal, None)
    draft.initialise(texts, causal.model)
    streams = torch.cat([causal.features([text])[0][:, -64:] for text in texts])
    size = streams.square().mean(1).sqrt().median()
    theirs = causal.model.model.layers[-1].state_dict()
    for name, weight in draft.model.model.layers[0].state_dict().items():
        adds = name.endswith(("o_proj.weight", "down_proj.weight"))
        torch.testing.assert_close(weight, theirs[name] / size if adds else theirs[name])


def test_features_of_an_int8_target_are_in_the_checkpoints_basis(causal, reading):
    pair = edgespec.load(reading[1], threads=1, target_format="int8")
    pair.target.score([pair.target.prefill(PROMPT)])
    (exact,) = causal.features([Text(PROMPT, (5,))])
    ours = pair.target.features[: len(exact)]
    cosine = (
        (ours * exact.numpy()).sum(1) / np.linalg.norm(ours, axis=1) / exact.norm(dim=1).numpy()
    )
    assert cosine.min() > 0.98


def test_first_drafted_tokens_on_the_device_are_those_of_training(causal, reading):
    folder = reading[1]
    text = Text(PROMPT, (5, 9, 80, 3))
    pair = edgespec.load(folder, threads=1)
    pair.target.score([pair.target.prefill(PROMPT), *text.output[:-1]])
    ours = pair.draft.score([pair.draft.prefill(PROMPT), *text.output[:-1]])
    (expected,) = guesses(reading, causal, text, 1)
    np.testing.assert_allclose(ours, expected, atol=1e-4, rtol=1e-4)
    assert pair.draft.valid_length == pair.draft.length


def test_later_drafted_tokens_on_the_device_are_those_of_training(causal, reading):
    """At every position: one token from the target's states, then from the head's own states."""
    text = Text(PROMPT, (5, 9, 80, 3, 100, 17))
    pair = edgespec.load(reading[1], threads=1)
    expected = guesses(reading, causal, text)
    assert [len(rows) for rows in expected] == [6, 5, 4]
    pending = pair.target.prefill(PROMPT)
    pair.draft.prefill(PROMPT)
    for start in range(len(text.output) - GUESSES + 1):
        row = [pending, *text.output][start : start + GUESSES]
        for depth, token in enumerate(row):
            (ours,) = pair.draft.score([token])
            np.testing.assert_allclose(ours, expected[depth][start], atol=1e-4, rtol=1e-4)
        assert pair.draft.valid_length == len(PROMPT) + start
        pair.draft.rewind(pair.draft.valid_length)
        pair.target.score([row[0]])


def test_each_round_drafts_from_the_targets_features_of_the_round_before(causal, reading):
    """Accepted tokens are scored again: the head's own states do not stay in its cache."""
    pair = edgespec.load(reading[1], threads=1)
    draft = ModelDrafter(pair.draft, SamplingProcessor(Sampling(1.0)), pair.vocabulary)
    text = [pair.target.prefill(PROMPT)]
    draft.begin(PROMPT)
    for seed in range(4):
        proposal = computed(proposed(draft, text, 2, Seeded(seed)))
        pair.target.score([text[-1]])
        # As if the first token had been accepted and the second replaced.
        told = Text(PROMPT, (*text[1:], *proposal.tokens))
        first, second = guesses(reading, causal, told, 2)
        start = len(text) - 1
        for distribution, row in zip(proposal.q, (first[start], second[start]), strict=True):
            expected = SamplingProcessor(Sampling(1.0))(row).probabilities
            np.testing.assert_allclose(distribution.probabilities, expected, atol=1e-5)
        pair.target.score(proposal.tokens[:1])
        text += [proposal.tokens[0], 90 + seed]


def test_a_position_without_a_state_before_it_is_refused(reading):
    pair = edgespec.load(reading[1], threads=1)
    pair.target.prefill(PROMPT)
    pair.draft.prefill(PROMPT)
    pair.draft.score([3])
    with pytest.raises(EdgespecError, match="score later ones one at a time"):
        pair.draft.score([4, 5])
    pair.draft.score([4])
    pair.draft.score([5])
    pair.draft.rewind(pair.draft.length - 1)
    with pytest.raises(EdgespecError, match="score later ones one at a time"):
        pair.draft.score([6])  # its state was that after the token that was dropped


def test_greedy_texts_are_the_targets(reading):
    pair = edgespec.load(reading[1], threads=1)
    plain = pair.generate(PROMPT, max_new_tokens=40, draft=False)
    drafted = pair.generate(PROMPT, max_new_tokens=40, draft="model", gamma=3)
    assert drafted.stats.drafted > 0
    assert drafted.token_ids == plain.token_ids


def test_a_long_prompt_is_read_in_pieces(reading, monkeypatch):
    pair = edgespec.load(reading[1], threads=1)
    options = {"max_new_tokens": 12, "draft": "model", "gamma": 3}
    whole = pair.generate(PROMPT, **options).stats
    monkeypatch.setattr(prefill, "MAX_PREFILL_ROWS", 3)
    assert pair.generate(PROMPT, **options).stats.evaluated_at == whole.evaluated_at


@one_in(2)
@pytest.mark.parametrize("piece", [512, 5])
def test_reusing_a_conversations_cache_changes_no_draft(reading, monkeypatch, piece):
    """With caches that are reused or emptied before each turn, a seed gives the same rounds."""
    monkeypatch.setattr(prefill, "MAX_PREFILL_ROWS", piece)
    pair = edgespec.load(reading[1], threads=1)
    process = SamplingProcessor(Sampling(1.0))

    def turns(keeps: bool):
        text, answers, rounds = list(PROMPT), [], []
        for seed in range(3):
            if not keeps:
                pair.target.rewind(0)
                pair.draft.rewind(0)
            begins = len(text) - 1
            for round_ in decoded(
                speculate(
                    pair.target,
                    ModelDrafter(pair.draft, process, pair.vocabulary, assistant_spans=answers),
                    text,
                    assistant_spans=answers,
                    process=process,
                    rule=RULES["token"],
                    gamma=controller(3, pair.costs["model"]),
                    randomness=Seeded(seed),
                    max_new_tokens=12,
                    ends=lambda _: False,
                )
            ):
                text = [*text, *round_.tokens]
                rounds.append((list(round_.tokens), round_.evaluated, round_.accepted))
            answers = [*answers, range(begins, len(text) - 1)]
            text = [*text, 50, 51, 52, 53 + seed]
        return rounds

    assert turns(keeps=True) == turns(keeps=False)


def test_a_token_that_the_draft_lacks_keeps_its_own_features(target, tmp_path):
    """The draft maps both to one token, but the target's features after them differ."""
    write_eagle(target, tmp_path / "draft", tokens=60)
    export_pair(str(target), str(tmp_path / "draft"), tmp_path / "pair", measure=False)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    shown = pair.vocabulary.to_draft_ids(range(SIZE))
    one = next(token for token in range(SIZE) if shown.count(shown[token]) > 1)
    other = shown.index(shown[one], one + 1)

    def logits(first: int) -> np.ndarray:
        prompt = [first, *PROMPT]
        pair.target.prefill(prompt, [])
        pair.target.score([prompt[-1]])
        return pair.draft.score(
            [pair.draft.prefill(pair.vocabulary.to_draft_ids(prompt), [])]
        ).copy()

    fresh = logits(other)
    pair.draft.rewind(0)
    logits(one)
    assert np.array_equal(logits(other), fresh)


def test_a_prompt_of_one_token_has_no_features_yet(reading):
    pair = edgespec.load(reading[1], threads=1)
    plain = pair.generate([40], max_new_tokens=12, draft=False)
    assert (
        pair.generate([40], max_new_tokens=12, draft="model", gamma=2).token_ids == plain.token_ids
    )


def test_a_trace_separates_later_drafted_tokens_from_first_ones(causal, reading):
    """Predictions need what the head drafts without the target's features."""
    text = Text(PROMPT, (5, 9, 80, 3, 100, 17))
    pair = edgespec.load(reading[1], threads=1)
    qs = [torch.tensor(rows).softmax(-1) for rows in guesses(reading, causal, text)]
    p = causal.logits([text]).softmax(-1)
    trace = model_trace(
        pair.target,
        pair.draft,
        pair.vocabulary,
        PROMPT,
        text.output,
        SamplingProcessor(Sampling(1.0)),
        3,
    )
    for start, probabilities in enumerate(trace.probabilities):
        assert len(probabilities) == min(3, 6 - start)
        for depth, probability in enumerate(probabilities):
            rows = p[start + depth], qs[depth][start]
            both = (as_distribution(row.detach().numpy()) for row in rows)
            assert probability == pytest.approx(agreement(*both), abs=1e-4)


def test_an_eagle_head_cannot_be_a_target(target, tmp_path):
    write_eagle(target, tmp_path / "draft")
    message = r"reads its target's hidden states .*, so it cannot be"
    with pytest.raises(EdgespecError, match=message):
        export_pair(str(tmp_path / "draft"), None, tmp_path / "pair")


def test_an_eagle_head_belongs_to_its_target(target, tmp_path):
    write_eagle(target, tmp_path / "draft")
    tokenizer = byte_tokenizer(SIZE)
    for name, shape in (("shallow", {"layers": 2}), ("narrow", {"layers": 3, "heads": 2})):
        other = write_llama(
            tmp_path / name, vocab_size=SIZE, tokenizer=tokenizer, head_size=16, **shape
        )
        with pytest.raises(
            EdgespecError, match=r"reads layers 2, 3 of .* pair it with the target it"
        ):
            export_pair(str(other), str(tmp_path / "draft"), tmp_path / "pair")
    t5 = write_t5(tmp_path / "t5", vocab_size=SIZE, tokenizer=tokenizer)
    with pytest.raises(EdgespecError, match="cannot be paired"):
        export_pair(str(t5), str(tmp_path / "draft"), tmp_path / "pair")


@one_in(3)
@pytest.mark.parametrize(
    ("role", "features", "words"),
    [
        ("target", 0, r"decoder.onnx returns 128 features .* manifest says 0; export the pair"),
        ("target", -1, r"edgespec.json is damaged \(features is -1\)"),
        ("draft", 64, r"the draft takes 64 features .* returns 128; export the two together"),
    ],
)
def test_a_manifest_of_two_exports_is_one_line(reading, tmp_path, role, features, words):
    folder = tmp_path / "pair"
    shutil.copytree(reading[1], folder)
    pair = read_manifest(folder)
    model = dataclasses.replace(getattr(pair, role), features=features)
    write_manifest(dataclasses.replace(pair, **{role: model}), folder)
    with pytest.raises(EdgespecError, match=words):
        edgespec.load(folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"target_layers": []}, "target_layers names none"),
        ({"target_layers": None}, "has no 'target_layers'"),
        ({"layers_of": "gemma"}, "layers_of = 'gemma'"),
        ({"target_hidden_size": "wide"}, "wrong kind"),
    ],
)
def test_an_impossible_config_is_one_line(target, tmp_path, changes, words):
    write_eagle(target, tmp_path / "draft")
    file = tmp_path / "draft" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with pytest.raises(EdgespecError, match=words) as error:
        export_pair(str(target), str(tmp_path / "draft"), tmp_path / "pair")
    assert "\n" not in str(error.value)


def test_the_jax_path_refuses_an_eagle_head(target, tmp_path):
    jax_weights = pytest.importorskip("edgespec_jax.jax_weights")
    adapter = pytest.importorskip("edgespec_jax.jax_checkpoint")
    write_eagle(target, tmp_path / "draft")
    with pytest.raises(EdgespecError, match="model_type is 'eagle'; the JAX path has llama"):
        jax_weights.load_jax_model(adapter.open_jax_checkpoint(str(tmp_path / "draft")))
