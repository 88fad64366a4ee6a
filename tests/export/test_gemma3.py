"""Claim: a Gemma 3 computes what transformers computes, also beyond its windows.

Tiny random checkpoints with awkward sizes; texts of 35 tokens and windows of 7. Heads of 16 take
the fused attention operators, heads of 10 the standard ones.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from safetensors.numpy import load_file, save_file

from depth import DEEP, one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from edgespec_export.families.gemma.gemma3 import Gemma3
from edgespec_export.quantization.formats import FORMATS
from gemma3_checkpoints import SIZES, write_gemma3
from rotated_float import RotatedFloat

pytest.importorskip("torch")
pytest.importorskip("transformers")

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
    "stretched global positions": {
        "rope_parameters": {
            "full_attention": {"rope_type": "yarn", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 300.0},
        }
    },
    "its own head": {"tie_word_embeddings": False},
    "a vision tower": {"vision": True},
}


def difference(source, out):
    """From transformers, in float32."""
    from edgespec_export.verify import differences

    export_pair(str(source), None, out, measure=False)
    exported = read_manifest(out).target
    model = open_model(out, exported, "fp32", min_rows=2)
    return differences(source, exported, model)["decoder"]


@one_in(2)
@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case, tmp_path):
    source = write_gemma3(tmp_path / "checkpoint", **CASES[case])
    assert difference(source, tmp_path / "pair") <= 1e-5


def test_older_configs_mean_the_same(tmp_path):
    source = write_gemma3(tmp_path / "checkpoint")
    config = json.loads((source / "config.json").read_text())
    del config["rope_parameters"], config["layer_types"]
    older = {
        "rope_theta": 3e5,
        "rope_local_base_freq": 2e3,
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
        "sliding_window_pattern": 2,
    }
    (source / "config.json").write_text(json.dumps({**config, **older}))
    assert difference(source, tmp_path / "pair") <= 1e-5


def test_the_names_of_a_running_model_with_vision_mean_the_same(tmp_path):
    """transformers writes "language_model.model." for what it calls "model.language_model."."""
    source = write_gemma3(tmp_path / "checkpoint", vision=True)
    path = source / "model.safetensors"
    written, running = "language_model.model.", "model.language_model."
    tensors = load_file(path)
    assert any(name.startswith(written) for name in tensors)
    renamed = {
        name.replace(written, running) if written in name else f"model.{name}": tensor
        for name, tensor in tensors.items()
    }
    save_file(renamed, path, {"format": "pt"})
    assert difference(source, tmp_path / "pair") <= 1e-5


MISTAKES = {
    "no window": lambda patch: patch.setattr(Gemma3, "_heads_of", lambda self, index: self.heads),
    "a window one position wider": lambda patch: _widen(patch),
    "one base for all layers": lambda patch: patch.setattr(
        Gemma3, "encodings", lambda self, g, p: [_encodings(self, g, p)[0]] * self.layers
    ),
}
_encodings = Gemma3.encodings


def _widen(patch):
    right = Gemma3._heads_of

    def wider(self, index):
        heads = right(self, index)
        return heads if heads.window is None else replace(heads, window=heads.window + 1)

    patch.setattr(Gemma3, "_heads_of", wider)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_with_windows_changes_the_logits(mistake, tmp_path, monkeypatch):
    MISTAKES[mistake](monkeypatch)
    source = write_gemma3(tmp_path / "checkpoint")
    assert difference(source, tmp_path / "pair") > 1e-2


# --- number formats -------------------------------------------------------------------------------

EVEN = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96}


def test_int8_rotates_norms_where_the_stream_cannot_be_rotated(tmp_path, monkeypatch):
    """The rotation alone, with float32 matrices, changes nothing."""
    from test_hadamard import change_by_rotation

    monkeypatch.setitem(FORMATS, "rotated", replace(FORMATS["fp32"], make=RotatedFloat))
    source = write_gemma3(tmp_path / "checkpoint", **EVEN)
    assert change_by_rotation(source, tmp_path / "pair") <= 1e-5


@one_in(2)
@pytest.mark.parametrize("cache", ["fp32", "fp16", "int8"])
def test_number_formats_stay_near_the_model_and_keep_rows_apart(cache, tmp_path):
    source = write_gemma3(tmp_path / "checkpoint", **EVEN)
    export_pair(
        str(source),
        None,
        tmp_path / "pair",
        target_formats=["fp32", "int8", "int4", *(["int8-groups", "fp16"] if DEEP else [])],
        cache_formats=[cache],
        threads=1,
    )
    for name, variant in read_manifest(tmp_path / "pair").target.variants.items():
        assert variant.row_invariance.is_row_invariant, name
        assert variant.distance is None or variant.distance.kl < 0.05, name


# --- configs that are refused ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"final_logit_softcapping": 30.0}, "final_logit_softcapping = 30.0"),
        ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping = 50.0"),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention.*generates no text"),
        ({"hidden_activation": "silu"}, "hidden_activation = 'silu'"),
        ({"layer_types": ["full_attention"]}, "layer_types has 1 of 5 layers"),
        ({"layer_types": 5 * ["chunked_attention"]}, "chunked_attention"),
        ({"rope_parameters": {"rope_theta": 1e4}}, r"rope_parameters has \['rope_theta'\]"),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 4.0}}, "longrope"),
        ({"per_layer_config": {"0": 1}}, "per_layer_config = "),
        ({"rope_scaling": {"type": "linear", "factor": 8.0}}, "write it as rope_type"),
        ({"sliding_window": 0}, "sliding_window is 0"),
    ],
)
def test_a_config_that_is_not_understood_is_refused_by_name(settings, named):
    values = {"model_type": "gemma3_text", **SIZES, **settings}
    with pytest.raises(EdgespecError, match=named):
        family_of(values, "model")
