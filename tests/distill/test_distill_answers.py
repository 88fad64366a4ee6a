"""Claim: a draft learns what its target says in answers that the target reads and did not write."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil

import pytest
import torch

import edgespec
from distillation import PLAN, TEXTS, causal, interrupted
from edgespec_distill.data import target_outputs
from edgespec_distill.data.draft_vocabulary import DraftVocabulary
from edgespec_distill.data.training_answers import read_answers
from edgespec_distill.distill_draft import distill
from edgespec_distill.models.target_head import TargetHead
from edgespec_distill.work_folder import recipe_of
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import resolve
from edgespec_export.families import family_of

EAGLE = dataclasses.replace(PLAN, eagle=True, width=None, vocabulary=200)
WORDS = ["river", "stone", "light", "house", "green", "seven", "maybe", "under"]


@pytest.fixture
def answers(tmp_path):
    rng = random.Random(1)
    lines = [
        json.dumps({"prompt": " ".join(rng.choices(WORDS, k=2)), "answer": " ".join(WORDS[n:])})
        for n in range(4)
    ]
    file = tmp_path / "answers.jsonl"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def texts_of(file, folder, chat=None):
    checkpoint = open_checkpoint(resolve(str(folder)))
    return read_answers(file, checkpoint, family_of(checkpoint.config, checkpoint.label), chat)


@pytest.mark.parametrize("cap", [None, 2.0])
def test_distributions_are_the_targets_over_the_drafts_tokens(llama_folder, cap):
    target = causal(llama_folder)
    target.feature_layers = (1, 3)
    vocabulary = DraftVocabulary(torch.arange(3, 150), (torch.arange(272) - 3).clamp(0, 146))
    head = TargetHead(target.model, vocabulary, cap)
    logits = torch.split(target.logits(TEXTS), [len(text.output) for text in TEXTS])
    pairs = zip(TEXTS, target.features(TEXTS), logits, strict=True)
    for text, features, rows in pairs:
        found = head.example(text, features)
        capped = rows if cap is None else cap * (rows / cap).tanh()
        wanted = capped[:, vocabulary.outputs].log_softmax(-1)
        own = found.tokens.long() - 3  # in the draft's ids
        assert found.tokens.shape == (len(text.output), 64)
        torch.testing.assert_close(
            found.log_probs[:, 0].float(), wanted.max(1).values, rtol=0, atol=0.01
        )
        torch.testing.assert_close(
            found.log_probs.float(), wanted.gather(1, own), rtol=0, atol=0.01
        )


def test_a_draft_learns_from_them(llama_folder, prompts, answers, tmp_path, caplog):
    plan = dataclasses.replace(EAGLE, steps=30)
    with caplog.at_level("INFO", "edgespec"):
        found = distill(str(llama_folder), prompts, tmp_path / "draft", plan, answers=answers)
    lengths = [len(answer) for _, answer in texts_of(answers, llama_folder)]
    assert found.read_tokens == sum(lengths)
    assert "the target read block 1 of 1" in caplog.text
    card = " ".join((tmp_path / "draft/README.md").read_text("utf-8").split())
    assert f"{sum(lengths)} tokens of answers that it read" in card
    alone = distill(str(llama_folder), prompts, tmp_path / "alone", plan)
    assert alone.read_tokens == 0
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("draft", "alone")]
    assert weights[0] != weights[1]


def test_an_interrupted_run_reads_the_rest_only(
    llama_folder, prompts, answers, tmp_path, monkeypatch
):
    monkeypatch.setattr(target_outputs, "BLOCK", 2)
    plan = dataclasses.replace(EAGLE, steps=5)
    whole = distill(str(llama_folder), prompts, tmp_path / "whole", plan, answers=answers)
    example, read = TargetHead.example, []

    def counted(head, text, features):
        read.append(text)
        return example(head, text, features) if len(read) < 4 else interrupted()

    monkeypatch.setattr(TargetHead, "example", counted)
    with pytest.raises(KeyboardInterrupt):
        distill(str(llama_folder), prompts, tmp_path / "draft", plan, answers=answers)
    monkeypatch.setattr(TargetHead, "example", lambda *a: (read.append(a[1]), example(*a))[1])
    again = distill(str(llama_folder), prompts, tmp_path / "draft", plan, answers=answers)
    assert len(read) == 4 + 2  # the first block of two is not read again
    assert again.after == whole.after
    names = [tmp_path / name / "model.safetensors" for name in ("whole", "draft")]
    assert names[0].read_bytes() == names[1].read_bytes()


def test_other_answers_are_another_recipe(llama_folder):
    source, prompts = resolve(str(llama_folder)), [[1, 2]]
    recipes = {recipe_of(source, prompts, EAGLE, read) for read in ((), [([1], [2])], [([1], [3])])}
    assert len(recipes) == 3
    assert recipe_of(source, prompts, EAGLE) == recipe_of(source, prompts, EAGLE, [])


def test_the_chat_format_is_put_around_their_prompts(llama_folder, answers, tmp_path):
    folder = shutil.copytree(llama_folder, tmp_path / "chat")
    template = "{% for message in messages %}[{{ message.content }}]{% endfor %}>"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    tokenizer = open_checkpoint(resolve(str(folder))).tokenizer
    (prompt, answer), *_ = texts_of(answers, folder)
    first = json.loads(answers.read_text().splitlines()[0])
    assert tokenizer.decode(prompt) == f"[{first['prompt']}]>"
    assert tokenizer.decode(answer) == first["answer"]
    (bare, _), *_ = texts_of(answers, folder, chat=False)
    assert tokenizer.decode(bare) == first["prompt"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            '"Write a haiku."',
            "has the line '\"Write a haiku.\"'; each line of a file of answers is",
        ),
        (
            '{"prompt": "Write a haiku."}',
            "each line of a file of answers is a JSON object with text",
        ),
        ('{"prompt": " ", "answer": "An old pond"}', "each line of a file of answers is a JSON"),
        ("haiku", "each line of a file of answers is a JSON object"),
        (
            json.dumps({"prompt": "a", "answer": "b" * 200}),
            "takes 201 tokens with its prompt, 'bbb.*'; the target has 128 positions: cut it",
        ),
    ],
)
def test_a_line_that_is_no_answer_is_named(llama_folder, prompts, tmp_path, line, words):
    file = tmp_path / "answers.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(edgespec.errors.UsageError, match=words):
        distill(str(llama_folder), prompts, tmp_path / "draft", EAGLE, answers=file)


def test_a_draft_that_reads_no_states_refuses_them(llama_folder, prompts, answers, tmp_path):
    with pytest.raises(edgespec.errors.UsageError, match="leave answers out, or give eagle or bl"):
        distill(str(llama_folder), prompts, tmp_path / "draft", PLAN, answers=answers)
