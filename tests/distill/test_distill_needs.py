"""Claim: what a distillation takes is told before it starts, and what it may choose is bounded."""

from __future__ import annotations

import dataclasses

import pytest

from edgespec_distill.models.trainable import MOST_POSITIONS
from edgespec_distill.needs import needs_of, positions_at_once
from edgespec_distill.plan import Plan
from edgespec_export.families import family_of

PLAN = Plan(layers=1, eagle=True, vocabulary=16_000, minutes=480.0, target_format="int8")
SHAPES = {  # layers, width, query heads, key heads, parameters
    "135M": (30, 576, 9, 3, 134_515_008),
    "1.5B": (28, 1536, 12, 2, 1_543_714_304),
    "8B": (32, 4096, 32, 8, 8_030_261_248),
}


def family(size):
    layers, width, heads, kv_heads, _ = SHAPES[size]
    return family_of(
        {
            "model_type": "qwen2",
            "num_hidden_layers": layers,
            "hidden_size": width,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "vocab_size": 151936,
            "intermediate_size": 4 * width,
            "max_position_embeddings": 32768,
        },
        size,
    )


def needs(size, prompts=20_000, **changes):
    return needs_of(dataclasses.replace(PLAN, **changes), family(size), SHAPES[size][-1], prompts)


def test_a_target_of_one_and_a_half_billion_fits_in_24_gigabytes():
    assert SHAPES["1.5B"][-1] / 1e9 < needs("1.5B").memory < 24
    assert needs("135M").memory < needs("1.5B").memory < needs("8B").memory
    assert "of its states (--disk)" in str(needs("1.5B"))


@pytest.mark.parametrize("size", SHAPES)
def test_texts_written_at_once_keep_to_four_gigabytes(size):
    assert 0 < needs(size).texts <= 4.0
    assert positions_at_once(PLAN, family(size)) <= MOST_POSITIONS


def test_states_take_what_they_need_and_no_more_than_the_plan_says():
    all_of_them = 100 * 2 * 128 * 3 * 1536 * 4 / 1e9
    assert needs("1.5B", prompts=100, disk=1e6).states == pytest.approx(all_of_them)
    assert needs("1.5B", disk=3.0).states == 3.0
    assert needs("1.5B", eagle=False).states == 0.0


def test_a_target_that_transformers_runs_takes_more_than_its_export():
    assert needs("1.5B", target_format="original").target > needs("1.5B").target


def test_tables_of_the_target_need_no_moments():
    """A sixth of trained ones, and everything else the same."""
    tables = 2 * 16_000 * 1536
    saved = needs("1.5B").draft - needs("1.5B", target_tables=True).draft
    assert saved == pytest.approx(tables * (24 - 4) / 1e9)
