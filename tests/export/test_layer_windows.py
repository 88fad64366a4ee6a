"""Claim: the layers of a Llama-like model have the windows that transformers gives them.

Logits across windows are compared in test_family_corpus.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from checkpoints import write_small_llama
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from edgespec_export.families.llama_like import llama

CONFIG = {
    **{"vocab_size": 272, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3},
    **{"num_attention_heads": 4, "max_position_embeddings": 64},
}
FULL, WINDOWED = "full_attention", "sliding_attention"
LISTED = [WINDOWED, FULL, WINDOWED]
ASKED = {"use_sliding_window": True, "sliding_window": 8}
CASES = {
    "Mistral": ("mistral", {"sliding_window": 8}, (8, 8, 8)),
    "Mistral without": ("mistral", {"sliding_window": None}, (None, None, None)),
    "Mistral, as long as all positions": ("mistral", {"sliding_window": 64}, (None, None, None)),
    "Mistral, one position less": ("mistral", {"sliding_window": 63}, (63, 63, 63)),
    "Mistral, by default": ("mistral", {"max_position_embeddings": 8192}, (4096, 4096, 4096)),
    "Mistral, a key of Qwen": (
        "mistral",
        {"sliding_window": 8, "use_sliding_window": False},
        (8, 8, 8),
    ),
    "Ministral": ("ministral", {"sliding_window": 8}, (8, 8, 8)),
    "Ministral, listed": ("ministral", {"sliding_window": 8, "layer_types": LISTED}, (8, None, 8)),
    "Ministral 3": ("ministral3", {"sliding_window": 8}, (8, 8, 8)),
    "Qwen2, not asked": ("qwen2", {"sliding_window": 8}, (None, None, None)),
    "Qwen2, from a layer on": ("qwen2", {**ASKED, "max_window_layers": 2}, (None, None, 8)),
    "Qwen2, after all layers": ("qwen2", {**ASKED}, (None, None, None)),
    "Qwen3, all": ("qwen3", {**ASKED, "max_window_layers": 0}, (8, 8, 8)),
    "Qwen3, listed": ("qwen3", {**ASKED, "layer_types": LISTED}, (8, None, 8)),
    "SmolLM3, where nothing is rotated": (
        "smollm3",
        {**ASKED, "no_rope_layers": [1, 0, 1]},
        (None, 8, None),
    ),
    "SmolLM3, not asked": ("smollm3", {"sliding_window": 8}, (None, None, None)),
}
ROPE = {"rope_type": "default", "llama_4_scaling_beta": 0.1}


@pytest.mark.parametrize("case", CASES)
def test_layers_have_the_windows_of_the_config(case):
    model_type, changes, windows = CASES[case]
    rope = {"rope_parameters": ROPE} if model_type == "ministral3" else {}
    config = {**CONFIG, "model_type": model_type, **rope, **changes}
    assert family_of(config, "model").windows == windows


@pytest.mark.parametrize(("window", "of_heads"), [(None, None), (8, 8), (63, 63), (64, None)])
def test_all_layers_of_a_phi_3_have_its_window(window, of_heads):
    config = {**CONFIG, "model_type": "phi3", "sliding_window": window}
    assert family_of(config, "model").heads.window == of_heads


@pytest.mark.parametrize(
    ("model_type", "changes", "words"),
    [
        ("llama", {"sliding_window": 8}, "sliding_window = 8"),
        ("granite", {"sliding_window": 8}, "sliding_window = 8"),
        ("llama", {"layer_types": LISTED}, "sliding_attention' in layer_types"),
        ("mistral", {"sliding_window": 8, "layer_types": LISTED}, "full_attention' in layer_types"),
        ("mistral", {"sliding_window": None, "layer_types": LISTED}, "'sliding_attention'"),
        ("mistral", {"sliding_window": 0}, "sliding_window is 0"),
        ("mistral", {"sliding_window": "8"}, "sliding_window is '8'"),
        ("qwen2", {"layer_types": LISTED}, "'sliding_attention'"),
        ("qwen2", {**ASKED, "layer_types": LISTED[:2]}, "layer_types has 2 of 3 layers"),
        ("qwen2", {**ASKED, "layer_types": ["chunked_attention"] * 3}, "'chunked_attention'"),
    ],
)
def test_windows_that_no_model_has_are_refused(model_type, changes, words):
    with pytest.raises(EdgespecError, match=words) as error:
        family_of({**CONFIG, "model_type": model_type, **changes}, "model")
    assert "\n" not in str(error.value)


def test_what_has_no_windows_refuses_a_target_that_has_them():
    plan = pytest.importorskip("edgespec_distill.plan")
    family = family_of({**CONFIG, "model_type": "mistral", "sliding_window": 8}, "model")
    with pytest.raises(UsageError, match="layers that see 8 positions only"):
        plan.plan_for(plan.Plan(layers=1, steps=1), family)


def test_the_jax_path_refuses_windows(tmp_path):
    adapter = pytest.importorskip("edgespec_jax.jax_checkpoint")
    write_small_llama(tmp_path, model_type="mistral", sliding_window=8)
    with pytest.raises(EdgespecError, match="sliding_window"):
        adapter.open_jax_checkpoint(str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "fused"),
    [
        ({"model_type": "mistral", "sliding_window": 8}, 4),
        ({"model_type": "qwen2", **ASKED, "max_window_layers": 1}, 3),  # biases and a window
        ({"model_type": "ministral3", "rope_parameters": {**ROPE, "rope_theta": 1e4}}, 2),
    ],
    ids=["Mistral", "Qwen2", "Ministral 3"],
)
def test_blocks_with_windows_are_fused(changes, fused, tmp_path):
    source = write_small_llama(tmp_path / "checkpoint", inner=64, **changes)
    formats = {"target_formats": ["int8"], "measure": False}
    exported = export_pair(str(source), None, tmp_path / "pair", **formats).target
    blocks = exported.variants["int8"].blocks["decoder"]
    assert (blocks.fused, blocks.total) == (fused, 4)


def test_a_window_of_one_position_more_is_another_model(tmp_path, monkeypatch):
    """A mistake that texts within the window do not show."""
    source = write_small_llama(tmp_path / "mistral", model_type="mistral", sliding_window=8)
    text = [int(token) for token in np.random.default_rng(1).integers(3, 272, size=20)]

    def logits(out):
        export_pair(str(source), None, out, measure=False)
        model = open_model(out, read_manifest(out).target, "fp32", min_rows=2)
        return model.score([model.prefill(text[:1]), *text[1:]]).copy()

    right, whole = logits(tmp_path / "right"), llama.layer_windows
    monkeypatch.setattr(
        llama, "layer_windows", lambda *of: tuple(window + 1 for window in whole(*of))
    )
    wrong = np.abs(logits(tmp_path / "wrong") - right).max(axis=1)
    assert wrong[:8].max() == 0
    assert wrong[8:].max() > 1e-2
