"""Claim: what a caller asks for in vain is refused in one line, before anything is computed."""

from __future__ import annotations

import pytest

import edgespec
from edgespec.errors import shortened
from refusals import PROMPT, export, load, usage


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"temperature": -1}, "temperature is -1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": float("inf")}, "temperature is inf"),
        ({"temperature": 1e-39}, "temperature is 1e-39"),
        ({"temperature": "hot"}, "temperature is 'hot'"),
        ({"temperature": None}, "temperature is None"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_k": 1.5}, "top_k is 1.5"),
        ({"top_k": 2.0}, "top_k is 2.0"),
        ({"top_k": float("inf")}, "top_k is inf"),
        ({"top_p": 0}, "top_p is 0"),
        ({"top_p": 2}, "top_p is 2"),
        ({"top_p": float("nan")}, "top_p is nan"),
        ({"min_p": 2}, "min_p is 2"),
        ({"min_p": -0.1}, "min_p is -0.1"),
        ({"min_p": float("nan")}, "min_p is nan"),
        ({"gamma": -1}, "gamma is -1"),
        ({"gamma": "x"}, "gamma is 'x'"),
        ({"gamma": 1.5}, "gamma is 1.5"),
        ({"gamma": "9" * 5000}, "gamma is '999"),
        ({"gamma": 10**5000}, "gamma is int too long to show"),
        ({"gamma": "x", "draft": False}, "gamma is 'x'"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"max_new_tokens": -1}, "max_new_tokens is -1"),
        ({"max_new_tokens": 2.5}, "max_new_tokens is 2.5"),
        ({"max_new_tokens": "3"}, "max_new_tokens is '3'"),
        ({"stop": ""}, "stop string is empty"),
        ({"stop": ["x", ""]}, "stop string is empty"),
        ({"stop": 5}, "stop is 5"),
        ({"stop": None}, "stop is None"),
        ({"stop": [1]}, "stop is [1]"),
        ({"rule": "luck"}, "rule is 'luck'"),
        ({"draft": "oracle"}, "draft is 'oracle'"),
        ({"draft": 1}, "draft is 1"),
        ({"chat": True}, "no chat format"),
    ],
    ids=shortened,
)
def test_an_option_out_of_range_is_refused_before_anything_is_computed(tiny, options, said):
    assert said in usage(tiny.stream, PROMPT, **options)


@pytest.mark.parametrize("prompts", ["Hello", b"Hello", {"role": "user", "content": "Hello"}])
def test_one_prompt_in_the_place_of_several_is_refused(tiny, prompts):
    assert "list of prompts" in usage(next, tiny.generate_many(prompts))


@pytest.mark.parametrize("prompt", [b"abc", ["a", "b"], [5.7], {"role": "user"}, None, 7])
def test_a_prompt_that_is_neither_text_nor_token_ids_is_refused(tiny, prompt):
    assert "token ids" in usage(tiny.stream, prompt)


def test_more_drafted_tokens_than_were_measured_are_refused(tiny):
    assert "at most 16" in usage(tiny.generate, PROMPT, gamma=17)


@pytest.mark.parametrize("prompt", ["", []])
@pytest.mark.parametrize("draft", [True, False])
def test_an_empty_prompt_is_refused(tiny, pair, prompt, draft):
    for loaded in (tiny, pair):
        assert "the prompt is empty" in usage(loaded.generate, prompt, draft=draft)


def test_a_prompt_longer_than_the_cache_names_both_lengths(tiny, pair):
    for loaded in (tiny, pair):
        capacity = loaded.manifest.target.capacity
        said = usage(loaded.generate, [5] * (capacity + 1))
        assert f"{capacity + 1} tokens" in said
        assert f"holds {capacity}" in said


@pytest.mark.parametrize("prompt", [[-1], [3, 272], [10**12]])
def test_a_token_outside_the_vocabulary_is_named(tiny, prompt):
    for draft in (True, False):
        said = usage(tiny.generate, prompt, draft=draft)
        assert f"token {prompt[-1]} " in said
        assert "272 tokens" in said


def test_a_prompt_that_is_no_unicode_text_is_refused(tiny):
    assert "character 2" in usage(tiny.generate, "ab\udcff")


@pytest.mark.parametrize("capacity", [0, -1, 10**13, 10**20])
def test_an_impossible_capacity_is_refused(tiny_folder, pair_folder, capacity):
    for folder in (tiny_folder, pair_folder):
        assert str(capacity) in usage(edgespec.load, folder, threads=1, capacity=capacity)


def test_an_impossible_number_of_threads_is_refused(tiny_folder):
    assert "threads is 0" in usage(edgespec.load, tiny_folder, threads=0)


def test_a_format_that_was_not_exported_lists_those_that_were(tiny_folder):
    for options in ({"target_format": "int3"}, {"draft_format": "int3"}):
        said = usage(edgespec.load, tiny_folder, threads=1, **options)
        assert "'int3'" in said
        assert "fp32" in said


def test_a_pair_without_a_draft_model_says_what_it_has(tiny_checkpoints, tmp_path):
    export(tiny_checkpoints[0], None, tmp_path / "pair")
    lone = load(tmp_path / "pair")
    assert "'lookup'" in usage(lone.generate, PROMPT, draft="model")


def test_a_text_within_a_running_stream_is_refused_and_the_stream_is_not_disturbed(tiny):
    expected = tiny.generate(PROMPT, ignore_eos=True).token_ids
    stream = tiny.stream(PROMPT, ignore_eos=True)
    next(stream)
    assert "is generating another text" in usage(tiny.generate, "xyz")
    for _ in stream:
        pass
    assert stream.result.token_ids == expected
