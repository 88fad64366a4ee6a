"""Claim: a Phi-3 computes what transformers computes, within 1e-5, whatever part is rotated."""

from __future__ import annotations

import pytest

from checkpoints import byte_tokenizer
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError
from edgespec.pair.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CASES = {
    "all of a head is rotated": {},
    "half of a head is rotated": {"partial_rotary_factor": 0.5},
    "grouped heads": {"partial_rotary_factor": 0.75, "num_key_value_heads": 1},
    "tied head": {"tie_word_embeddings": True},
}


def write_phi3(folder, *, partial_rotary_factor=1.0, **changes):
    torch.manual_seed(0)
    rope = {
        "rope_type": "default",
        "rope_theta": 1e4,
        "partial_rotary_factor": partial_rotary_factor,
    }
    settings = {
        "vocab_size": 272,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "rope_parameters": rope,
        "initializer_range": 0.1,
        "bos_token_id": 1,
        "eos_token_id": 1,
        "pad_token_id": 0,
    }
    config = transformers.Phi3Config(**{**settings, **changes})
    transformers.Phi3ForCausalLM(config).save_pretrained(folder)
    byte_tokenizer(272).save(str(folder / "tokenizer.json"))
    return folder


@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case, tmp_path):
    from edgespec_export.verify import differences

    source = write_phi3(tmp_path / "checkpoint", **CASES[case])
    export_pair(str(source), None, tmp_path / "pair", target_formats=["fp32", "int8"])
    exported = read_manifest(tmp_path / "pair").target
    model = open_model(tmp_path / "pair", exported, "fp32", min_rows=2)
    assert differences(source, exported, model)["decoder"] <= 1e-5
    variant = exported.variants["int8"]
    assert variant.distance.kl < 0.02
    assert (variant.blocks["decoder"].fused, variant.blocks["decoder"].total) == (6, 6)
    assert all(v.row_invariance.is_row_invariant for v in exported.variants.values())


def test_a_window_limits_the_positions(tmp_path):
    source = write_phi3(tmp_path / "checkpoint", sliding_window=40)
    exported = export_pair(str(source), None, tmp_path / "pair", measure=False).target
    assert exported.positions == exported.capacity == 40


def test_scaled_positions_are_refused_by_name(tmp_path):
    config = {**transformers.Phi3Config().to_dict(), "rope_parameters": {"rope_type": "longrope"}}
    with pytest.raises(EdgespecError, match="rope scaling 'longrope'"):
        family_of(config, "model")
