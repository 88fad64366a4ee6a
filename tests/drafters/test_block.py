"""Claim: a block draft computes the same numbers on the device as in training.

It reads hidden states of its target, as an EAGLE head does (`test_eagle.py`).
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

import edgespec
from depth import one_in
from eagle_checkpoints import PROMPT, SIZE, write_eagle, write_target
from edgespec.core.distribution_options import Sampling
from edgespec.core.draft import proposed
from edgespec.core.randomness import Seeded
from edgespec.core.requests import computed
from edgespec.core.sampling import SamplingProcessor
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.errors import EdgespecError
from edgespec.measure.predict import model_trace
from edgespec_distill.data.draft_vocabulary import full_vocabulary
from edgespec_distill.data.examples import Text
from edgespec_distill.models.causal import Causal
from edgespec_distill.models.reading.block_module import hidden_states
from edgespec_distill.models.reading.eagle_module import feature_layers
from edgespec_export.export_pair import export_pair

BLOCK = 4
TEXT = Text(PROMPT, (5, 9, 80, 3, 100, 17))


@pytest.fixture(scope="module", params=[("llama", 1), ("qwen3", 2)], ids=str)
def case(request, tmp_path_factory):
    """A target, its draft in torch, and the folder of the exported pair."""
    kind, layers = request.param
    folder = tmp_path_factory.mktemp("block")
    target = write_target(folder / "target", kind)
    draft, _ = write_eagle(target, folder / "draft", layers=layers, block=BLOCK)
    export_pair(
        str(target),
        str(folder / "draft"),
        folder / "pair",
        draft_formats=["fp32", "int8"],
        threads=1,
        measure=False,
    )
    return target, draft, folder / "pair"


@torch.no_grad()
def trained(case, text, start):
    """Logits and confidences of the block that follows `start` tokens of the output, in torch: of
    its rows, given the text's own tokens before them."""
    path, draft, _ = case
    causal = Causal(
        AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval(),
        full_vocabulary(SIZE),
    )
    causal.feature_layers = feature_layers(3)
    tokens = [*text.prompt, *text.output]
    anchor = len(text.prompt) - 1 + start
    (features,) = causal.features([text])
    ids = torch.tensor([tokens[:-1]])
    first, later = hidden_states(draft, ids, features[None], torch.tensor([anchor]))
    rows = torch.cat([first[0, anchor, None], later[0, 0]])
    before = torch.tensor(tokens[anchor + 1 : anchor + BLOCK])
    logits = draft.lm_head(rows)
    logits[1:] += draft.markov.before(before) @ draft.markov.next.weight.T
    return logits.numpy(), draft.confidence(rows[1:]).sigmoid()[:, 0].numpy()


def block_of(pair, text, start):
    """The same on the device: the target has scored `start` tokens of the output's context."""
    tokens = [pair.target.prefill(text.prompt), *text.output]
    pair.draft.prefill(text.prompt)
    if start:
        pair.target.score(tokens[:start])
    logits = [pair.draft.score(tokens[: start + 1])[-1].copy()]
    confidences = []
    for token in tokens[start + 1 : start + BLOCK]:
        confidences.append(pair.draft.confidence_after(token))
        logits.append(pair.draft.score([token])[0].copy())
    return np.array(logits), np.array(confidences)


@pytest.mark.parametrize("start", [0, 2])
def test_the_rows_of_a_block_are_those_of_training(case, start):
    pair = edgespec.load(case[2], threads=1, draft_format="fp32")
    for ours, expected in zip(block_of(pair, TEXT, start), trained(case, TEXT, start), strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-5, rtol=1e-5)
    assert pair.draft.valid_length == len(PROMPT) + start
    assert pair.draft.confidence_after(0) == 0  # the block ends


