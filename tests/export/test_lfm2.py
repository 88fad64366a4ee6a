"""Claim: an LFM2 computes what transformers computes, within 1e-5, and its convolutions rewind.

Tiny random checkpoints with awkward sizes; none of these models was run with its real weights.
Heads of 16 take the fused attention operators, heads of 10 the standard ones. A convolution that
kept its last state only would pass as long as nothing is dropped: that mistake is planted.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import edgespec
from checkpoints import byte_tokenizer, write_noisy
from depth import DEEP, one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import Device
from edgespec.device.kernels import SWITCH, installed_kernels
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.components.attention.heads import Heads
from edgespec_export.components.attention.kv_cache import CACHES
from edgespec_export.components.blocks.short_convolution import ShortConvolution, cache_layers_for
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from edgespec_export.quantization.formats import FORMATS
from rotated_float import RotatedFloat

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CONV, ATTENTION = "conv", "full_attention"
SIZES = {
    "vocab_size": 272,
    "hidden_size": 48,
    "intermediate_size": 51,
    "block_auto_adjust_ff_dim": False,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "max_position_embeddings": 128,
    "initializer_range": 0.15,
    "layer_types": [CONV, CONV, ATTENTION, CONV],
    "bos_token_id": 1,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
CASES = {
    "fused attention": {},
    "standard attention": {"hidden_size": 30},
    "as many numbers as keys and values": {"num_key_value_heads": 3, "hidden_size": 96},
    "biases": {"conv_bias": True},
    "two taps": {"conv_L_cache": 2},
    "five taps": {"conv_L_cache": 5},
    "convolutions only": {"layer_types": 4 * [CONV]},
    "attention only": {"layer_types": 4 * [ATTENTION]},
    "a list of the layers with attention": {"layer_types": None, "full_attn_idxs": [1]},
    "its own head": {"tie_word_embeddings": False},
}


def write_lfm2(folder, **changes):
    torch.manual_seed(0)
    model = transformers.Lfm2ForCausalLM(transformers.Lfm2Config(**{**SIZES, **changes}))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:  # norms of 1 and biases of 0 would hide mistakes
                parameter += 0.2 * torch.randn(parameter.shape)
            elif name.endswith("conv.conv.weight"):
                parameter.normal_(0, 1)
    model.save_pretrained(folder)
    byte_tokenizer(272).save(str(folder / "tokenizer.json"))
    return folder


@one_in(2)
@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case, tmp_path):
    from edgespec_export.verify import differences

    source = write_lfm2(tmp_path / "checkpoint", **CASES[case])
    exported = export_pair(str(source), None, tmp_path / "pair", measure=False).target
    model = open_model(tmp_path / "pair", exported, "fp32", min_rows=2)
    assert differences(source, exported, model)["decoder"] <= 1e-5


@pytest.mark.parametrize(
    ("width", "kv_heads", "size", "layers"), [(48, 1, 16, 2), (2048, 8, 64, 2), (1024, 8, 64, 1)]
)
def test_a_convolution_takes_as_many_layers_of_the_cache_as_its_inputs_fill(
    width, kv_heads, size, layers
):
    heads = Heads(count=kv_heads, kv_count=kv_heads, size=size, scale=1.0)
    assert cache_layers_for(width, heads) == layers


# --- number formats, drafts, rewinds --------------------------------------------------------------


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lfm2")
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96}
    target = write_lfm2(folder / "target", **sizes)
    return target, write_noisy(target, folder / "draft", noise=0.1)


@pytest.fixture(scope="module")
def folder(checkpoints, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    export_pair(
        *map(str, checkpoints),
        folder,
        target_formats=list(FORMATS) if DEEP else ["fp32", "int8", "int4", "int8-groups"],
        cache_formats=["fp32", "fp16", "int8"],
        threads=1,
    )
    return folder


def test_number_formats_stay_near_the_model_and_keep_rows_apart(folder):
    exported = read_manifest(folder).target
    assert exported.layers == 1 + 3 * cache_layers_for(64, Heads(4, 1, 16, 1.0))
    for name, variant in exported.variants.items():
        assert variant.row_invariance.is_row_invariant, name
        if variant.run_by_kernels or not knows_layouts():
            assert variant.row_invariance.candidates == knows_layouts(), name
        limit = 0.2 if name.startswith("int4") else 0.02
        assert variant.distance is None or variant.distance.kl < limit, name


def knows_layouts():
    """Kernels follow them; without kernels a convolution runs by its body."""
    return installed_kernels() is not None


def test_blocks_are_single_operators(folder):
    variants = read_manifest(folder).target.variants
    for name in ("int8", "int4", "int8-groups", "int8-cache-int8"):
        blocks = variants[name].blocks["decoder"]
        assert (blocks.fused, blocks.total) == (8, 8), name


def test_sequences_that_share_calls_are_those_made_alone(folder):
    pair = edgespec.load(folder, threads=1, target_format="int8-cache-int8", capacity=64)
    assert pair.shares_calls == knows_layouts()
    generator = np.random.default_rng(0)
    prompts = [[int(t) for t in generator.integers(3, 272, size=n)] for n in (1, 2, 9, 30, 4)]
    given = {"max_new_tokens": 8, "logprobs": True, "ignore_eos": True}
    together = pair.generate_many(prompts, texts=4, **given)
    for prompt, result in zip(prompts, together, strict=True):
        alone = pair.generate(prompt, **given)
        assert result.token_ids == alone.token_ids
        assert result.logprobs == alone.logprobs


VARIANTS = ["fp32", "int8", "int4", "int8-cache-int8", "fp32-cache-fp16"]


@one_in(2)
@pytest.mark.parametrize("kernels", ["1", "0"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_text_with_a_draft_is_the_targets_own(folder, variant, kernels, monkeypatch):
    monkeypatch.setenv(SWITCH, kernels)
    pair = edgespec.load(folder, threads=1, target_format=variant)
    accepted = evaluated = 0
    for seed in range(6 if DEEP else 3):
        prompt = [int(t) for t in np.random.default_rng(seed).integers(3, 272, size=1 + seed)]
        for options in ({}, {"temperature": 1.0, "seed": seed}):
            given = {"max_new_tokens": 24, "logprobs": True, "ignore_eos": True, **options}
            plain = pair.generate(prompt, draft=False, **given)
            for gamma in (1, 4, 8):
                drafted = pair.generate(prompt, gamma=gamma, **given)
                assert drafted.token_ids == plain.token_ids
                assert drafted.logprobs == plain.logprobs
                accepted += drafted.stats.accepted
                evaluated += drafted.stats.evaluated
    assert 0 < accepted < evaluated


def change_by_dropped_tokens(folder, variant):
    """Largest |difference| of logits after tokens were dropped, from those of a fresh model."""
    exported = read_manifest(folder).target
    used, fresh = (
        open_model(folder, exported, variant, device=Device(1), min_rows=2) for _ in range(2)
    )
    prompt, dropped, text = [5, 9, 44, 8], [100, 7, 61, 30], [12, 31, 8]
    for model in (used, fresh):
        pending = model.prefill(prompt)
    length = used.length
    used.score([pending, *dropped])
    used.rewind(length)
    pieces = [[pending, text[0]], text[1:]]
    ours, expected = ([model.score(piece).copy() for piece in pieces] for model in (used, fresh))
    return float(np.abs(np.concatenate(ours) - np.concatenate(expected)).max())


@one_in(2, turn=1)
@pytest.mark.parametrize("kernels", ["1", "0"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_after_a_rewind_no_convolution_reads_a_dropped_token(folder, variant, kernels, monkeypatch):
    monkeypatch.setenv(SWITCH, kernels)
    assert change_by_dropped_tokens(folder, variant) == 0


def _with_last_state_only(self, g, buffer, rows, positions, slots):
    """`gathered` of a cache that holds, instead of all rows, the last two of the latest call."""
    past = g.input(buffer.past, np.float32, buffer.shape)
    state = g.op.Slice(past, g.ints(0), g.ints(2), g.ints(2))
    joined = g.op.Concat(state, rows, axis=2)
    last = g.op.Slice(joined, g.ints(-2), g.ints(np.iinfo(np.int64).max), g.ints(2))
    present = g.op.TensorScatter(past, last, g.ints(0), axis=2)
    g.output(buffer.present, present, np.float32, buffer.shape)
    return g.op.Gather(joined, g.op.Add(g.op.Sub(slots, positions.past), g.ints(2)), axis=2)


def test_a_convolution_that_keeps_its_last_state_only_is_found(checkpoints, tmp_path, monkeypatch):
    """It is right as long as nothing is dropped."""
    from edgespec_export.verify import differences

    monkeypatch.setattr(CACHES["fp32"], "gathered", _with_last_state_only)
    monkeypatch.setattr(ShortConvolution, "has_operators", False)
    out = tmp_path / "pair"
    exported = export_pair(str(checkpoints[0]), None, out, measure=False).target
    model = open_model(out, exported, "fp32", min_rows=2)
    assert differences(checkpoints[0], exported, model)["decoder"] <= 1e-5
    assert change_by_dropped_tokens(out, "fp32") > 1e-2


def test_int8_rotates_the_products_that_a_convolution_makes(checkpoints, tmp_path, monkeypatch):
    """The rotation alone, with float32 matrices, changes nothing."""
    from test_hadamard import change_by_rotation

    monkeypatch.setitem(FORMATS, "rotated", replace(FORMATS["fp32"], make=RotatedFloat))
    assert change_by_rotation(checkpoints[0], tmp_path / "pair") <= 1e-5
    stream = family_of({"model_type": "lfm2", **SIZES}, "model").residual_stream()
    assert "model.layers.0.conv.out_proj.weight" in stream.down_projs
    assert "model.layers.2.self_attn.out_proj.weight" not in stream.down_projs


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"per_layer_config": {"0": 1}}, "per_layer_config = "),
        ({"conv_L_cache": 1}, "conv_L_cache is 1"),
        ({"conv_dim": 96}, "conv_dim = 96"),
        ({"block_dim": 96}, "block_dim = 96"),
        ({"num_heads": 4}, "num_heads = 4"),
        ({"use_pos_enc": False}, "use_pos_enc = False"),
        ({"block_use_swiglu": False}, "block_use_swiglu = False"),
        ({"layer_types": [CONV]}, "layer_types has 1 of 4 layers"),
        ({"layer_types": 4 * ["mamba"]}, "mamba"),
        ({"rope_parameters": {"rope_type": "longrope", "factor": 4.0}}, "longrope"),
    ],
)
def test_a_config_that_is_not_understood_is_refused_by_name(settings, named):
    with pytest.raises(EdgespecError, match=named) as error:
        family_of({"model_type": "lfm2", **SIZES, **settings}, "model")
    assert "\n" not in str(error.value)


def test_a_published_config_is_understood():
    """Keys of LFM2-1.2B's, most of which repeat others."""
    values = {
        "model_type": "lfm2",
        "block_auto_adjust_ff_dim": True,
        "block_dim": 2048,
        "block_ff_dim": 12288,
        "block_ffn_dim_multiplier": 1.0,
        "block_mlp_init_scale": 1.0,
        "block_multiple_of": 256,
        "block_norm_eps": 1e-5,
        "block_out_init_scale": 1.0,
        "block_use_swiglu": True,
        "block_use_xavier_init": True,
        "conv_L_cache": 3,
        "conv_bias": False,
        "conv_dim": 2048,
        "conv_dim_out": 2048,
        "conv_use_xavier_init": True,
        "full_attn_idxs": [2, 5, 8, 10, 12, 14],
        "hidden_size": 2048,
        "norm_eps": 1e-5,
        "num_attention_heads": 32,
        "num_heads": 32,
        "num_hidden_layers": 16,
        "num_key_value_heads": 8,
        "rope_theta": 1e6,
        "tie_embedding": True,
        "use_pos_enc": True,
        "vocab_size": 65536,
    }
    family = family_of(values, "model")
    assert family.kinds.count(ATTENTION) == 6
    assert family.cache_layers == 6 + 10 * 2
