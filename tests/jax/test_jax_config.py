"""Claim: JAX reads a config.json as the exporter does, with code of its own.

RoPE frequencies and T5's position buckets are implemented twice, in `edgespec_jax` and in
`edgespec_export`. Both must give the same numbers, bit for bit.
"""

import numpy as np
import pytest

from checkpoints import write_llama, write_t5
from edgespec.errors import EdgespecError

pytest.importorskip("jax")
rope = pytest.importorskip("edgespec_jax.jax_rope")
positions = pytest.importorskip("edgespec_jax.jax_relative_positions")
weights = pytest.importorskip("edgespec_jax.jax_weights")
adapter = pytest.importorskip("edgespec_jax.jax_checkpoint")
families = pytest.importorskip("edgespec_export.families")
exporter = pytest.importorskip("edgespec_export.components.positions")

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
ROPES = {
    "default": {},
    "another theta": {"rope_theta": 1e6},
    "linear": {"rope_scaling": {"type": "linear", "factor": 3.0}},
    "llama 3.1": {"rope_theta": 5e5, "rope_scaling": LLAMA3},
    "newer key": {"rope_parameters": {"rope_type": "default", "rope_theta": 2e4}},
    "older key without theta": {"rope_theta": 3e4, "rope_scaling": {"type": "default"}},
}


@pytest.mark.parametrize("case", ROPES)
@pytest.mark.parametrize("head_size", [16, 64, 128])
def test_rope_frequencies_are_the_exporters(case, head_size, tmp_path):
    source = write_llama(tmp_path / "llama", head_size=head_size, **ROPES[case])
    config = adapter.open_jax_checkpoint(str(source)).config
    expected = families.family_of(config, "llama").rotary.frequencies
    found = rope.rope_frequencies(config, head_size)
    assert found.dtype == np.float32
    assert found.tolist() == expected.tolist()


def test_an_unknown_rope_scaling_is_refused():
    with pytest.raises(EdgespecError, match="RoPE scaling is 'yarn'; the JAX path has default"):
        rope.rope_frequencies({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, 16)


@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (32, 20), (8, 64), (64, 1000)])
def test_buckets_of_positions_are_the_exporters(buckets, max_distance):
    offsets = np.arange(-2000, 2001)
    both = exporter.relative_buckets(offsets, True, buckets, max_distance)
    assert positions.bucket_of_offset(offsets, buckets, max_distance).tolist() == both.tolist()
    distances = np.arange(2001)
    past = exporter.relative_buckets(-distances, False, buckets, max_distance)
    assert positions.bucket_of_distance(distances, buckets, max_distance).tolist() == past.tolist()


@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen2", "qwen3"])
def test_a_llama_config_has_the_exporters_values(model_type, tmp_path):
    source = write_llama(tmp_path / "llama", model_type=model_type, heads=6, kv_heads=2)
    checkpoint = adapter.open_jax_checkpoint(str(source))
    ours = weights.load_jax_model(checkpoint).network.config
    theirs = families.family_of(checkpoint.config, "llama")
    assert (ours.heads, ours.kv_heads) == (theirs.heads.count, theirs.heads.kv_count)
    for name in ("vocab_size", "layers", "head_size", "epsilon", "activation", "head_norms"):
        assert getattr(ours, name) == getattr(theirs, name), name


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gated": True},
        {"gated": True, "model_type": "mt5", "architectures": ["MT5ForConditionalGeneration"]},
        {"gated": True, "feed_forward_proj": "gated-silu", "encoder_layers": 3},
        {"decoder_start_token_id": None, "pad_token_id": 5},
    ],
)
def test_a_t5_config_has_the_exporters_values(changes, tmp_path):
    checkpoint = adapter.open_jax_checkpoint(str(write_t5(tmp_path / "t5", **changes)))
    ours = weights.load_jax_model(checkpoint).network.config
    theirs = families.family_of(checkpoint.config, "t5")
    assert ours.heads == theirs.heads.count
    for name in vars(ours).keys() - {"heads"}:
        assert getattr(ours, name) == getattr(theirs, name), name


class Checkpoint:
    """A checkpoint without tensors."""

    label, eos_token_ids = "folder", (1,)

    def __init__(self, **config):
        self.config = config

    def names(self):
        return []

    def tensor(self, name):
        raise AssertionError(name)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "eagle"}, "folder: model_type is 'eagle'; the JAX path has llama, mistral"),
        ({"model_type": "bert"}, "model_type is 'bert'"),
        (
            {
                "model_type": "llama",
                "vocab_size": 8,
                "num_hidden_layers": 1,
                "num_attention_heads": 1,
                "hidden_size": 4,
                "hidden_act": "mish",
            },
            "folder: its activation is 'mish'; the JAX path has relu, silu",
        ),
    ],
)
def test_a_model_without_an_implementation_in_jax_is_refused(config, message):
    with pytest.raises(EdgespecError, match=message):
        weights.load_jax_model(Checkpoint(**config))
