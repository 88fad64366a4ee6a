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
from safetensors.numpy import load_file, save_file

from checkpoints import add_tensor, write_llama, write_t5
from depth import one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import Source
from edgespec_export.components.positions import relative_buckets
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of, transformers_class
from shipped_models import MODELS

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

LLAMA_TABLE, T5_TABLE = "model.embed_tokens.weight", "shared.weight"
LINEAR = {"rope_type": "linear", "factor": 2.0}


def tied_llama(folder, *, noise):
    """A checkpoint whose config ties the head, and which has a head all the same."""
    write_llama(folder, tie_word_embeddings=True)
    return add_tensor(folder, "lm_head.weight", LLAMA_TABLE, noise=noise)


def with_config(folder, **changes):
    """The checkpoint with changes in its config."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    return folder


def t5_with(name, noise):
    def write(folder):
        return add_tensor(write_t5(folder), name, T5_TABLE, noise=noise)

    return write


def renamed(folder, old, new):
    """The checkpoint with another name of a tensor."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    save_file({**tensors, new: tensors.pop(old)}, path)
    return folder


CASES = {
    "t5 v1.0": lambda folder: write_t5(folder),
    "t5 v1.0, fused attention": lambda folder: write_t5(folder, head_size=16),
    "t5 v1.1": lambda folder: write_t5(folder, gated=True, layers=2, encoder_layers=3),
    "t5 v1.1, fused attention": lambda folder: write_t5(folder, gated=True, head_size=16),
    "t5 gated relu": lambda folder: write_t5(folder, gated=True, feed_forward_proj="gated-relu"),
    "t5 v1.0, copies of its embedding": lambda folder: add_tensor(
        t5_with("encoder.embed_tokens.weight", 0)(folder), "decoder.embed_tokens.weight", T5_TABLE
    ),
    "t5 v1.0, a head that is its embedding": t5_with("lm_head.weight", 0),
    "t5 v1.0, a head that differs": t5_with("lm_head.weight", 0.5),
    "flan-t5": lambda folder: write_t5(
        folder, gated=True, head_size=16, heads=2, n_positions=512, output_past=True
    ),
    "madlad-400": lambda folder: renamed(
        write_t5(
            folder, gated=True, head_size=16, vocab_size=256_000, width=24, layers=1, spread=1
        ),
        T5_TABLE,
        "decoder.embed_tokens.weight",
    ),
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
    "llama, tied head that is there": lambda folder: tied_llama(folder, noise=0),
    "llama, tied head that differs": lambda folder: tied_llama(folder, noise=0.5),
    "llama, biases": lambda folder: write_llama(folder, attention_bias=True, mlp_bias=True),
    "llama, width that is not heads times size": lambda folder: write_llama(folder, width=33),
    "llama, linear rope": lambda folder: write_llama(
        folder, rope_scaling={"rope_type": "linear", "factor": 2.0}
    ),
    "llama, rope scaling with empty parameters": lambda folder: write_llama(
        folder, rope_scaling=LINEAR, rope_parameters={}
    ),
    "llama, rope parameters with empty scaling": lambda folder: write_llama(
        folder, rope_scaling={}, rope_parameters={**LINEAR, "rope_theta": 5e3}
    ),
    "llama, rope scaling and other parameters": lambda folder: write_llama(
        folder,
        rope_scaling=LINEAR,
        rope_theta=None,
        rope_parameters={"rope_type": "default", "rope_theta": 5e3},
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
    "mistral, a window of all positions": lambda folder: write_llama(
        folder, model_type="mistral", sliding_window=64, max_position_embeddings=64
    ),
    "mistral, keys that mean something to Llama only": lambda folder: with_config(
        write_llama(folder, model_type="mistral"), attention_bias=True, mlp_bias=True
    ),
    "qwen2": lambda folder: write_llama(
        folder, model_type="qwen2", use_sliding_window=False, sliding_window=4096, head_dim=None
    ),
    "qwen2, a window that the config does not use": lambda folder: write_llama(
        folder, model_type="qwen2", sliding_window=8
    ),
    "qwen2, a window of all positions": lambda folder: write_llama(
        folder, model_type="qwen2", use_sliding_window=True, sliding_window=128, max_window_layers=0
    ),
    "qwen3": lambda folder: write_llama(folder, model_type="qwen3", kv_heads=1, width=20),
    "qwen3, heads of the size that its config leaves out": lambda folder: write_llama(
        folder, model_type="qwen3", head_size=128, heads=2, width=30, layers=1, head_dim=None
    ),
}


def differences_after_export(source, out, draft=None):
    from edgespec_export.verify import differences

    export_pair(str(source), draft, out)
    exported = read_manifest(out).target
    return differences(source, exported, open_model(out, exported, "fp32", min_rows=2))


@one_in(2)
@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case, tmp_path):
    source = CASES[case](tmp_path / "checkpoint")
    for graph, difference in differences_after_export(source, tmp_path / "pair").items():
        assert difference <= 1e-5, graph
    invariance = read_manifest(tmp_path / "pair").target.variants["fp32"].row_invariance
    assert invariance.is_row_invariant
    assert invariance.max_rows == 17


