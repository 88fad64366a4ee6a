"""Claim: a Gemma 4 computes what transformers computes, beyond its windows and in shared layers.

Tiny random checkpoints; texts of 35 tokens and windows of 7. No Gemma 4 was run with its real
weights.
"""

from __future__ import annotations

import pytest

from edgespec.artifact.graph_io import LayerShape
from edgespec.artifact.manifest import read_manifest
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from gemma4_checkpoints import GLOBAL, LOCAL, SIZES, write_gemma4

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CASES = {
    "shared layers and per-layer embeddings": {},
    "no shared layers": {"num_kv_shared_layers": 0},
    "no per-layer embeddings, keys that are values": {
        "hidden_size_per_layer_input": 0,
        "num_kv_shared_layers": 0,
        "attention_k_eq_v": True,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_global_key_value_heads": 1,
    },
    "standard attention": {"head_dim": 12, "global_head_dim": 20},
    "a window of one position": {"sliding_window": 1},
    "a window of all positions": {"sliding_window": 128},
    "a last layer that says it is windowed": {"layer_types": [LOCAL, GLOBAL, *4 * [LOCAL]]},
    "scaled global positions": {
        "rope_parameters": {
            LOCAL: {"rope_type": "default", "rope_theta": 300.0},
            GLOBAL: {
                **{"rope_type": "proportional", "partial_rotary_factor": 0.5},
                **{"rope_theta": 1e4, "factor": 4.0},
            },
        }
    },
    "its own head": {"tie_word_embeddings": False, "final_logit_softcapping": None},
    "a vision tower": {"vision": True, "use_bidirectional_attention": "vision"},
}


def difference(source, out):
    """From transformers, in float32."""
    from edgespec_export.verify import differences

    export_pair(str(source), None, out, measure=False)
    exported = read_manifest(out).target
    model = open_model(out, exported, "fp32", min_rows=2)
    return differences(source, exported, model)["decoder"]


@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case, tmp_path):
    source = write_gemma4(tmp_path / "checkpoint", **CASES[case])
    assert difference(source, tmp_path / "pair") <= 1e-4


def test_a_published_config_means_the_same_as_one_that_transformers_saves(tmp_path):
    """Published ones say the sizes of global heads in keys, saved ones layer by layer."""
    saved = transformers.Gemma4TextConfig(**SIZES).to_dict()
    assert "global_head_dim" not in saved
    one, other = (family_of(c, "m") for c in (saved, {"model_type": "gemma4_text", **SIZES}))
    assert one.layer_heads == other.layer_heads
    assert one.layer_shapes == (LayerShape(1, 16), LayerShape(1, 16), LayerShape(1, 32))
    assert [one.cache_layer_of(index) for index in range(6)] == [0, 1, 2, 1, 1, 2]
