"""Claim: OLMo 2 and 3, EXAONE 4, Gemma 1 and 2 compute what transformers computes, within 1e-4.

Tiny random checkpoints; none of these models was run with its real weights. Texts of 60 tokens
cross windows of 7 several times, and scores reach the caps.
"""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from test_hadamard import change_by_rotation

import edgespec
from checkpoints import write_noisy
from depth import DEEP, deep, one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.components.attention.heads import Heads
from edgespec_export.components.blocks.self_attention import NormedRows, SelfAttention
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from edgespec_export.families.family import Family
from edgespec_export.families.gemma.gemma2 import Gemma, Gemma2
from edgespec_export.families.llama_like.norms_after import NormsAfter
from edgespec_export.families.windows import GLOBAL, WINDOWED
from edgespec_export.quantization.formats import FORMATS
from norms_checkpoints import MODELS, SIZES, WINDOW, write_model
from rotated_float import RotatedFloat

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TEXT = [int(token) for token in np.random.default_rng(7).integers(3, 272, size=60)]


TARGET_FORMATS = ["fp32", "int8", "int4", *(["fp16"] if DEEP else [])]
CACHE_FORMATS = ["fp32", "int8"]

# Gemma 2 has what Gemma has, and OLMo 3 what OLMo 2 has.
SIMPLER = ("Gemma", "Olmo2")


@pytest.fixture(
    scope="module", params=[pytest.param(n, marks=deep) if n in SIMPLER else n for n in MODELS]
)
def case(request, made_once):
    """A model, and its export with a draft."""

    def make(folder):
        source = write_model(folder / "target", request.param)
        draft = write_noisy(source, folder / "draft", noise=0.1)
        export_pair(
            str(source),
            str(draft),
            folder / "pair",
            target_formats=TARGET_FORMATS,
            draft_formats=["fp32"],
            cache_formats=CACHE_FORMATS,
            threads=1,
        )

    folder = made_once(f"norms-{request.param}", make)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "target").eval()
    return SimpleNamespace(name=request.param, model=model, pair=folder / "pair")


def opened(folder, variant="fp32"):
    return open_model(folder, read_manifest(folder).target, variant, min_rows=2)


def in_calls_of(model, count, tokens):
    calls = (tokens[first : first + count] for first in range(0, len(tokens), count))
    return np.concatenate([model.score(call).copy() for call in calls])


def test_logits_are_those_of_transformers_at_every_position(case):
    ours = opened(case.pair)
    found = in_calls_of(ours, 7, [ours.prefill(TEXT[:3]), *TEXT[3:]])
    with torch.inference_mode():
        expected = case.model(torch.tensor([TEXT]), use_cache=False).logits[0, 2:].numpy()
    assert np.abs(found - expected).max() <= 1e-4
    assert expected.std() > 0.5


@one_in(2)
@pytest.mark.parametrize("variant", ["fp32", "int8-cache-int8"])
def test_positions_after_a_rewind_across_windows_have_the_same_bits(case, variant):
    model = opened(case.pair, variant)
    rows = in_calls_of(model, 7, [model.prefill(TEXT[:3]), *TEXT[3:]])
    for length in (40, 11, 2):
        model.rewind(length)
        assert np.array_equal(in_calls_of(model, 5, TEXT[length:]), rows[length - 2 :])


def test_a_prompt_may_be_read_in_pieces(case):
    whole, pieces = opened(case.pair), opened(case.pair)
    pending = whole.prefill(TEXT[:50])
    in_calls_of(pieces, 6, [pieces.prefill(TEXT[:3]), *TEXT[3:49]])
    difference = whole.score([pending, *TEXT[50:53]]) - pieces.score([pending, *TEXT[50:53]])
    assert np.abs(difference).max() <= 1e-4


def test_greedy_tokens_are_those_of_transformers(case):
    pair = edgespec.load(case.pair, target_format="fp32", threads=1)
    found = pair.generate(TEXT[:5], max_new_tokens=30, ignore_eos=True, draft=False).token_ids
    tokens = TEXT[:5]
    with torch.inference_mode():
        for _ in range(30):
            last = case.model(torch.tensor([tokens]), use_cache=False).logits[0, -1]
            tokens = [*tokens, int(last.argmax())]
    assert found == tokens[5:]


@one_in(2)
@pytest.mark.parametrize("variant", ["fp32", "int8", "int4", "int8-cache-int8"])
def test_a_text_with_a_draft_is_the_targets_own(case, variant):
    pair = edgespec.load(case.pair, target_format=variant, threads=1)
    accepted = evaluated = 0
    for options in ({}, {"temperature": 1.0, "seed": 5}):
        given = {"max_new_tokens": 24, "logprobs": True, "ignore_eos": True, **options}
        plain = pair.generate(TEXT[:5], draft=False, **given)
        for gamma in (1, 4):
            drafted = pair.generate(TEXT[:5], gamma=gamma, **given)
            assert drafted.token_ids == plain.token_ids
            assert drafted.logprobs == plain.logprobs
            accepted += drafted.stats.accepted
            evaluated += drafted.stats.evaluated
    assert 0 < accepted < evaluated


