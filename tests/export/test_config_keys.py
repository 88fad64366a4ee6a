"""Claim: a key of config.json is refused only if transformers reads it and edgespec does not.

The table of keys is made from transformers' classes; what a config leaves out means what it means
to the class of its own model type.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import pathlib

import numpy as np
import pytest

from depth import deep
from edgespec.errors import EdgespecError
from edgespec_export.families import FAMILIES, family_of
from edgespec_export.families.config_keys import class_keys

ROOT = pathlib.Path(__file__).parent.parent.parent
LLAMA = {
    "model_type": "llama",
    "vocab_size": 11,
    "hidden_size": 32,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}
OWN_CODE = {"baichuan", "internlm2", "minicpm"}  # types that transformers does not have
# What programs that train, quantize at loading or publish models write into configs.
HARMLESS = {
    "unsloth_version": "2025.9.1",
    "unsloth_fixed": True,
    "_commit_hash": "abc",
    "model_max_length": 2048,
    "use_mrope": False,
    "neftune_noise_alpha": 5,
    "_flash_attn_2_enabled": True,
    "_attn_implementation_autoset": True,
    "do_sample": True,
    "temperature": 0.7,
    "max_length": 20,
    "return_dict_in_generate": False,
    "keys_to_ignore_at_inference": ["past_key_values"],
    "ep_size": 1,
    "torchscript": False,
    "use_bfloat16": False,
    "pruned_heads": {},
    "num_labels": 1,
    "is_decoder": False,
    "auto_map": {"AutoConfig": "configuration_x.X"},
    "a_key_of_tomorrow": {"nested": [1]},
}


def script():
    pytest.importorskip("torch")
    spec = importlib.util.spec_from_file_location("config_keys", ROOT / "scripts/config_keys.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@deep
def test_the_table_is_what_the_script_makes_of_the_installed_transformers():
    transformers = pytest.importorskip("transformers")
    made = script()
    stored = made.TABLE.read_text(encoding="utf-8")
    version = json.loads(stored)["transformers"]
    if version != transformers.__version__:
        pytest.skip(f"the table is that of transformers {version}")
    assert made.text() == stored


def test_every_model_type_of_transformers_has_its_keys():
    drafts = {"eagle", "eagle3", "block", "dflash", "dflash2", "dspark", "qwen3_5_mtp"}
    own = {*drafts, "t5_shared_encoder", *OWN_CODE}
    types = {kind for family in FAMILIES for kind in family.model_types}
    assert {kind for kind in types if class_keys(kind) is None} == own


@pytest.mark.parametrize("key", HARMLESS)
def test_a_key_that_transformers_does_not_read_changes_nothing(key):
    plain, marked = family_of(LLAMA, "model"), family_of({**LLAMA, key: HARMLESS[key]}, "model")
    assert np.array_equal(plain.rotary.frequencies, marked.rotary.frequencies)
    assert (plain.tied_head, plain.epsilon, plain.heads) == (
        marked.tied_head,
        marked.epsilon,
        marked.heads,
    )


def test_the_keys_that_are_passed_over_are_named_in_one_debug_line(caplog):
    caplog.set_level(logging.DEBUG, logger="edgespec")
    family_of({**LLAMA, **HARMLESS}, "model")
    (line,) = [record.getMessage() for record in caplog.records]
    assert "model: changes nothing: " in line
    assert "a_key_of_tomorrow" in line


@pytest.mark.parametrize(
    ("model_type", "key", "value"),
    [
        ("llama", "per_layer_config", {"0": {"num_attention_heads": 1}}),
        ("llama", "attention_chunk_size", 8),
        ("phi3", "per_layer_config", {"0": {}}),
        ("gemma3_text", "final_logit_softcapping", 30.0),
    ],
)
def test_a_key_that_transformers_reads_is_refused_by_name(model_type, key, value):
    with pytest.raises(EdgespecError, match=f"{key} = ") as error:
        family_of({**LLAMA, "model_type": model_type, key: value}, "model")
    assert "\n" not in str(error.value)


def test_a_stated_default_of_a_class_is_no_reason_to_refuse():
    family_of({"model_type": "gpt2", "vocab_size": 11, "reorder_and_upcast_attn": False}, "model")
    family_of({**LLAMA, "per_layer_config": None, "is_encoder_decoder": False}, "model")


@pytest.mark.parametrize(("version", "known"), [("5.24.1", True), ("4.1", True), ("99.0", False)])
def test_an_unknown_key_of_a_newer_transformers_may_change_the_model(version, known):
    config = {**LLAMA, "transformers_version": version, "twist": 2}
    if known:
        family_of(config, "model")
        return
    with pytest.raises(EdgespecError, match=r"transformers 99\.0 wrote it.*twist = 2"):
        family_of(config, "model")
    family_of({**config, "twist": None, "unsloth_version": "2"}, "model")


@pytest.mark.parametrize(
    ("model_type", "theta", "epsilon", "tied"),
    [
        ("llama", 1e4, 1e-6, False),
        ("smollm3", 2e6, 1e-6, True),
        ("hunyuan_v1_dense", 1e4, 1e-5, False),
        ("helium", 1e5, 1e-8, False),
        ("ernie4_5", 5e5, 1e-5, True),
        ("glm", 1e4, 1.5625e-7, False),
    ],
)
def test_what_a_config_leaves_out_is_the_familys_own_default(model_type, theta, epsilon, tied):
    family = family_of({**LLAMA, "model_type": model_type, "head_dim": 16}, "model")
    rotated = 8 if model_type == "glm" else 16
    assert family.rotary.frequencies[1] == pytest.approx(theta ** (-2 / rotated), rel=1e-6)
    assert (family.epsilon, family.tied_head) == (epsilon, tied)


@pytest.mark.parametrize(
    ("name", "usual"), [("swish", "silu"), ("gelu_python", "gelu"), ("gelu_fast", "gelu_new")]
)
def test_another_name_of_an_activation_is_the_same(name, usual):
    assert family_of({**LLAMA, "hidden_act": name}, "model").activation == usual


@pytest.mark.parametrize(
    ("model_type", "words"),
    [
        ("olmo", "nearest family, llama, lacks layer norms without weights"),
        ("gemma3n_text", r"nearest family, gemma4_text, lacks several residual streams \(AltUp\)"),
        ("deepseek_v2", r"nearest family, llama, lacks attention to latent keys and values"),
        ("mixtral", "mixtures of experts"),
        ("llama5", r"nearest in name: llama\); it exports apertus, arcee, "),
        ("zzz", "does not export; it exports apertus, arcee, "),
        (None, "model_type is None; edgespec exports apertus, arcee, "),
        (7, "model_type is 7; edgespec exports apertus, arcee, "),
    ],
)
def test_an_unknown_family_is_one_line_with_the_nearest_and_no_internal_names(model_type, words):
    with pytest.raises(EdgespecError, match=words) as error:
        family_of({"model_type": model_type}, "model")
    assert "\n" not in str(error.value)
    assert not any(
        name in str(error.value) for name in ("t5_shared_encoder", "eagle", "block,", "dspark")
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layer_types": ["mamba", "attention"], "num_local_experts": 0}, "1 of 2 layers are"),
        ({"num_local_experts": 0}, "state-space layers"),
        ({"layer_types": ["attention"] * 2, "num_local_experts": 4}, "mixtures of experts"),
    ],
)
def test_a_granite_4_with_states_or_experts_is_refused_by_name(changes, words):
    with pytest.raises(EdgespecError, match=words):
        family_of({**LLAMA, "model_type": "granitemoehybrid", **changes}, "model")