@one_in(2)
@pytest.mark.parametrize("model", ["en-de-target", "en-de-draft"])
def test_the_shipped_models_compute_what_transformers_computes(model, tmp_path):
    """Relative to logits of about 30 and cross-attention values of about 100."""
    found = differences_after_export(MODELS / model, tmp_path / "pair")
    assert set(found) == {"encoder", "decoder"}
    assert max(found.values()) <= 2e-4


def test_a_file_grows_with_the_positions_by_the_rotary_tables_alone(tmp_path):
    """They are stored, because sines of a session have other bits on other processors."""
    sizes = {}
    for positions in (64, 8192):
        source = write_llama(tmp_path / f"{positions}", max_position_embeddings=positions)
        export_pair(str(source), None, tmp_path / f"pair-{positions}", measure=False)
        folder = tmp_path / f"pair-{positions}"
        sizes[positions] = (folder / "target/fp32/weights.data").stat().st_size
    head_size = read_manifest(folder).target.head_size
    tables = (8192 - 64) * head_size * 4  # cosines and sines of half a head's numbers
    page = 4096  # where tensors begin
    assert 0 <= sizes[8192] - sizes[64] - tables <= 2 * page


def test_positions_that_no_cache_can_hold_get_no_tables(tmp_path):
    source = write_llama(tmp_path / "checkpoint", max_position_embeddings=1_024_000)
    export_pair(str(source), None, tmp_path / "pair", measure=False)
    exported = read_manifest(tmp_path / "pair").target
    assert (exported.positions, exported.capacity) == (131072, 8192)
    model = open_model(tmp_path / "pair", exported, "fp32", min_rows=1, capacity=9)
    assert np.isfinite(model.score([3, 4, 5])).all()


def test_an_int8_export_uses_the_head_that_differs_from_the_embedding(tmp_path):
    source = tied_llama(tmp_path / "checkpoint", noise=1)
    export_pair(str(source), None, tmp_path / "pair", target_formats=["fp32", "int8"])
    assert read_manifest(tmp_path / "pair").target.variants["int8"].distance.kl < 0.02


def test_verify_fails_an_export_that_differs(tmp_path, monkeypatch):
    """The check can fail: an exporter that forgets the scale of the scores is caught."""
    from edgespec_export.families.llama_like.llama import Llama

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


def test_a_family_that_transformers_does_not_have_is_named():
    with pytest.raises(EdgespecError, match=r"family 'nosuch' .* \(known: t5, umt5, llama,"):
        transformers_class("nosuch")


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
        ({"rope_scaling": {"rope_type": "longrope", "factor": 4.0}}, "longrope"),
        ({"rope_scaling": {"rope_type": "ntk"}, "rope_parameters": {}}, "ntk"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 4.0, "twist": 2}}, "twist"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0.0}}, "divide by zero"),
        ({"sliding_window": 63}, "sliding_window = 63"),
        ({"head_dim": 15}, "head_dim is 15"),
        ({"hidden_act": "mish"}, "hidden_act = 'mish'"),
        ({"per_layer_config": {"0": {}}}, "per_layer_config = {'0': {}}"),
        ({"logit_softcap": 30.0, "transformers_version": "99.0"}, "logit_softcap = 30.0"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"model_type": "cohere2"}, "cohere2"),
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
    source = with_config(write_llama(tmp_path / "checkpoint", layers=3), num_hidden_layers=2)
    with pytest.raises(EdgespecError, match=r"does not account for, such as 'model\.layers\.2\."):
        export_pair(str(source), None, tmp_path / "pair")


