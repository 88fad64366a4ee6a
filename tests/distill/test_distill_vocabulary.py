"""Claim: a draft with a smaller vocabulary makes an exact pair with its target."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

import edgespec
from depth import one_in
from distillation import PLAN, TEXTS, VOCABULARY, causal
from edgespec.errors import EdgespecError
from edgespec_distill.data.draft_vocabulary import (
    DraftVocabulary,
    frequent_vocabulary,
)
from edgespec_distill.data.text_generation import (
    add_distributions,
)
from edgespec_distill.distill_draft import distill
from edgespec_distill.models.causal import Causal
from edgespec_export.export_pair import export_pair


def test_the_vocabulary_has_the_frequent_tokens_and_maps_others_to_the_nearest():
    embeddings = torch.eye(6)
    embeddings[5] = embeddings[2] * 3 + 0.1  # in the direction of token 2
    found = frequent_vocabulary([[2, 2, 2, 4, 4, 5, 0]], always=[1], size=3, embeddings=embeddings)
    assert found.outputs.tolist() == [1, 2, 4]
    assert found.inputs[[1, 2, 4]].tolist() == [0, 1, 2]
    assert found.inputs[5] == 1
    assert found.known(torch.arange(6)).tolist() == [False, True, True, False, True, False]


def test_distributions_are_restricted_to_the_drafts_tokens(llama_folder):
    target = causal(llama_folder)
    (example,) = add_distributions(target, [TEXTS[0]])
    outputs = example.tokens[0, [3, 0, 9]].long().sort().values
    some = DraftVocabulary(outputs, torch.zeros(VOCABULARY, dtype=torch.long))
    some.inputs[some.outputs] = torch.arange(3)
    p_logs, tokens = Causal(target.model, some)._targets([example], 0)
    for token, log, own, left in zip(
        example.tokens[0],
        example.log_probs[0],
        tokens[0],
        p_logs[0],
        strict=True,
    ):
        if int(token) in some.outputs.tolist():
            assert (int(some.outputs[own]), left) == (int(token), log)
        else:
            assert left == -torch.inf


@one_in(2)
@pytest.mark.parametrize("kind", ["t5", "llama"])
def test_a_draft_with_a_smaller_vocabulary_makes_an_exact_pair(
    kind, t5_folder, llama_folder, prompts, tmp_path
):
    target = t5_folder if kind == "t5" else llama_folder
    plan = dataclasses.replace(PLAN, vocabulary=90)
    distill(str(target), prompts, tmp_path / "draft", plan)
    formats = ["fp32", "int8"]
    draft = str(tmp_path / "draft")
    export_pair(str(target), draft, tmp_path / "pair", draft_formats=formats, threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    assert pair.draft is not None
    assert pair.draft.vocab_size == 90
    assert pair.manifest.draft.variants["int8"].distance.kl < 0.1
    accepted = 0
    for prompt in ("green stone", "under seven", "Zürich 4711"):
        drafted = pair.generate(prompt, gamma=3, draft="model", max_new_tokens=20)
        plain = pair.generate(prompt, draft=False, max_new_tokens=20)
        assert drafted.token_ids == plain.token_ids
        accepted += drafted.stats.accepted
        pair.generate(prompt, gamma=3, draft="model", temperature=1.0, seed=1, max_new_tokens=20)
    assert accepted > 0


def test_a_draft_with_a_smaller_vocabulary_needs_its_own_target(llama_folder, prompts, tmp_path):
    draft = tmp_path / "draft"
    plan = dataclasses.replace(PLAN, vocabulary=90, steps=2)
    distill(str(llama_folder), prompts, draft, plan)
    with pytest.raises(EdgespecError, match="cannot be a target"):
        export_pair(str(draft), None, tmp_path / "pair")
    file = draft / "draft_vocabulary.json"
    maps = json.loads(file.read_text())
    file.write_text(json.dumps({**maps, "inputs": [*maps["inputs"], 0]}))
    with pytest.raises(EdgespecError, match="pair the draft with its own target"):
        export_pair(str(llama_folder), str(draft), tmp_path / "pair")
