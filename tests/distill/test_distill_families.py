"""Claim: a draft that reads its target's states can be trained for a T5 and for every decoder-only
family whose export runs by kernels, and its pair is exact."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from transformers import AutoModelForCausalLM

import edgespec
from checkpoints import byte_tokenizer, write_llama
from depth import deep
from distillation import PLAN, VOCABULARY, write_family
from edgespec.errors import UsageError
from edgespec_distill.distill_draft import distill
from edgespec_distill.models.target_ends import open_ends
from edgespec_distill.plan import plan_for
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import resolve
from edgespec_export.export_pair import export_pair
from edgespec_export.families.tensor_check import fitted
from gemma3_checkpoints import write_gemma3
from norms_checkpoints import write_model
from shared_encoder_checkpoints import write_target as write_t5

EAGLE = dataclasses.replace(PLAN, eagle=True, target_format=None, steps=60, vocabulary=200)
BLOCK = dataclasses.replace(EAGLE, eagle=False, block=3, loss="mixed")


def of_words(kind, **config):
    def write(folder):
        shape = {"layers": 3, "heads": 4, "kv_heads": 2, "head_size": 16, "spread": 1.5}
        tokens = byte_tokenizer(VOCABULARY)
        return write_llama(
            folder,
            model_type=kind,
            vocab_size=VOCABULARY,
            tokenizer=tokens,
            **shape,
            **config,
        )

    return write


def gemma3(folder):
    return write_gemma3(
        folder, hidden_size=48, initializer_range=0.2
    )  # not near uniform distributions


TARGETS = {
    "gemma3": (gemma3, EAGLE),
    "gemma3, block": (gemma3, BLOCK),
    "olmo2": (lambda folder: write_model(folder, "Olmo2"), EAGLE),
    "olmo3": (lambda folder: write_model(folder, "Olmo3"), BLOCK),
    "qwen2": (of_words("qwen2"), EAGLE),
    "qwen3": (of_words("qwen3"), BLOCK),
    "windows": (of_words("mistral", sliding_window=9), EAGLE),
    "t5": (lambda folder: write_t5(folder), dataclasses.replace(EAGLE, width=16)),
    "t5, gated": (
        lambda folder: write_t5(folder, gated=True),
        dataclasses.replace(EAGLE, width=None, vocabulary=None, target_tables=True),
    ),
    "t5, block": (lambda folder: write_t5(folder), dataclasses.replace(BLOCK, width=16)),
}
OFTEN = ("gemma3", "t5")


@pytest.mark.parametrize(
    "name", [name if name in OFTEN else pytest.param(name, marks=deep) for name in TARGETS]
)
def test_training_raises_acceptance_and_the_pair_has_the_targets_text(name, prompts, tmp_path):
    write, plan = TARGETS[name]
    target = str(write(tmp_path / "target"))
    found = distill(target, prompts, tmp_path / "draft", plan)
    assert found.after.sampled > found.before.sampled + 0.01
    export_pair(
        target,
        str(tmp_path / "draft"),
        tmp_path / "pair",
        target_formats=["int8"],
        measure=False,
    )
    pair = edgespec.load(tmp_path / "pair", threads=1)
    accepted = 0
    for prompt in ("green stone", "under seven"):
        plain = pair.generate(prompt, draft=False, max_new_tokens=20, ignore_eos=True)
        drafted = pair.generate(prompt, draft="model", gamma=3, max_new_tokens=20, ignore_eos=True)
        assert drafted.token_ids == plain.token_ids
        accepted += drafted.stats.accepted
    assert accepted > 0


@pytest.mark.parametrize("kind", ["llama", "llama, tied", "qwen3"])
@pytest.mark.parametrize("shape", [{"eagle": True}, {}])
def test_a_draft_starts_from_the_weights_that_transformers_reads(kind, shape, tmp_path):
    """The target's tables and last norm, and its last layers or those spread over all."""
    folder = write_family(kind, tmp_path / "target", layers=3)
    whole = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    checkpoint = open_checkpoint(resolve(str(folder)))
    plan = dataclasses.replace(PLAN, layers=2, width=None, **shape)
    ends = open_ends(checkpoint, fitted(checkpoint), plan).model
    kept = [1, 2] if shape else [0, 2]
    whole.model.layers = torch.nn.ModuleList(whole.model.layers[index] for index in kept)
    wanted = dict(whole.named_parameters())
    found = dict(ends.named_parameters())
    assert found.keys() == wanted.keys()
    for name, parameter in found.items():
        assert torch.equal(parameter, wanted[name].to(parameter.dtype)), name


def test_only_the_export_computes_other_families(tmp_path):
    folder = write_gemma3(tmp_path / "target")
    family = fitted(open_checkpoint(resolve(str(folder))))
    original = dataclasses.replace(EAGLE, target_format="original")
    with pytest.raises(UsageError, match="whose states only its export computes here; leave"):
        plan_for(original, family)
    words = r"families 'llama' and 't5', and of others drafts that read their states \(eagle"
    with pytest.raises(UsageError, match=words):
        plan_for(dataclasses.replace(EAGLE, eagle=False), family)
    t5 = fitted(open_checkpoint(resolve(str(write_t5(tmp_path / "t5")))))
    with pytest.raises(UsageError, match="family 't5', whose states only its export computes here"):
        plan_for(original, t5)


def test_a_draft_of_a_t5_has_no_encoder(tmp_path):
    t5 = fitted(open_checkpoint(resolve(str(write_t5(tmp_path / "t5")))))
    assert plan_for(EAGLE, t5).encoder_layers is None
    with pytest.raises(
        UsageError, match=r"encoder_layers is 2; an EAGLE draft \(eagle\) has no enc"
    ):
        plan_for(dataclasses.replace(EAGLE, encoder_layers=2), t5)
