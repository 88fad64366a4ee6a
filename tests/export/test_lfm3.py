"""Claim: an LFM3 computes what transformers computes, within 1e-5, across windows and rewinds.

Tiny random checkpoints with awkward sizes; none of these models was run with its real weights.
Sequences of 60 tokens cross windows of 7 several times, and convolutions read seven positions.
"""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from test_hadamard import change_by_rotation

import edgespec
from checkpoints import byte_tokenizer, write_noisy
from depth import one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.components.blocks.self_attention import GatedHeads
from edgespec_export.components.blocks.short_convolution import ShortConvolution
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from edgespec_export.families.lfm.lfm3 import Lfm3
from edgespec_export.families.rotary import rope
from edgespec_export.quantization.formats import FORMATS
from rotated_float import RotatedFloat

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CONV, GLOBAL, WINDOWED = "conv", "full_attention", "sliding_attention"
WINDOW = 7
SIZES = {
    "vocab_size": 272,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "sliding_window": WINDOW,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
TOKENS = [int(token) for token in np.random.default_rng(7).integers(3, 272, size=60)]


def write_lfm3(folder, **changes):
    """Norms of all sizes, attention that depends on its context, gates that are open or shut."""
    torch.manual_seed(0)
    model = transformers.Lfm3ForCausalLM(transformers.Lfm3Config(**{**SIZES, **changes}))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.2)
            elif any(part in name for part in ("q_proj", "k_proj", "g_proj", "conv.conv")):
                parameter.normal_(0, 0.5)
            else:
                parameter.normal_(0, (3 if "embed" in name else 1) * parameter.shape[-1] ** -0.5)
    model.save_pretrained(folder)
    byte_tokenizer(272).save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A model, and its export with a draft."""
    folder = tmp_path_factory.mktemp("lfm3")
    source = write_lfm3(folder / "target")
    export_pair(
        str(source),
        str(write_noisy(source, folder / "draft", noise=0.1)),
        folder / "pair",
        target_formats=["fp32", "int8", "int4"],
        draft_formats=["fp32"],
        threads=1,
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(source).eval()
    return SimpleNamespace(model=model, source=source, pair=folder / "pair")


def opened(folder, variant="fp32"):
    return open_model(folder, read_manifest(folder).target, variant, min_rows=2)


def in_calls_of(model, count, tokens):
    calls = (tokens[first : first + count] for first in range(0, len(tokens), count))
    return np.concatenate([model.score(call).copy() for call in calls])


def test_logits_are_those_of_transformers_at_every_position(case):
    ours = opened(case.pair)
    found = in_calls_of(ours, 7, [ours.prefill(TOKENS[:3]), *TOKENS[3:]])
    with torch.inference_mode():
        expected = case.model(torch.tensor([TOKENS]), use_cache=False).logits[0, 2:].numpy()
    assert np.abs(found - expected).max() <= 5e-5
    assert expected.std() > 0.5


@pytest.mark.parametrize("variant", ["fp32", "int8", "int4"])
def test_positions_after_a_rewind_have_the_same_bits(case, variant):
    """Across windows and the positions that a convolution reads."""
    model = opened(case.pair, variant)
    rows = in_calls_of(model, 7, [model.prefill(TOKENS[:3]), *TOKENS[3:]])
    for length in (40, 11, 2):
        model.rewind(length)
        assert np.array_equal(in_calls_of(model, 5, TOKENS[length:]), rows[length - 2 :])


def test_a_prompt_may_be_read_in_pieces(case):
    whole, pieces = opened(case.pair), opened(case.pair)
    pending = whole.prefill(TOKENS[:50])
    in_calls_of(pieces, 6, [pieces.prefill(TOKENS[:3]), *TOKENS[3:49]])
    difference = whole.score([pending, *TOKENS[50:53]]) - pieces.score([pending, *TOKENS[50:53]])
    assert np.abs(difference).max() <= 5e-5


@pytest.mark.parametrize("variant", ["fp32", "int8", "int4"])
def test_a_sequence_with_a_draft_is_the_targets_own(case, variant):
    pair = edgespec.load(case.pair, target_format=variant, threads=1)
    accepted = evaluated = 0
    for options in ({}, {"temperature": 1.0, "seed": 5}):
        given = {"max_new_tokens": 24, "logprobs": True, "ignore_eos": True, **options}
        plain = pair.generate(TOKENS[:5], draft=False, **given)
        for gamma in (1, 4):
            drafted = pair.generate(TOKENS[:5], gamma=gamma, **given)
            assert drafted.token_ids == plain.token_ids
            assert drafted.logprobs == plain.logprobs
            accepted += drafted.stats.accepted
            evaluated += drafted.stats.evaluated
    assert 0 < accepted < evaluated


def test_number_formats_stay_near_the_model_and_keep_rows_apart(case):
    variants = read_manifest(case.pair).target.variants
    assert len(variants) == 3
    for name, variant in variants.items():
        assert variant.row_invariance.is_row_invariant, name
        limit = 1.0 if name == "int4" else 0.05  # int4 of random weights is far from them
        assert variant.distance is None or variant.distance.kl < limit, name


@pytest.mark.parametrize("variant", ["int8", "int4"])
def test_convolutions_and_feed_forwards_are_single_operators(case, variant):
    """No operator has the gates of heads: two of five layers attend."""
    blocks = read_manifest(case.pair).target.variants[variant].blocks["decoder"]
    assert (blocks.fused, blocks.total) == (8, 10)


def test_the_rotations_of_int8_alone_change_nothing(case, tmp_path, monkeypatch):
    monkeypatch.setitem(FORMATS, "rotated", replace(FORMATS["fp32"], make=RotatedFloat))
    assert change_by_rotation(case.source, tmp_path / "pair") <= 1e-5


# --- other configs, and mistakes ------------------------------------------------------------------


def difference(source, out):
    """From transformers, in float32."""
    from edgespec_export.verify import differences

    exported = export_pair(str(source), None, out, measure=False, threads=1).target
    return differences(source, exported, open_model(out, exported, "fp32", min_rows=2))["decoder"]


STRETCHED = {"rope_type": "proportional", "partial_rotary_factor": 0.75, "factor": 2.0}
CONFIGS = {
    "heads of 10": {"head_dim": 10},
    "neither gates nor norms after": {"use_attention_gate": False, "use_sandwich_norm": False},
    "biases of convolutions": {"conv_bias": True},
    "three taps": {"conv_L_cache": 3},
    "a list of layers": {"layer_types": [WINDOWED, CONV, WINDOWED, CONV, CONV]},
    "other positions": {
        "rope_parameters": {
            GLOBAL: {**STRETCHED, "rope_theta": 5e3},
            WINDOWED: {"rope_type": "default", "rope_theta": 300.0},
        }
    },
    "a window of all positions": {"sliding_window": 128},
    "its own head": {"tie_word_embeddings": False},
}


@one_in(2)
@pytest.mark.parametrize("config", CONFIGS)
def test_other_configs_are_understood(config, tmp_path):
    source = write_lfm3(tmp_path / "checkpoint", **CONFIGS[config])
    assert difference(source, tmp_path / "pair") <= 5e-5


def test_gates_have_the_name_that_is_published_or_that_of_the_class(case, tmp_path):
    tensors = load_file(case.source / "model.safetensors")
    gates = {name for name in tensors if "g_proj" in name or "self_attn.gate_proj" in name}
    assert len(gates) == 2
    found = []
    for part in ("g_proj", "gate_proj"):
        folder = tmp_path / part
        folder.mkdir()
        for file in ("config.json", "tokenizer.json"):
            (folder / file).write_bytes((case.source / file).read_bytes())
        named = {
            name.replace("gate_proj", "g_proj").replace("g_proj", part)
            if name in gates
            else name: x
            for name, x in tensors.items()
        }
        save_file(named, folder / "model.safetensors", {"format": "pt"})
        export_pair(str(folder), None, tmp_path / f"{part}-pair", measure=False, threads=1)
        found.append(opened(tmp_path / f"{part}-pair").score(TOKENS[:9]).copy())
    assert np.array_equal(*found)


def patched(patch, owner, name, change):
    right = getattr(owner, name)
    patch.setattr(owner, name, lambda self, *given: change(right(self, *given)))


def _reversed(taps):
    return taps[::-1].copy()


def _wider(block):
    attention = block.mixer.attention
    window = attention.heads.window
    heads = replace(attention.heads, window=window and window + 1)
    return replace(block, mixer=GatedHeads(replace(attention, heads=heads)))


def _of_the_sum(blocks):
    mixing, block = blocks
    return mixing, replace(block, post_norm=block.sum_norm, sum_norm=block.post_norm)


MISTAKES = {
    "a window one position wider": lambda p: patched(p, Lfm3, "_attention_block", _wider),
    "heads without gates": lambda p: p.setattr(
        GatedHeads, "emit", lambda self, g, inputs, call: self.attention.emit(g, inputs[:3], call)
    ),
    "a norm of the sum": lambda p: patched(p, Lfm3, "layer", _of_the_sum),
    "frequencies of the turned part": lambda p: p.setattr(
        rope, "_proportional", lambda config, size, *rest: rope.partial_rotary(
            _as_default(config), size, size // 2, *rest
        )
    ),
    "taps in the other order": lambda p: patched(p, ShortConvolution, "_taps_of", _reversed),
}  # fmt: skip


def _as_default(config):
    settings = {**config.get("rope_parameters"), "rope_type": "default"}
    return type(config)({"rope_parameters": settings}, "model")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_changes_the_logits(mistake, case, tmp_path, monkeypatch):
    MISTAKES[mistake](monkeypatch)
    assert difference(case.source, tmp_path / "pair") > 1e-2


# --- configs --------------------------------------------------------------------------------------


def test_the_class_s_defaults_are_the_published_model():
    """24 layers: 13 convolutions, 5 with windows, 6 global."""
    written = transformers.Lfm3Config().to_dict()
    for values in (written, {"model_type": "lfm3"}):
        family = family_of(json.loads(json.dumps(values)), "model")
        kinds = [family.kinds.count(kind) for kind in (CONV, WINDOWED, GLOBAL)]
        assert (kinds, family.taps, family.window) == ([13, 5, 6], 7, 256)
        assert family.cache_layers == 5 + 6 + 13 * 2
        turned = (family.rotary_of[GLOBAL].frequencies > 0).sum()
        assert (turned, len(family.rotary_of[GLOBAL].frequencies)) == (32, 64)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"attention_bias": True}, "attention_bias = True"),
        ({"conv_L_cache": 1}, "conv_L_cache is 1"),
        ({"layer_types": [CONV]}, "layer_types has 1 of 5 layers"),
        ({"layer_types": 5 * ["mamba"]}, "mamba"),
        ({"sliding_window": None}, "sliding_window is null"),
        ({"sliding_window": 0}, "sliding_window is 0"),
        ({"rope_parameters": {"rope_theta": 1e4}}, r"rope_parameters has \['rope_theta'\]"),
        ({"rope_parameters": {GLOBAL: {"rope_type": "default"}}}, "rope_parameters has"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rope_scaling = "),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5"),
        ({"per_layer_config": {"0": 1}}, "per_layer_config = "),
    ],
)
def test_a_config_that_is_not_understood_is_refused_by_name(change, words):
    with pytest.raises(EdgespecError, match=words) as error:
        family_of({"model_type": "lfm3", **SIZES, **change}, "model")
    assert "\n" not in str(error.value)
