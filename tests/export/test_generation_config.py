"""Claim: a checkpoint's own settings for generating text are read as transformers reads them.

A value out of range, or an unsupported one, is one line in the log; the export continues.
"""

from __future__ import annotations

import logging

import pytest

from edgespec.artifact.generation_defaults import GenerationDefaults
from edgespec_export.checkpoint.generation_config import (
    generation_defaults,
    gguf_generation,
    without_start,
)


@pytest.fixture
def read(caplog):
    """Reads settings: what was found, and the lines of the log."""

    def read(**settings):
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="edgespec"):
            found = generation_defaults(settings, "a model")
        return found, [record.getMessage() for record in caplog.records]

    return read


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, GenerationDefaults()),
        ({"eos_token_id": 1, "transformers_version": "5"}, GenerationDefaults()),
        ({"do_sample": False, "max_new_tokens": 9}, GenerationDefaults(0.0, max_new_tokens=9)),
        ({"do_sample": True}, GenerationDefaults(1.0)),
        ({"do_sample": True, "temperature": 0.6, "top_p": None}, GenerationDefaults(0.6)),
        ({"do_sample": True, "top_k": 20, "top_p": 1, "min_p": 0}, GenerationDefaults(1, 20, 1, 0)),
        ({"repetition_penalty": 1.0, "num_beams": 1, "bad_words_ids": None}, GenerationDefaults()),
        ({"repetition_penalty": 1.05}, GenerationDefaults(repetition_penalty=1.05)),
        ({"min_new_tokens": 3}, GenerationDefaults(min_tokens=3)),
        ({"min_new_tokens": 0}, GenerationDefaults()),
        ({"stop_strings": ["###", "\n\n"]}, GenerationDefaults(stop=("###", "\n\n"))),
        ({"stop_strings": "###"}, GenerationDefaults(stop=("###",))),
        ({"sequence_bias": [[[5], -10.0]]}, GenerationDefaults(logit_bias={"5": -10.0})),
        ({"bad_words_ids": [[5]]}, GenerationDefaults(logit_bias={"5": -100.0})),
        (
            {"suppress_tokens": [7], "sequence_bias": [[[5], 2]]},
            GenerationDefaults(logit_bias={"5": 2, "7": -100.0}),
        ),
    ],
    ids=str,
)
def test_settings_that_are_applied_are_not_logged(read, settings, expected):
    assert read(**settings) == (expected, [])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"max_length": 142, "min_length": 56}, {"max_new_tokens": 141, "min_new_tokens": 55}),
        ({"max_length": 20, "max_new_tokens": 7}, {"max_new_tokens": 7}),
        ({"max_length": 20, "max_new_tokens": None}, {"max_new_tokens": 19}),
        ({"max_length": None, "min_length": 0}, {"max_length": None, "min_length": 0}),
        ({"max_length": "long"}, {"max_length": "long"}),
    ],
    ids=str,
)
def test_lengths_of_an_encoder_decoder_count_its_start_token(settings, expected):
    assert without_start(settings) == expected


def test_a_temperature_without_do_sample_is_greedy_and_logged(read):
    found, lines = read(temperature=0.7)
    assert found == GenerationDefaults()
    assert lines == ["a model: its temperature is not applied, because do_sample is not true"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1),
        ("temperature", "hot"),
        ("temperature", float("nan")),
        ("top_k", -1),
        ("top_k", 2.5),
        ("top_k", True),
        ("top_p", 0),
        ("top_p", 2),
        ("min_p", [1]),
        ("max_new_tokens", 0),
        ("repetition_penalty", 0),
        ("repetition_penalty", "much"),
        ("stop_strings", [""]),
        ("stop_strings", [5]),
        ("max_new_tokens", "x" * 5000),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_value_out_of_range_is_ignored_with_one_line(read, name, value):
    found, (line,) = read(do_sample=True, **{name: value})
    assert found == GenerationDefaults(1.0)
    assert line.startswith(f"a model: {name} is ")
    assert line.endswith("which is ignored")
    assert len(line) < 200


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_beams", 4),
        ("no_repeat_ngram_size", 3),
        ("max_length", 20),
        ("max_time", 1.5),
        ("token_healing", True),
        ("dola_layers", [3]),
        ("constraints", [5]),
        ("force_words_ids", [[5]]),
        ("begin_suppress_tokens", [5]),
        ("bad_words_ids", [[5, 6]]),
        ("bad_words_ids", [[5], [6, 7]]),
        ("sequence_bias", [[[5, 6], -10.0]]),
        ("sequence_bias", [[[5], -1e9]]),
        ("sequence_bias", {"5": 1}),
        ("suppress_tokens", [5, "x"]),
        ("exponential_decay_length_penalty", [5, 1.1]),
    ],
)
def test_an_unsupported_setting_is_one_line(read, name, value):
    found, lines = read(**{name: value})
    assert found == GenerationDefaults()
    assert lines == [f"a model: {name} {value} is not applied"]


def test_gguf_metadata_has_other_names(read):
    metadata = {
        "general.name": "x",
        "general.sampling.temp": 0.6,
        "general.sampling.top_k": 20,
        "general.sampling.top_p": 0.5,
        "general.sampling.penalty_repeat": 1.5,
    }
    found, lines = read(**gguf_generation(metadata))
    assert found == GenerationDefaults(0.6, 20, 0.5, repetition_penalty=1.5)
    assert lines == []
    assert gguf_generation({"general.name": "x"}) == {}


def test_what_a_model_names_are_the_options_of_a_text():
    own = GenerationDefaults(
        temperature=0.7,
        max_new_tokens=9,
        repetition_penalty=1.1,
        min_tokens=2,
        logit_bias={"5": -100.0},
        stop=("###",),
    )
    assert own.options() == {
        "temperature": 0.7,
        "max_new_tokens": 9,
        "repetition_penalty": 1.1,
        "min_tokens": 2,
        "logit_bias": {5: -100.0},
        "stop": ["###"],
    }
    assert str(own) == (
        "temperature 0.7, repetition_penalty 1.1, min_tokens 2, logit_bias of 1 tokens, "
        "stop '###', at most 9 new tokens"
    )