def test_number_formats_stay_near_the_model_and_keep_rows_apart(case):
    variants = read_manifest(case.pair).target.variants
    assert len(variants) == len(TARGET_FORMATS) * len(CACHE_FORMATS)
    for name, variant in variants.items():
        assert variant.row_invariance.is_row_invariant, name
        limit = 0.3 if name.startswith("int4") else 0.02
        assert variant.distance is None or variant.distance.kl < limit, name


FUSED = {"Gemma": 8, "Gemma2": 4}  # of 8 blocks; other blocks have no norm before them


@pytest.mark.parametrize("variant", ["int8", "int4"])
def test_blocks_are_fused_where_there_is_an_operator(case, variant):
    blocks = read_manifest(case.pair).target.variants[variant].blocks["decoder"]
    assert (blocks.fused, blocks.total) == (FUSED.get(case.name, 0), 8)


# --- one config after the other -------------------------------------------------------------------


def difference(source, out):
    """From transformers, in float32."""
    from edgespec_export.verify import differences

    export_pair(str(source), None, out, measure=False, threads=1)
    exported = read_manifest(out).target
    return differences(source, exported, open_model(out, exported, "fp32", min_rows=2))["decoder"]


BASES = {
    WINDOWED: {"rope_type": "default", "rope_theta": 300.0},
    GLOBAL: {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5},
}
NO_WINDOWS = {"sliding_window": None, "layer_types": 4 * [GLOBAL]}
CONFIGS = {
    "OLMo 2 with biases and its own head size": ("Olmo2", {"attention_bias": True}),
    "OLMo 2, heads of 10": ("Olmo2", {"hidden_size": 40}),
    "OLMo 3, positions by kind": ("Olmo3", {"rope_parameters": BASES}),
    "OLMo 3, layers as listed": ("Olmo3", {"layer_types": [GLOBAL, *3 * [WINDOWED]]}),
    "EXAONE 4 without windows": ("Exaone4", NO_WINDOWS),
    "EXAONE 4, every second layer": ("Exaone4", {"sliding_window_pattern": 2}),
    "EXAONE 4, a tied head": ("Exaone4", {"tie_word_embeddings": True}),
    "Gemma 1, its older activation": ("Gemma", {"hidden_act": "gelu"}),
    "Gemma 2 without caps": (
        "Gemma2",
        {"attn_logit_softcapping": None, "final_logit_softcapping": None},
    ),
    "Gemma 2, only global layers": ("Gemma2", {"layer_types": 4 * [GLOBAL]}),
}


@one_in(2)
@pytest.mark.parametrize("config", CONFIGS)
def test_other_configs_are_understood(config, tmp_path):
    name, changes = CONFIGS[config]
    source = write_model(tmp_path / "checkpoint", name, **changes)
    assert difference(source, tmp_path / "pair") <= 1e-4


def test_an_older_config_scales_the_global_layers_of_an_olmo_3_only(tmp_path):
    linear = {"rope_type": "linear", "factor": 8.0}
    bases = {WINDOWED: {"rope_type": "default", "rope_theta": 5e5}, GLOBAL: BASES[GLOBAL]}
    source = write_model(tmp_path / "checkpoint", "Olmo3", rope_parameters=bases)
    newer = difference(source, tmp_path / "newer")
    config = json.loads((source / "config.json").read_text())
    del config["rope_parameters"], config["layer_types"]
    config |= {"rope_theta": 500000, "rope_scaling": linear}
    (source / "config.json").write_text(json.dumps(config))
    assert max(newer, difference(source, tmp_path / "older")) <= 1e-4
    logits = [opened(tmp_path / form).score(TEXT[:9]) for form in ("newer", "older")]
    assert np.array_equal(*logits)


# --- mistakes that must be found ------------------------------------------------------------------


def patched(patch, owner, name, change):
    right = getattr(owner, name)
    patch.setattr(owner, name, lambda self, *given: change(right(self, *given)))


def _head_by_head(self, g, inputs, call):
    q, k, v = inputs
    ones = g.constant(np.ones(self.heads.size), np.float32)
    normed = []
    for x, norm in ((q, self.q_norm), (k, self.k_norm)):
        heads = g.op.Reshape(x, g.ints(-1, self.heads.size))
        rows = g.op.RMSNormalization(heads, ones, axis=-1, epsilon=norm.epsilon)
        normed.append(g.op.Mul(g.op.Reshape(rows, g.op.Shape(x)), g.weight(norm.weight)))
    return SelfAttention(self.layer, self.heads).emit(g, [*normed, v], call)


def _of_the_sum(block):
    return replace(block, post_norm=block.sum_norm, sum_norm=block.post_norm)


def _wider(block):
    heads = block.mixer.heads
    wider = replace(heads, window=heads.window and heads.window + 1)
    return replace(block, mixer=replace(block.mixer, heads=wider))


def _change_heads(patch, **changes):
    patched(patch, Gemma2, "_heads_of", lambda heads: replace(heads, **changes))


def _same_for_all(encodings):
    return [encodings[0]] * len(encodings)


