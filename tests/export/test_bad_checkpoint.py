"""Claim: a checkpoint that cannot be exported is named in one line, and no folder is left."""

from __future__ import annotations

import re

import numpy as np
import pytest
import transformers

from checkpoints import change_tensors, word_tokenizer, write_llama, write_noisy, write_t5
from edgespec import EdgespecError
from edgespec_export.families import family_of
from refusals import DAMAGES, export, failure, one_line


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("role", ["target", "draft"])
def test_a_damaged_safetensors_file_is_named_and_nothing_is_left(
    own_checkpoints, tmp_path, role, damage
):
    target, draft = own_checkpoints
    damage(tmp_path / role / "model.safetensors")
    said = failure(export, target, draft, tmp_path / "pair")
    assert str(tmp_path / role) in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["draft", "target"]


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_of_a_checkpoint_is_named(own_checkpoints, tmp_path, name, damage):
    target, draft = own_checkpoints
    damage(target / name)
    said = failure(export, target, draft, tmp_path / "pair")
    assert str(target) in said


def test_a_missing_tensor_is_named(own_checkpoints, tmp_path):
    target, draft = own_checkpoints
    change_tensors(target, layers_1_mlp_up_proj_weight=None)
    assert "model.layers.1.mlp.up_proj.weight" in failure(export, target, draft, tmp_path / "pair")


def test_a_checkpoint_that_does_not_exist_is_named(tmp_path):
    assert "nosuch" in usage_or_failure(export, tmp_path / "nosuch", None, tmp_path / "pair")


def usage_or_failure(action, *arguments) -> str:
    with pytest.raises(EdgespecError) as caught:
        action(*arguments)
    return one_line(str(caught.value))


@pytest.mark.parametrize("write", [write_llama, write_t5])
def test_every_unknown_key_of_a_newer_transformers_is_refused_by_name(write, tmp_path):
    target = write(tmp_path / "target", attention_twist=3, another="x", transformers_version="99.0")
    said = failure(export, target, None, tmp_path / "pair")
    assert "attention_twist = 3" in said
    assert "another = 'x'" in said


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sliding_window", 7),
        ("hidden_act", "swish2"),
        ("rope_scaling", {"rope_type": "longrope", "factor": 2.0}),
        ("model_type", "mamba"),
    ],
)
def test_a_config_value_that_is_not_supported_is_refused_by_name(key, value, tmp_path):
    target = write_llama(tmp_path / "target", layers=1, **{key: value})
    said = failure(export, target, None, tmp_path / "pair")
    assert (value["rope_type"] if isinstance(value, dict) else repr(value)) in said


@pytest.mark.parametrize("kind", ["llama", "gemma3_text", "phi3", "lfm2", "stablelm"])
@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"rope_scaling": [1]}, "(rope_scaling is [1])"),
        ({"rope_scaling": "linear"}, "(rope_scaling is 'linear')"),
        ({"rope_scaling": {"rope_type": "linear"}}, "has no 'factor'"),
        (
            {"rope_scaling": {"rope_type": "linear", "factor": "2"}},
            "(factor of rope scaling is '2')",
        ),
    ],
)
def test_a_config_that_describes_no_model_is_one_line(kind, values, words):
    config = transformers.AutoConfig.for_model(kind).to_dict()
    del config["rope_parameters"]
    config = {**config, "rope_theta": 1e4, "head_dim": 64, **values}
    with pytest.raises(EdgespecError, match=re.escape(words)) as error:
        family_of(config, "model")
    one_line(str(error.value))


def test_a_target_with_nan_weights_is_not_exported(own_checkpoints, tmp_path):
    target, draft = own_checkpoints
    change_tensors(target, model_norm_weight=np.nan)
    assert "not finite" in failure(export, target, draft, tmp_path / "pair")
    assert not (tmp_path / "pair").exists()


def test_tokenizers_of_equal_size_that_differ_in_one_token_are_refused(tmp_path):
    target = write_llama(tmp_path / "target", layers=1)
    draft = write_noisy(target, tmp_path / "draft", noise=0.1)
    path = draft / "tokenizer.json"
    path.write_text(path.read_text().replace('"w7"', '"other"'))
    said = failure(export, target, draft, tmp_path / "pair")
    assert "'w7' in the target" in said
    assert "'other' in the draft" in said


def test_tokenizers_with_the_same_tokens_in_another_order_are_refused(tmp_path):
    target = write_llama(tmp_path / "target", layers=1)
    tokenizer = word_tokenizer(11)
    swapped = tokenizer.to_str().replace('"w7":7', '"w7":8').replace('"w8":8', '"w8":7')
    draft = write_llama(tmp_path / "draft", layers=1, tokenizer=tokenizer.from_str(swapped))
    assert "token 7" in failure(export, target, draft, tmp_path / "pair")


def test_an_encoder_decoder_is_not_paired_with_a_decoder(tmp_path):
    target = write_t5(tmp_path / "target", layers=1)
    draft = write_llama(tmp_path / "draft", layers=1)
    assert "cannot be paired" in failure(export, target, draft, tmp_path / "pair")
