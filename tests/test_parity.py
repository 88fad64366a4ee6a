"""Claim: every family computes what transformers computes, and what cannot is refused by name.

Tiny random checkpoints with awkward sizes (11 tokens, 3 heads of 10, odd layers) and the shipped
pair, in float32, against transformers' own implementation: logits within 1e-5 of each other,
prefill and cached calls alike. Heads of 16 take the fused attention operators, heads of 10 the
standard ones. Every one of them is a row-invariant target.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from checkpoints import write_llama, write_t5
from conftest import MODELS
from edgespec.contract import read_manifest
from edgespec.errors import EdgespecError
from edgespec.export import export_pair
from edgespec.runtimes import open_model
from edgespec_export.families import family_of
from edgespec_export.families.t5 import relative_buckets

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

CASES = {
    "t5 v1.0": lambda folder: write_t5(folder),
    "t5 v1.0, fused attention": lambda folder: write_t5(folder, head_size=16),
    "t5 v1.1": lambda folder: write_t5(folder, gated=True, layers=2, encoder_layers=3),
    "t5 v1.1, fused attention": lambda folder: write_t5(folder, gated=True, head_size=16),
    "t5 gated relu": lambda folder: write_t5(folder, gated=True, feed_forward_proj="gated-relu"),
    "mt5": lambda folder: write_t5(
        folder, gated=True, model_type="mt5", architectures=["MT5ForConditionalGeneration"]
    ),
    "llama": lambda folder: write_llama(folder),
    "llama, fused attention": lambda folder: write_llama(folder, head_size=16),
    "llama, one key head": lambda folder: write_llama(folder, kv_heads=1),
    "llama, grouped heads, fused": lambda folder: write_llama(
        folder, heads=6, kv_heads=2, head_size=24, layers=1
    ),
    "llama, tied head": lambda folder: write_llama(folder, tie_word_embeddings=True),
    "llama, biases": lambda folder: write_llama(folder, attention_bias=True, mlp_bias=True),
    "llama, width that is not heads times size": lambda folder: write_llama(folder, width=33),
    "llama, linear rope": lambda folder: write_llama(
        folder, rope_scaling={"rope_type": "linear", "factor": 2.0}
    ),
    "llama 3.1": lambda folder: write_llama(
        folder,
        rope_theta=500000.0,
        rope_scaling={
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    ),
    "transformers 5 rope": lambda folder: write_llama(
        folder, rope_theta=None, rope_parameters={"rope_type": "default", "rope_theta": 5e3}
    ),
    "mistral": lambda folder: write_llama(folder, model_type="mistral", kv_heads=1),
    "qwen2": lambda folder: write_llama(
        folder, model_type="qwen2", use_sliding_window=False, sliding_window=4096, head_dim=None
    ),
    "qwen3": lambda folder: write_llama(folder, model_type="qwen3", kv_heads=1, width=20),
}


def differences_after_export(source, out, draft=None):
    from edgespec_export.verify import differences

    export_pair(str(source), draft, out)
    exported = read_manifest(out).target
    return differences(source, exported, open_model(out, exported, "fp32", min_rows=2))


@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case, tmp_path):
    source = CASES[case](tmp_path / "checkpoint")
    for graph, difference in differences_after_export(source, tmp_path / "pair").items():
        assert difference <= 1e-5, graph
    invariance = read_manifest(tmp_path / "pair").target.variants["fp32"].row_invariance
    assert invariance.verdict
    assert invariance.max_rows == 17


@pytest.mark.parametrize("model", ["en-de-target", "en-de-draft"])
def test_the_shipped_models_compute_what_transformers_computes(model, tmp_path):
    """Relative to logits of about 30 and cross-attention values of about 100."""
    found = differences_after_export(MODELS / model, tmp_path / "pair")
    assert set(found) == {"encoder", "decoder"}
    assert max(found.values()) <= 2e-4


def test_a_file_does_not_grow_with_the_positions_that_the_model_can_tell_apart(tmp_path):
    sizes = set()
    for positions in (64, 8192):
        source = write_llama(tmp_path / f"{positions}", max_position_embeddings=positions)
        export_pair(str(source), None, tmp_path / f"pair-{positions}", measure=False)
        sizes.add((tmp_path / f"pair-{positions}/target/fp32/weights.data").stat().st_size)
    assert len(sizes) == 1


def test_verify_fails_an_export_that_differs(tmp_path, monkeypatch):
    """The check can fail: an exporter that forgets the scale of the scores is caught."""
    from edgespec_export.families.llama import Llama

    source = write_llama(tmp_path / "checkpoint")
    right = Llama.from_config

    def wrong(values, label):
        import dataclasses

        shape = right(values, label)
        return dataclasses.replace(shape, heads=dataclasses.replace(shape.heads, scale=1.0))

    monkeypatch.setattr(Llama, "from_config", wrong)
    with pytest.raises(EdgespecError, match=r"differs from the original by .*, more than 1e-03"):
        export_pair(str(source), None, tmp_path / "pair", verify=True)
    assert not (tmp_path / "pair").exists()


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "distance"), [(32, 128), (8, 20), (16, 64)])
def test_relative_buckets_are_those_of_transformers(bidirectional, buckets, distance):
    from transformers.models.t5.modeling_t5 import T5Attention

    relative = np.arange(-300, 301)
    expected = T5Attention._relative_position_bucket(
        torch.tensor(relative), bidirectional, buckets, distance
    )
    ours = relative_buckets(relative, bidirectional, buckets, distance)
    assert np.array_equal(ours, expected.numpy())


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "yarn"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 4.0, "twist": 2}}, "twist"),
        ({"sliding_window": 4096, "model_type": "mistral"}, "sliding_window = 4096"),
        (
            {"use_sliding_window": True, "sliding_window": 8, "model_type": "qwen2"},
            "sliding_window",
        ),
        ({"hidden_act": "mish"}, "hidden_act = 'mish'"),
        ({"logit_softcap": 30.0}, "logit_softcap = 30.0"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"model_type": "gemma3"}, "gemma3"),
    ],
)
def test_a_config_that_is_not_understood_is_refused_by_name(settings, named):
    config = {
        "model_type": "llama",
        "vocab_size": 11,
        "hidden_size": 30,
        "num_hidden_layers": 1,
        "num_attention_heads": 3,
        "max_position_embeddings": 64,
    }
    with pytest.raises(EdgespecError, match=named.replace("(", r"\(")):
        family_of({**config, **settings}, "model")


def test_a_config_with_fewer_layers_than_the_checkpoint_is_refused(tmp_path):
    source = write_llama(tmp_path / "checkpoint", layers=3)
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}))
    with pytest.raises(EdgespecError, match=r"does not account for, such as 'model\.layers\.2\."):
        export_pair(str(source), None, tmp_path / "pair")
