"""Claim: a draft that is narrower than its target, whose states it reads, starts with a head that
says of these states nearly what the target's head says of them.

Nearly, because a narrow head has fewer directions. Where the target's has no more than that, both
say the same. So an untrained draft agrees with its target far more often than chance.
"""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from distillation import causal, greedily
from eagle_checkpoints import SIZE, write_target
from edgespec_distill.data.draft_vocabulary import frequent_vocabulary, full_vocabulary
from edgespec_distill.data.examples import Text
from edgespec_distill.data.features import Features
from edgespec_distill.data.held_out import greedy_acceptance
from edgespec_distill.data.text_generation import generate_texts
from edgespec_distill.models import target_ends
from edgespec_distill.models.draft_builder import DraftBuilder
from edgespec_distill.models.reading import eagle_start
from edgespec_distill.models.reading.eagle_module import feature_layers, fused
from edgespec_distill.models.rms_norm import rms_norm
from edgespec_distill.models.target_ends import open_ends
from edgespec_distill.plan import Plan
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import resolve
from edgespec_export.families.tensor_check import fitted
from gemma3_checkpoints import write_gemma3
from shared_encoder_checkpoints import write_target as write_t5

WIDTH = 16
EAGLE = Plan(layers=1, eagle=True, width=WIDTH, steps=1)
BLOCK = Plan(layers=1, block=3, width=WIDTH, steps=1)
TARGETS = {
    "llama": lambda folder: write_target(folder, "llama"),
    "qwen3, untied": lambda folder: write_target(folder, "qwen3"),
    "gemma3": lambda folder: write_gemma3(folder, hidden_size=48),
    "t5, untied": lambda folder: write_t5(folder, gated=True),
}
TEXTS = [Text((40,), tuple(range(50 + n, 70 + n))) for n in range(25)]  # of 20 positions each


@pytest.fixture(params=TARGETS)
def target(request, tmp_path, monkeypatch):
    """The parts of a target that a draft starts from; its head has `WIDTH` directions."""
    monkeypatch.setattr(target_ends, "training_dtype", lambda _: torch.float32)
    checkpoint = open_checkpoint(resolve(str(TARGETS[request.param](tmp_path / "target"))))
    target = open_ends(checkpoint, fitted(checkpoint), EAGLE)
    head = target.model.lm_head.weight.data
    u, sizes, v = torch.linalg.svd(head - head.mean(0), full_matrices=False)
    head.copy_(head.mean(0) + (u[:, :WIDTH] * sizes[:WIDTH]) @ v[:WIDTH])
    return target


def heads_compared(target, plan: Plan) -> tuple[Tensor, Tensor]:
    """Of random states of several sizes: the angles' cosines between what an untrained draft's head
    and the target's say, and how sharp the former is compared with the latter."""
    width = target.model.config.hidden_size
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(len(TEXTS), 20, 2 * width, generator=generator)
    rows *= torch.linspace(1, 30, 20)[:, None]
    known = dict(zip(TEXTS, rows, strict=True))
    features = SimpleNamespace(layers=(2, 3), of=lambda texts: [known[text] for text in texts])
    table = target.model.get_input_embeddings().weight
    vocabulary = frequent_vocabulary([range(60, 180)], [1], 100, table)
    draft = DraftBuilder(target, features, plan).from_target(vocabulary, TEXTS).model
    theirs = rms_norm(target.model.model.norm, rows[..., -width:])
    theirs = functional.linear(theirs, target.model.lm_head.weight[vocabulary.outputs])
    ours = draft.lm_head(rms_norm(draft.model.norm, fused(draft, rows)))
    ours, theirs = (part - part.mean(-1, keepdim=True) for part in (ours, theirs))
    angles = functional.cosine_similarity(ours, theirs, -1)
    return angles, ours.norm(dim=-1) / theirs.norm(dim=-1)


@torch.no_grad()
def check_heads(target, plan: Plan) -> None:
    angles, sharpness = heads_compared(target, plan)
    assert angles.min() > 0.9999
    assert sharpness.median() == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("plan", [EAGLE, BLOCK], ids=["eagle", "block"])
def test_a_narrow_head_says_of_a_state_what_the_targets_says(target, plan):
    """Of every state in the same direction, and of one of median size as sharply."""
    check_heads(target, plan)


def starts_from_first_coordinates(draft, head, features):
    pass


def takes_another_norm(draft, head, features):
    READ_BY_HEAD(draft, head * torch.linspace(0.5, 1.5, head.shape[1]), features)


def forgets_the_sharpness(draft, head, features):
    READ_BY_HEAD(draft, head, features)
    draft.model.norm.weight.data.fill_(1)


READ_BY_HEAD = eagle_start.read_by_head
MUTANTS = [starts_from_first_coordinates, takes_another_norm, forgets_the_sharpness]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_another_start_is_found(target, mutant, monkeypatch):
    monkeypatch.setattr(eagle_start, "read_by_head", mutant)
    with pytest.raises(AssertionError):
        check_heads(target, EAGLE)


@pytest.mark.parametrize("plan", [EAGLE, BLOCK], ids=["eagle", "block"])
def test_an_untrained_narrow_draft_agrees_with_its_target(plan, tmp_path, monkeypatch):
    """In 79 of 800 tokens; one that starts from the first coordinates of the states in 4."""
    reader = causal(write_target(tmp_path / "target", "llama"))
    reader.feature_layers = feature_layers(3)
    prompts = [[40 + n, 41, 42, 50 + n, 60] for n in range(40)]
    texts = generate_texts(reader, prompts, greedily(20, []))

    def agreement() -> float:
        builder = DraftBuilder(reader, Features(reader, 0), dataclasses.replace(plan, width=32))
        return greedy_acceptance(builder.from_target(full_vocabulary(SIZE), texts), texts)

    assert agreement() > 0.06
    monkeypatch.setattr(eagle_start, "read_by_head", starts_from_first_coordinates)
    assert agreement() < 0.03
