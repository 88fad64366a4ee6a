"""Claim: YaRN's frequencies and amplitudes are transformers', and so are Ministral 3's queries.

Logits of checkpoints with YaRN are compared in test_family_corpus.py, far beyond the positions of
training; here two mistakes are made on purpose that texts within them do not show.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from checkpoints import write_small_llama
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.components.blocks.self_attention import ScaledQueries, SelfAttention
from edgespec_export.components.positions import Rotary
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

CONFIG = {
    **{"vocab_size": 272, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1},
    **{"num_attention_heads": 4, "head_dim": 64, "max_position_embeddings": 40960},
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
SETTINGS = {
    "Qwen3": {"factor": 4.0, "original_max_position_embeddings": 32768, "rope_theta": 1e6},
    "R1-0528-Qwen3-8B, with a key that transformers does not read": {"attn_factor": 0.878},
    "AFM": {"factor": 20.0, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "type": "yarn"},
    "OLMo 3": {"factor": 8.0, "attention_factor": 1.2079, "rope_theta": 5e5},
    "Ministral 3": {"factor": 16.0, "mscale": 1.0, "mscale_all_dim": 1.0},
    "two scales": {"mscale": 0.707, "mscale_all_dim": 0.9},
    "other bounds": {"beta_fast": 8.0, "beta_slow": 2.0},
    "bounds between pairs": {"truncate": False},
    "bounds of one pair": {"beta_fast": 2.0, "beta_slow": 2.0, "truncate": False},
    "a factor below 1": {"factor": 0.5},
    "the factor of the lengths": {"factor": None},
    "the whole length": {"original_max_position_embeddings": None},
}


def theirs(config):
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    frequencies, amplitude = ROPE_INIT_FUNCTIONS["yarn"](config, "cpu")
    return frequencies.numpy(), amplitude


@pytest.mark.parametrize("case", SETTINGS)
def test_frequencies_and_amplitude_are_those_of_transformers(case):
    rope = {"rope_theta": 1e4, **YARN, **SETTINGS[case]}
    if rope["original_max_position_embeddings"] is None:
        del rope["original_max_position_embeddings"]
    config = transformers.LlamaConfig(**CONFIG, rope_parameters=dict(rope))
    frequencies, amplitude = theirs(config)
    for written in (config.to_dict(), {**CONFIG, "model_type": "llama", "rope_scaling": rope}):
        rotary = family_of(written, "model").rotary
        np.testing.assert_allclose(rotary.frequencies, frequencies, rtol=2e-6)
        found = 1.0 if rotary.amplitudes is None else rotary.amplitudes[0]
        assert found == pytest.approx(amplitude, rel=1e-6)


def test_the_positions_of_training_may_stand_beside_the_settings():
    rope = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}
    beside = {**CONFIG, "original_max_position_embeddings": 4096, "rope_parameters": rope}
    frequencies, _ = theirs(transformers.LlamaConfig(**{**beside, "rope_parameters": dict(rope)}))
    rotary = family_of({**beside, "model_type": "llama"}, "model").rotary
    np.testing.assert_allclose(rotary.frequencies, frequencies, rtol=2e-6)


@pytest.mark.parametrize(
    ("stated", "positions"), [(40960, 40960), (4096, 16384), (2048, 16384), (262144, 131072)]
)
def test_a_model_has_the_positions_that_yarn_stretches_it_to(stated, positions):
    config = {**CONFIG, "model_type": "qwen3", "max_position_embeddings": stated}
    assert family_of({**config, "rope_scaling": YARN}, "model").positions == positions


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rope_scaling": {"rope_type": "yarn"}}, "factor"),
        ({"rope_scaling": {**YARN, "factor": "a"}}, "factor of rope scaling is 'a'"),
        ({"rope_scaling": {**YARN, "factor": 0}}, "factor of rope scaling is 0"),
        ({"rope_scaling": {**YARN, "original_max_position_embeddings": 0.5}}, "original_max"),
        ({"rope_scaling": {**YARN, "long_factor": [1.0]}}, "long_factor"),
        ({"rope_scaling": {**YARN, "beta_fast": "a"}}, "wrong kind"),
        ({"model_type": "ministral3"}, "no 'rope_parameters'"),
        ({"model_type": "ministral3", "rope_parameters": YARN}, "llama_4_scaling_beta"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes, words):
    with pytest.raises(EdgespecError, match=words) as error:
        family_of({**CONFIG, "model_type": "llama", **changes}, "model")
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    rope = {
        **{"rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0, "llama_4_scaling_beta": 0.3},
        "original_max_position_embeddings": 8,
    }
    folder = tmp_path_factory.mktemp("ministral3")
    return write_small_llama(folder, model_type="ministral3", rope_parameters=rope)


def differences_by_position(source, out):
    """Largest |difference| of logits from transformers, at each of 35 positions."""
    export_pair(str(source), None, out, measure=False)
    model = open_model(out, read_manifest(out).target, "fp32", min_rows=2)
    text = [int(token) for token in np.random.default_rng(1).integers(3, 272, size=36)]
    found = model.score([model.prefill(text[:1]), *text[1:]])
    original = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    with torch.inference_mode():
        expected = original(input_ids=torch.tensor([text])).logits[0].numpy()
    return np.abs(found - expected).max(axis=1)


def test_logits_are_those_of_transformers(checkpoint, tmp_path):
    assert differences_by_position(checkpoint, tmp_path).max() <= 1e-4


def test_cosines_without_their_amplitude_are_found(checkpoint, tmp_path, monkeypatch):
    whole = Rotary._table
    monkeypatch.setattr(
        Rotary, "_table", lambda self, *of: whole(replace(self, amplitudes=None), *of)
    )
    assert differences_by_position(checkpoint, tmp_path).max() > 1e-2


def test_queries_without_their_factor_are_found_beyond_the_positions_of_training(
    checkpoint, tmp_path, monkeypatch
):
    def unscaled(self, g, inputs, call):
        return SelfAttention(self.layer, self.heads).emit(g, inputs, call)

    monkeypatch.setattr(ScaledQueries, "emit", unscaled)
    found = differences_by_position(checkpoint, tmp_path)
    assert found[:8].max() <= 1e-4
    assert found[8:].max() > 1e-2