MISTAKES = {
    "norms of heads, not of rows": (
        "Olmo2",
        lambda patch: patch.setattr(NormedRows, "emit", _head_by_head),
    ),
    "a norm of the sum": (
        "Olmo2",
        lambda patch: patched(patch, NormsAfter, "_feed_forward_block", _of_the_sum),
    ),
    "a window one position wider": (
        "Olmo3",
        lambda patch: patched(patch, NormsAfter, "_attention_block", _wider),
    ),
    "global layers that rotate": (
        "Exaone4",
        lambda patch: patched(patch, NormsAfter, "encodings", _same_for_all),
    ),
    "norms that multiply by w": (
        "Gemma",
        lambda patch: patch.setattr(Gemma, "view", lambda self, weights: weights),
    ),
    "scores without a cap": ("Gemma2", lambda patch: _change_heads(patch, cap=None)),
    "scores by the head's size": ("Gemma2", lambda patch: _change_heads(patch, scale=0.25)),
    "no windows": ("Gemma2", lambda patch: _change_heads(patch, window=None)),
    "logits without a cap": (
        "Gemma2",
        lambda patch: patch.setattr(Gemma2, "emit_logits", _without_cap),
    ),
}
_emit_logits = Gemma2.emit_logits


def _without_cap(self, *given):
    _emit_logits(replace(self, logit_cap=None), *given)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_changes_the_logits(mistake, tmp_path, monkeypatch):
    name, plant = MISTAKES[mistake]
    plant(monkeypatch)
    source = write_model(tmp_path / "checkpoint", name)
    assert difference(source, tmp_path / "pair") > 1e-2


# --- int8 without a rotated stream ----------------------------------------------------------------


@one_in(2)
@pytest.mark.parametrize("name", ["Olmo2", "Exaone4", "Gemma", "Gemma2"])
def test_the_rotations_of_int8_alone_change_nothing(name, tmp_path, monkeypatch):
    monkeypatch.setitem(FORMATS, "rotated", replace(FORMATS["fp32"], make=RotatedFloat))
    source = write_model(tmp_path / "checkpoint", name)
    assert change_by_rotation(source, tmp_path / "pair") <= 1e-5


def test_a_stream_that_wrongly_says_it_is_rotated_gives_another_model(tmp_path, monkeypatch):
    patched(monkeypatch, Family, "residual_stream", lambda stream: replace(stream, is_rotated=True))
    source = write_model(tmp_path / "checkpoint", "Olmo2")
    export_pair(str(source), None, tmp_path / "pair", target_formats=["fp32", "int8"], threads=1)
    assert read_manifest(tmp_path / "pair").target.variants["int8"].distance.kl > 0.1


def test_a_window_of_all_positions_hides_nothing():
    config = {**SIZES, **MODELS["Olmo3"], "model_type": "olmo3"}
    family = family_of(config, "model")
    wide = family_of({**config, "sliding_window": SIZES["max_position_embeddings"]}, "model")
    windows = [
        [block.mixer.heads.window for block in shape.blocks() if hasattr(block, "mixer")]
        for shape in (family, wide)
    ]
    assert windows == [[WINDOW, WINDOW, WINDOW, None], 4 * [None]]
    assert isinstance(family.heads, Heads)


# --- configs that are refused ---------------------------------------------------------------------

LONG = {"rope_type": "longrope", "factor": 8.0}


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("olmo3", {"rope_scaling": LONG}, "rope scaling 'longrope'"),
        (
            "olmo3",
            {"rope_parameters": {"rope_theta": 5e5}},
            r"rope_parameters has \['rope_theta'\]",
        ),
        ("olmo3", {"rope_theta": 1e4}, "rope_theta = 10000.0, which transformers reads"),
        ("olmo3", {"layer_types": [GLOBAL]}, "layer_types has 1 of 4 layers"),
        ("olmo3", {"layer_types": 4 * ["chunked_attention"]}, "chunked_attention"),
        ("exaone4", {"sliding_window": 0}, "sliding_window is 0"),
        ("exaone4", {"sliding_window": None, "layer_types": 4 * [WINDOWED]}, "is null"),
        ("exaone4", {"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5"),
        ("olmo2", {"per_layer_config": {"0": 1}}, "per_layer_config = "),
        ("gemma", {"hidden_act": "silu"}, "hidden_act = 'silu'"),
        ("gemma", {"use_bidirectional_attention": True}, "generates no text"),
        ("gemma2", {"attn_logit_softcapping": 0}, "attn_logit_softcapping is 0"),
        ("gemma2", {"attention_bias": True}, "attention_bias = True"),
        ("gemma2", {"hidden_activation": "silu"}, "hidden_activation = 'silu'"),
        ("gemma2", {"layer_types": 3 * [GLOBAL]}, "layer_types has 3 of 4 layers"),
    ],
)
def test_a_config_that_is_not_understood_is_refused_by_name(name, change, words):
    values = {"model_type": name, "sliding_window": WINDOW, **SIZES, **change}
    with pytest.raises(EdgespecError, match=words):
        family_of(values, "model")
