"""Claim: the draft's model card describes its shape and names no path."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgespec_distill.card import _card, _name
from edgespec_distill.plan import Plan
from edgespec_distill.result import Acceptance, Distillation
from edgespec_export.checkpoint.sources import Source


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (Plan(layers=1), "- shape: 1 layer; "),
        (Plan(layers=2, width=64), "- shape: 2 layers, width 64; "),
        (Plan(layers=1, encoder_layers=3), "- shape: 3 encoder layers and 1 decoder layer; "),
        (Plan(layers=2, encoder_layers=1), "- shape: 1 encoder layer and 2 decoder layers; "),
    ],
)
def test_the_card_counts_layers_and_names_the_licence(plan, words):
    worth = Acceptance(0.5, 0.5)
    card = _card("T", plan, Distillation(worth, worth, None, 9, 4, 90, 2, 1.0, 100, 10))
    assert words in card
    assert "under the target's licence" in " ".join(card.split())


@pytest.mark.parametrize(
    ("steps", "minutes", "words"),
    [
        (1, 0.2, "- training: 1 step, less than a minute, forward KL"),
        (24, 1.4, "- training: 24 steps, 1 minute, forward KL"),
        (24, 1.6, "- training: 24 steps, 2 minutes, forward KL"),
    ],
)
def test_the_card_tells_how_long_the_training_was(steps, minutes, words):
    worth = Acceptance(0.5, 0.5)
    result = Distillation(worth, worth, None, 9, 4, 90, steps, minutes, 100, 10)
    assert words in _card("T", Plan(layers=1), result)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (Source(Path("build/x/Model.Q4_1.gguf"), "build/x/Model.Q4_1.gguf"), "Model.Q4_1.gguf"),
        (Source(Path("build/x/target"), "build/x/target/"), "target"),
        (Source(Path("/cache/0a1b"), "google/flan-t5-small"), "google/flan-t5-small"),
        (Source(Path("/cache/0a1b"), "t5-xxl → google/t5-v1_1-xxl"), "google/t5-v1_1-xxl"),
    ],
)
def test_the_cards_title_has_no_path(source, name):
    assert _name(source) == name


def test_no_line_of_the_card_is_wider_than_a_screen():
    plan = Plan(
        layers=1, eagle=True, feed_forward=1024, vocabulary=16384, target_tables=True, steps=9
    )
    worth = Acceptance(0.5, 0.5)
    card = _card(
        "T", plan, Distillation(worth, worth, 0.8, 1536, 64, 206273, 442, 57.0, 10**9, 10**7, 10**6)
    )
    assert max(map(len, card.splitlines())) <= 100
    assert "embedding and head taken from its target" in " ".join(card.split())
