"""Claim: the command line generates as the model's publisher set it, and says how to change it.

The Python API takes nothing from the model: `pair.generate` is greedy and has no limit of its own.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import edgespec
from chat_templates import DEFAULT_SYSTEM
from checkpoints import character_tokenizer, write_small_llama
from command import run
from edgespec.artifact.generation_defaults import USUAL_LENGTH, GenerationDefaults
from edgespec.artifact.manifest import read_manifest
from edgespec_export.export_pair import export_pair

SAMPLED = {"do_sample": True, "temperature": 0.9, "top_k": 20, "top_p": 0.8, "max_new_tokens": 30}


@pytest.fixture(scope="module")
def sampled_folder(tmp_path_factory) -> Path:
    """A chat model whose publisher samples, exported with fp32 weights."""
    folder = tmp_path_factory.mktemp("sampled")
    target = write_small_llama(folder / "target", character_tokenizer(272))
    (target / "tokenizer_config.json").write_text(json.dumps({"chat_template": DEFAULT_SYSTEM}))
    (target / "generation_config.json").write_text(json.dumps({"eos_token_id": 1, **SAMPLED}))
    export_pair(str(target), None, folder / "pair", threads=1)
    edgespec.load(folder / "pair", threads=1)
    return folder / "pair"


@pytest.fixture(scope="module")
def sampled(sampled_folder) -> edgespec.Pair:
    return edgespec.load(sampled_folder, threads=1)


def generated(folder: Path, *options: object, command: str = "generate") -> dict:
    arguments = ["--ignore-eos"] if command == "generate" else []
    prompt = ["hi"] if command == "generate" else []
    result = run(command, folder, *prompt, *arguments, *options, "--json", input="hi\n")
    return json.loads(result.stdout)


def test_the_model_s_own_settings_are_in_the_manifest_and_shown(sampled_folder):
    own = GenerationDefaults(temperature=0.9, top_k=20, top_p=0.8, max_new_tokens=30)
    assert read_manifest(sampled_folder).generation == own
    described = run("inspect", sampled_folder).stdout
    line = "generation: temperature 0.9, top_k 20, top_p 0.8, at most 30 new tokens"
    assert line in described.splitlines()


def test_the_command_line_samples_as_the_model_s_publisher_does(sampled_folder, sampled):
    own = {"temperature": 0.9, "top_k": 20, "top_p": 0.8, "max_new_tokens": 30}
    expected = sampled.generate("hi", seed=3, ignore_eos=True, chat=True, **own)
    found = generated(sampled_folder, "--seed", 3)
    assert found["token_ids"] == expected.token_ids
    assert len(found["token_ids"]) == 30


def test_chat_samples_as_the_model_s_publisher_does(sampled_folder, sampled):
    own = {"temperature": 0.9, "top_k": 20, "top_p": 0.8, "max_new_tokens": 30}
    expected = sampled.generate([{"role": "user", "content": "hi"}], seed=3, **own)
    found = generated(sampled_folder, "--seed", 3, command="chat")
    assert found["token_ids"] == expected.token_ids


def test_an_option_replaces_one_setting(sampled_folder, sampled):
    own = {"temperature": 0.9, "top_k": 5, "top_p": 0.8, "max_new_tokens": 7}
    expected = sampled.generate("hi", seed=3, ignore_eos=True, chat=True, **own)
    found = generated(sampled_folder, "--seed", 3, "--top-k", 5, "-n", 7)
    assert found["token_ids"] == expected.token_ids


@pytest.mark.parametrize("command", ["generate", "chat"])
def test_greedy_is_one_flag(sampled_folder, sampled, command):
    expected = sampled.generate("hi", max_new_tokens=30, chat=True, ignore_eos=command != "chat")
    assert generated(sampled_folder, "--greedy", command=command)["token_ids"] == expected.token_ids
    zero = generated(sampled_folder, "-t", 0, command=command)["token_ids"]
    assert zero == expected.token_ids


def test_a_model_without_settings_is_greedy_and_ends_after_512_tokens(tmp_path):
    target = write_small_llama(tmp_path / "target", max_position_embeddings=1024)
    export_pair(str(target), None, tmp_path / "pair", threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    found = generated(tmp_path / "pair", "--no-draft")
    expected = pair.generate("hi", draft=False, ignore_eos=True, max_new_tokens=USUAL_LENGTH)
    assert found["token_ids"] == expected.token_ids
    assert len(found["token_ids"]) == 512
    assert found["finish_reason"] == "max_tokens"


def test_the_api_takes_nothing_from_the_model(sampled):
    free = sampled.generate("hi", ignore_eos=True)
    assert free.finish_reason == "capacity"
    assert len(free.token_ids) > 30
    assert free.token_ids == sampled.generate("hi", ignore_eos=True, temperature=0).token_ids


def test_the_api_can_be_given_the_model_s_settings(sampled):
    result = sampled.generate("hi", ignore_eos=True, **sampled.manifest.generation.options())
    assert len(result.token_ids) == 30


@pytest.mark.parametrize("command", ["bench", "tune"])
def test_measurements_are_greedy_whatever_the_model_says(sampled_folder, command, monkeypatch):
    module = f"edgespec.measure.{command}"
    seen = []

    class MeasuredError(Exception):
        pass

    def measure(*arguments, sampling, **options):
        seen.append(sampling)
        raise MeasuredError

    monkeypatch.setattr(f"{module}.{command}", measure)
    run(command, sampled_folder, "--threads", 1, code=1)
    assert seen[0].greedy


def test_changes_of_logits_are_those_of_the_library(tiny_folder, tiny):
    options = ("--repetition-penalty", 1.2, "--presence-penalty", 0.5, "--frequency-penalty", 0.1)
    more = ("--logit-bias", "101=3", "--logit-bias", "32=-100", "--min-tokens", 9)
    found = run("generate", tiny_folder, "abc", "-n", 20, "--greedy", *options, *more, "--json")
    alone = tiny.generate(
        "abc",
        max_new_tokens=20,
        draft=False,
        repetition_penalty=1.2,
        presence_penalty=0.5,
        frequency_penalty=0.1,
        logit_bias={101: 3, 32: -100},
        min_tokens=9,
    )
    assert json.loads(found.stdout)["text"] == alone.text


@pytest.mark.parametrize("value", ["x", "5", "5=x", "=3", "1.5=2", "5=200", "-3=1"])
def test_a_bias_that_is_none_is_refused(tiny_folder, value):
    result = run("generate", tiny_folder, "abc", "--logit-bias", value, code=2)
    assert "logit" in result.stderr
    assert "\n" not in result.stderr.strip()