@pytest.mark.parametrize("name", ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"])
def test_a_second_embedding_that_differs_from_the_first_is_refused_by_name(name, tmp_path):
    source = t5_with(name, 1e-3)(tmp_path / "checkpoint")
    with pytest.raises(EdgespecError, match=rf"'{name}' differs from 'shared\.weight'"):
        export_pair(str(source), None, tmp_path / "pair")


@pytest.mark.parametrize(
    ("write", "changes", "message"),
    [
        (write_llama, {"vocab_size": 9}, "'model.embed_tokens.weight' is [11, 30]"),
        (write_llama, {"hidden_size": 33}, "'model.embed_tokens.weight' is [11, 30]"),
        (write_llama, {"head_dim": 6}, "q_proj.weight' is [30, 30], and config.json asks for [18,"),
        (write_llama, {"num_attention_heads": 1}, "q_proj.weight' is [30, 30]"),
        (write_llama, {"num_key_value_heads": 1}, "k_proj.weight' is [30, 30]"),
        (write_llama, {"model_type": "qwen3"}, "has no tensor 'model.layers.0.self_attn.q_norm"),
        (write_t5, {"vocab_size": 12}, "'shared.weight' is [11, 26]"),
        (write_t5, {"num_heads": 5}, "relative_attention_bias.weight' is [8, 3]"),
        (write_t5, {"relative_attention_num_buckets": 6}, "config.json asks for [6, 3]"),
        (write_t5, {"d_kv": 8}, "SelfAttention.q.weight' is [30, 26]"),
    ],
)
def test_a_tensor_that_is_not_the_configs_is_refused_before_anything_is_written(
    write, changes, message, tmp_path
):
    source = with_config(write(tmp_path / "checkpoint"), **changes)
    with pytest.raises(EdgespecError) as caught:
        export_pair(str(source), None, tmp_path / "pair", measure=False)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("write", [write_llama, write_t5])
def test_a_config_with_a_value_of_any_wrong_kind_is_one_line(write, tmp_path):
    """A value that is accepted must be one that the key may have."""
    source = write(tmp_path / "checkpoint", layers=1)
    right = json.loads((source / "config.json").read_text())
    sizes = {key for key, value in right.items() if type(value) is int and "token_id" not in key}
    for key in right:
        for wrong in ("x", [], {}, -1, 0, 2.5, True, 10**30):
            try:
                family_of({**right, key: wrong}, "model")
            except EdgespecError as error:
                assert "\n" not in str(error)  # noqa: PT017 (some values are right)
            else:
                assert key not in sizes - {"intermediate_size", "d_ff"}, (key, wrong)
    for key in right:
        missing = {name: value for name, value in right.items() if name != key}
        try:
            family_of(missing, "model")
        except EdgespecError as error:
            assert key in str(error)  # noqa: PT017 (some keys have a default)
    with pytest.raises(EdgespecError, match="model_type is None"):
        family_of({}, "model")


def test_a_bias_that_transformers_would_not_read_is_refused(tmp_path):
    source = write_llama(tmp_path / "checkpoint", model_type="mistral", attention_bias=True)
    with pytest.raises(EdgespecError, match=r"does not account for, such as .*_proj\.bias"):
        export_pair(str(source), None, tmp_path / "pair")


# --- where a text starts --------------------------------------------------------------------------


def start_token(source):
    checkpoint = open_checkpoint(Source(source, "model"))
    return family_of(checkpoint.config, checkpoint.label).start_token


@pytest.mark.parametrize(
    ("generation", "config", "expected"), [(5, 7, 5), (5, None, 5), (None, 7, 7), (None, None, 0)]
)
def test_the_generation_config_says_first_what_a_decoder_starts_with(
    generation, config, expected, tmp_path
):
    source = write_t5(tmp_path / "checkpoint", layers=1, decoder_start_token_id=config)
    stated = {} if generation is None else {"decoder_start_token_id": generation}
    (source / "generation_config.json").write_text(json.dumps({"eos_token_id": 1, **stated}))
    assert start_token(source) == expected
    if generation is not None:
        from transformers import T5ForConditionalGeneration

        model = T5ForConditionalGeneration.from_pretrained(source)
        assert model.generate(torch.tensor([[3, 4]]), max_new_tokens=1)[0, 0] == expected


@pytest.mark.parametrize("wrong", [11, -1, [0], "0", 1.0, True])
def test_a_start_that_is_no_token_is_refused(wrong, tmp_path):
    source = write_t5(tmp_path / "checkpoint")
    (source / "generation_config.json").write_text(json.dumps({"decoder_start_token_id": wrong}))
    with pytest.raises(EdgespecError, match="decoder_start_token_id"):
        start_token(source)
