"""Claim: the catalogue's targets can be exported by name, and each draft is much smaller."""

from __future__ import annotations

import pytest

from edgespec_export.catalogue import _FAMILIES, proposed_draft
from edgespec_export.checkpoint.sources import ALIASES

TARGETS = [
    (family, size, family.name.format(size)) for family in _FAMILIES for size in family.targets
]


@pytest.mark.parametrize(("family", "size", "target"), TARGETS, ids=lambda value: str(value)[:40])
def test_a_draft_has_at_most_a_sixth_of_its_target_s_parameters(family, size, target):
    assert family.targets[size] >= 6 * family.parameters
    assert proposed_draft(target).draft == family.draft


@pytest.mark.parametrize(
    ("target", "draft"),
    [
        ("HuggingFaceTB/SmolLM2-1.7B", "HuggingFaceTB/SmolLM2-135M"),
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"),
        ("qwen/qwen3-4b", "Qwen/Qwen3-0.6B"),
        ("google/flan-t5-xxl", "google/flan-t5-small"),
        ("google/t5-v1_1-xxl", "google/t5-v1_1-small"),
        ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.2-1B-Instruct"),
        ("google/gemma-3-4b-it", "google/gemma-3-270m-it"),
    ],
)
def test_well_known_targets_have_a_draft(target, draft):
    proposal = proposed_draft(target)
    assert proposal.draft == draft
    assert "same tokenizer" in proposal.reason


@pytest.mark.parametrize("target", ["", "google/flan-t5-small", "Qwen/Qwen3-0.6B", "me/mine"])
def test_other_targets_have_none(target):
    assert proposed_draft(target) is None


def test_a_draft_is_no_target_of_the_catalogue():
    drafts = {family.draft for family in _FAMILIES}
    assert not drafts & {target for _, _, target in TARGETS}


LARGEST = ("t5-xxl", "flan-t5-xxl", "mt5-xxl", "byt5-xxl", "smollm2-1.7b", "qwen3-32b")
LARGEST += ("llama3.1-8b", "gemma3-27b")


@pytest.mark.parametrize("largest", LARGEST)
def test_the_largest_model_of_each_short_name_has_a_draft(largest):
    assert proposed_draft(ALIASES[largest]) is not None


@pytest.mark.parametrize("size", ["3b", "7b", "10b"])
def test_a_madlad_has_a_short_name_and_no_relative_that_is_small_enough(size):
    """The smallest has more than a sixth of the largest's parameters."""
    assert proposed_draft(ALIASES[f"madlad400-{size}"]) is None
