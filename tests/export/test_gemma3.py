"""Claim: a Gemma 3 computes what transformers computes, also beyond its windows.

Tiny random checkpoints with awkward sizes; texts of 35 tokens and windows of 7. Heads of 16 take
the fused attention operators, heads of 10 the standard ones.
"""

from __future__ import annotations

import numpy as np
import pytest

from checkpoints import byte_tokenizer
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError
from edgespec.pair.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 272,
    "hidden_size": 36,
    "intermediate_size": 51,
    "num_hidden_layers": 5,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "query_pre_attn_scalar": 20,
    "max_position_embeddings": 128,
    "sliding_window": 7,
    "sliding_window_pattern": 3,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
LINEAR = {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}
CASES = {
    "windows, fused attention": {},
    "windows, standard attention": {"head_dim": 10},
    "several key heads": {"num_attention_heads": 4, "num_key_value_heads": 2},
    "a list of layers": {
        "layer_types": ["full_attention", *3 * ["sliding_attention"], "full_attention"]
    },
    "only windows": {"layer_types": 5 * ["sliding_attention"]},
    "a window of one position": {"sliding_window": 1},
    "a window of all positions": {"sliding_window": 128},
    "scaled global positions": {
        "rope_parameters": {
            "full_attention": LINEAR,
            "sliding_attention": {"rope_type": "default", "rope_theta": 300.0},
        }
    },
    "bases that are the same": {
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": 5e3}
            for kind in ("full_attention", "sliding_attention")
        }
    },
    "its own head": {"tie_word_embeddings": False},
}


def randomize(model):
    """Norms of all sizes, and attention that depends on the context."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                parameter.normal_(0, 0.3)
            elif "q_proj" in name or "k_proj" in name:
                parameter.normal_(0, 0.5)


def write_gemma3(folder, *, seed=0, **changes):
    torch.manual_seed(seed)
    config = transformers.Gemma3TextConfig(**{**SIZES, **changes}, initializer_range=0.1)
    model = transformers.Gemma3ForCausalLM(config)
    randomize(model)
    model.save_pretrained(folder)
    byte_tokenizer(config.vocab_size).save(str(folder / "tokenizer.json"))
    return folder


def exported_with_difference(source, out, formats=("fp32",)):
    from edgespec_export.verify import differences

    export_pair(str(source), None, out, target_formats=list(formats))
    exported = read_manifest(out).target
    model = open_model(out, exported, "fp32", min_rows=2)
    return exported, differences(source, exported, model)["decoder"]


@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case, tmp_path):
    source = write_gemma3(tmp_path / "checkpoint", **CASES[case])
    exported, difference = exported_with_difference(source, tmp_path / "pair")
    assert difference <= 1e-5
    assert exported.variants["fp32"].row_invariance.is_row_invariant
