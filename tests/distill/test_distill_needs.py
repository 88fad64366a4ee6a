"""Claim: what a distillation takes is told before it starts, and a machine with less is told so."""

from __future__ import annotations

import dataclasses

import pytest

from edgespec.errors import UsageError
from edgespec_distill.models.trainable import MOST_POSITIONS
from edgespec_distill.needs import Amounts, check_needs, needs_of
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


PROMPT = 50  # tokens


def needs(size, prompts=20_000, limit=24.0, answers=(), **changes):
    plan, parameters = dataclasses.replace(PLAN, **changes), SHAPES[size][-1]
    amounts = Amounts(prompts, PROMPT * prompts, len(answers), sum(answers))
    return needs_of(plan, family(size), parameters, amounts, limit=limit)


def test_a_target_of_one_and_a_half_billion_fits_in_24_gigabytes():
    assert SHAPES["1.5B"][-1] / 1e9 < needs("1.5B").memory < 24
    assert needs("135M").memory < needs("1.5B").memory < needs("8B").memory
    check_needs(needs("1.5B"), 24.0)


def test_texts_are_finished_before_a_draft_is_trained():
    """So that the larger of the two counts."""
    found = needs("1.5B")
    assert found.training == pytest.approx(0.7 + found.target + found.draft)
    assert found.memory == max(found.training, 0.7 + found.target + found.texts)


@pytest.mark.parametrize("size", SHAPES)
def test_texts_written_at_once_keep_to_four_gigabytes(size):
    assert 0 < needs(size, limit=64.0).texts <= 4.0
    assert needs(size).positions <= MOST_POSITIONS


def test_few_texts_take_what_they_are():
    """100 prompts of 50 tokens with 128 after them."""
    assert needs("1.5B", prompts=100).texts == pytest.approx(needs("1.5B", prompts=10).texts * 10)


def test_a_machine_with_less_memory_writes_fewer_texts_at_once():
    rich, poor = needs("1.5B"), needs("1.5B", limit=6.0)
    assert poor.positions < rich.positions
    assert 0.7 + poor.target + poor.texts <= 6.0
    assert poor.draft == rich.draft


def test_a_machine_with_less_memory_than_the_draft_needs_is_one_line():
    found = needs("1.5B", limit=6.0)
    words = (
        r"this takes about .* GB of memory \(.*\), and the machine has 6.0: give fewer --positio"
    )
    with pytest.raises(UsageError, match=words):
        check_needs(found, 6.0)
    smaller = {"positions": 256, "vocabulary": 2000, "feed_forward": 1024, "prompts": 1000}
    check_needs(needs("1.5B", limit=6.0, **smaller), 6.0)


def test_states_take_what_they_need_and_no_more_than_the_plan_says():
    all_of_them = 100 * 2 * (PROMPT + 128) * 3 * 1536 * 4 / 1e9
    few = needs("1.5B", prompts=100, disk=1e6)
    assert few.states == few.all_states == pytest.approx(all_of_them)
    assert str(few).endswith(f"with {all_of_them:.1f} GB for the target's states")
    many = needs("1.5B", disk=3.0)
    assert (many.states, many.all_states) == (3.0, pytest.approx(200 * all_of_them))
    assert str(many).endswith(
        f"with 3.0 GB for the target's states (--disk), which would take {many.all_states:.1f}; "
        "the others are computed again when a batch needs them"
    )
    assert needs("1.5B", eagle=False).all_states == 0.0
    assert "states" not in str(needs("1.5B", eagle=False))


def test_answers_that_are_read_have_states_too():
    found, without = needs("135M", answers=[300, 200]), needs("135M")
    assert found.all_states - without.all_states == pytest.approx(500 * 3 * 576 * 4 / 1e9)


def test_a_target_that_transformers_runs_takes_more_than_its_export():
    assert needs("1.5B", target_format="original").target > needs("1.5B").target
    assert needs("1.5B", target_format="original").written < needs("1.5B").written


def test_tables_of_the_target_need_no_moments():
    """A sixth of trained ones, and everything else the same."""
    tables = 2 * 16_000 * 1536
    saved = needs("1.5B").draft - needs("1.5B", target_tables=True).draft
    assert saved == pytest.approx(tables * 20 / 1e9)


def test_a_smaller_batch_or_vocabulary_takes_less():
    whole = needs("1.5B").draft
    assert needs("1.5B", positions=1024).draft < whole
    assert needs("1.5B", vocabulary=4000).draft < whole
    assert needs("1.5B", feed_forward=1024).draft < whole