def test_int8_rows_are_close_to_those_of_training(case):
    pair = edgespec.load(case[2], threads=1, draft_format="int8")
    ours, confidences = block_of(pair, TEXT, 2)
    expected, expected_confidences = trained(case, TEXT, 2)
    for row, other in zip(ours, expected, strict=True):
        assert np.corrcoef(row, other)[0, 1] > 0.99
    np.testing.assert_allclose(confidences, expected_confidences, atol=0.1)


def test_each_q_is_that_of_its_token_after_the_token_before(case):
    """q is known when its token is drawn, and each round reads the target's features anew."""
    pair = edgespec.load(case[2], threads=1, draft_format="fp32")
    process = SamplingProcessor(Sampling(1.0))
    draft = ModelDrafter(pair.draft, process, pair.vocabulary)
    text = [pair.target.prefill(PROMPT)]
    draft.begin(PROMPT)
    for seed in range(3):
        proposal = computed(proposed(draft, text, BLOCK + 3, Seeded(seed)))
        assert len(proposal.tokens) == BLOCK
        told = Text(PROMPT, (*text[1:], *proposal.tokens))
        expected, _ = trained(case, told, len(text) - 1)
        for q, row in zip(proposal.q, expected, strict=True):
            np.testing.assert_allclose(q.probabilities, process(row).probabilities, atol=1e-5)
        pair.target.score([text[-1], *proposal.tokens[:1]])
        text += [proposal.tokens[0], 90 + seed]


@one_in(2)
@pytest.mark.parametrize(
    "options", [{}, {"temperature": 1.0, "seed": 3}], ids=["greedy", "coupled"]
)
@pytest.mark.parametrize("gamma", [1, BLOCK, BLOCK + 3, "auto"])
def test_texts_are_the_targets(case, gamma, options):
    for draft_format in ("fp32", "int8"):
        pair = edgespec.load(case[2], threads=1, draft_format=draft_format)
        plain = pair.generate(PROMPT, max_new_tokens=40, draft=False, **options)
        drafted = pair.generate(PROMPT, max_new_tokens=40, draft="model", gamma=gamma, **options)
        assert drafted.token_ids == plain.token_ids
        assert drafted.stats.drafted > 0 or gamma == "auto"


def test_a_full_cache_leaves_no_room_ahead(case):
    pair = edgespec.load(case[2], threads=1, capacity=len(PROMPT) + 9)
    plain = pair.generate(PROMPT, draft=False, ignore_eos=True)
    drafted = pair.generate(PROMPT, draft="model", gamma=BLOCK, ignore_eos=True)
    assert drafted.finish_reason == "capacity"
    assert drafted.token_ids == plain.token_ids


def test_a_trace_has_as_many_tokens_as_a_block(case):
    pair = edgespec.load(case[2], threads=1)
    process = SamplingProcessor(Sampling(1.0))
    trace = model_trace(
        pair.target, pair.draft, pair.vocabulary, PROMPT, TEXT.output, process, BLOCK + 3
    )
    assert [len(found) for found in trace.probabilities] == [4, 4, 4, 3, 2, 1]


def test_a_token_beyond_the_block_is_refused(case):
    pair = edgespec.load(case[2], threads=1)
    block_of(pair, TEXT, 0)
    with pytest.raises(EdgespecError, match="one at a time, at most 3"):
        pair.draft.score([4])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"block_size": None}, "has no 'block_size'"),
        ({"block_size": 1}, "block_size is 1"),
        ({"block_size": 18}, "block_size is 18"),
        ({"block_size": 3}, "config.json belongs to another model"),
    ],
)
def test_an_impossible_config_is_one_line(tmp_path, changes, words):
    target = write_target(tmp_path / "target", "llama")
    write_eagle(target, tmp_path / "draft", block=BLOCK)
    file = Path(tmp_path / "draft" / "config.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with pytest.raises(EdgespecError, match=words) as error:
        export_pair(str(target), str(tmp_path / "draft"), tmp_path / "pair")
    assert "\n" not in str(error.value)
