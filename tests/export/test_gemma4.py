"""Claim: a Gemma 4 computes what transformers computes, beyond its windows and in shared layers.

Tiny random checkpoints; texts of 35 tokens and windows of 7. No Gemma 4 was run with its real
weights.
"""

from __future__ import annotations

import re

import numpy as np
import onnx_ir as ir
import pytest

import edgespec
from checkpoints import write_noisy
from depth import one_in
from edgespec.artifact.graph_io import DECODER, LAYOUTS_SINCE, LayerShape
from edgespec.artifact.manifest import read_manifest
from edgespec.device.kernels import SWITCH
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.components.blocks import shared_attention
from edgespec_export.components.blocks.shared_attention import NormedValues
from edgespec_export.components.norms.norm import NoNorm
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from edgespec_export.families.gemma import gemma4
from edgespec_export.families.gemma.gemma4 import Gemma4
from edgespec_export.operators.attention.kept_attention import KEPT_ATTENTION, KEPT_SINCE
from gemma4_checkpoints import GLOBAL, LOCAL, SIZES, write_gemma4
from operator_calls import has_kernel

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CASES = {
    "E2B: shared layers, per-layer embeddings, a vision tower": {
        "vision": True,
        "use_bidirectional_attention": "vision",
    },
    "31B: keys that are values": {
        "hidden_size_per_layer_input": 0,
        "num_kv_shared_layers": 0,
        "attention_k_eq_v": True,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_global_key_value_heads": 1,
    },
    "standard attention, other positions": {
        "head_dim": 12,
        "global_head_dim": 20,
        "rope_parameters": {
            LOCAL: {"rope_type": "default", "rope_theta": 300.0},
            GLOBAL: {
                **{"rope_type": "proportional", "partial_rotary_factor": 0.5},
                **{"rope_theta": 1e4, "factor": 4.0},
            },
        },
    },
    "a last layer that says it is windowed, an own head": {
        "layer_types": [LOCAL, GLOBAL, *4 * [LOCAL]],
        "num_kv_shared_layers": 2,
        "tie_word_embeddings": False,
        "final_logit_softcapping": None,
        "sliding_window": 1,
    },
}


def logits_differ(source, out):
    """From transformers', in float32."""
    from edgespec_export.verify import differences

    export_pair(str(source), None, out, measure=False)
    exported = read_manifest(out).target
    model = open_model(out, exported, "fp32", min_rows=2)
    return differences(source, exported, model)["decoder"]


@one_in(2)
@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case, tmp_path):
    source = write_gemma4(tmp_path / "checkpoint", **CASES[case])
    assert logits_differ(source, tmp_path / "pair") <= 1e-4


def test_a_published_config_means_the_same_as_one_that_transformers_saves(tmp_path):
    """Published ones say the sizes of global heads in keys, saved ones layer by layer."""
    saved = transformers.Gemma4TextConfig(**SIZES).to_dict()
    assert "global_head_dim" not in saved
    one, other = (family_of(c, "m") for c in (saved, {"model_type": "gemma4_text", **SIZES}))
    assert one.layer_heads == other.layer_heads
    assert one.layer_shapes == (LayerShape(1, 16), LayerShape(1, 16), LayerShape(1, 32))
    assert [one.cache_layer_of(index) for index in range(6)] == [0, 1, 2, 1, 1, 2]


# --- mistakes -------------------------------------------------------------------------------------


def _first_of_its_kind(self, index):
    kept = self.kinds[: self.keeping_layers]
    return index if index < self.keeping_layers else kept.index(self.kinds[index])


def _no_window_in_shared_layers(self, index):
    heads = _heads_of(self, index)
    return heads if index < self.keeping_layers else self.layer_heads[index]


def _inputs_of_the_next_layer(self, g, *of):
    first, *rest = _layer_inputs(self, g, *of)
    return [*rest, first]


_heads_of, _layer_inputs = Gemma4._heads_of, Gemma4.layer_inputs
MISTAKES = {
    "keys of another layer": (Gemma4, "cache_layer_of", _first_of_its_kind),
    "no window where keys are shared": (Gemma4, "_heads_of", _no_window_in_shared_layers),
    "inputs of the next layer": (Gemma4, "layer_inputs", _inputs_of_the_next_layer),
    "values without a norm": (
        NormedValues,
        "emit",
        lambda self, g, inputs, context: self.attention.emit(g, inputs, context),
    ),
    "layers without a factor": (gemma4, "Factor", lambda name: NoNorm()),
    "shared layers that do not rotate": (
        shared_attention,
        "apply_rotary",
        lambda g, q, *of: q,
    ),
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return write_gemma4(tmp_path_factory.mktemp("gemma4") / "checkpoint")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_changes_the_logits(mistake, checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(*MISTAKES[mistake])
    redundant = re.compile(f"{Gemma4.redundant.pattern}|.*layer_scalar")
    monkeypatch.setattr(Gemma4, "redundant", redundant)
    assert logits_differ(checkpoint, tmp_path / "pair") > 1e-2


# --- number formats, texts ------------------------------------------------------------------------

FORMATS = ["fp32", "fp16", "int8", "int4"]
OPTIONS = {"max_new_tokens": 24, "logprobs": True, "ignore_eos": True}


@pytest.fixture(scope="module")
def folder(checkpoint, tmp_path_factory):
    base = tmp_path_factory.mktemp("pair")
    draft = write_noisy(checkpoint, base / "draft", noise=0.1)
    export_pair(
        *map(str, (checkpoint, draft)),
        base / "pair",
        target_formats=FORMATS,
        draft_formats=["int8"],
        cache_formats=["int8"],
        threads=1,
    )
    return base / "pair"


def test_number_formats_stay_near_the_model_and_keep_rows_apart(folder):
    for name, variant in read_manifest(folder).target.variants.items():
        assert variant.row_invariance.is_row_invariant, name
        limit = 0.3 if name.startswith("int4") else 0.05
        assert variant.distance is None or variant.distance.kl < limit, name


@pytest.mark.parametrize(
    ("variant", "kernels"),
    [("fp32-cache-int8", "1"), ("int8-cache-int8", "1"), ("int8-cache-int8", "0")],
)
def test_a_text_with_a_draft_is_the_targets_own(folder, variant, kernels, monkeypatch):
    monkeypatch.setenv(SWITCH, kernels)
    pair = edgespec.load(folder, threads=1, target_format=variant)
    rejected = 0
    for seed in range(2):
        prompt = [int(t) for t in np.random.default_rng(seed).integers(3, 272, size=1 + 9 * seed)]
        for options in (OPTIONS, {**OPTIONS, "temperature": 1.0, "seed": seed}):
            alone = pair.generate(prompt, draft=False, **options)
            text = pair.generate(prompt, gamma=4, **options)
            assert (text.token_ids, text.logprobs) == (alone.token_ids, alone.logprobs)
            rejected += text.stats.drafted - text.stats.accepted
    assert rejected > 10  # the cache was rewound


def test_kernels_without_these_operators_share_no_calls(folder):
    graphs = read_manifest(folder).target.variants["int8-cache-int8"].graphs
    metadata = ir.load(folder / graphs[DECODER]).metadata_props
    assert metadata[LAYOUTS_SINCE] == KEPT_SINCE


@pytest.mark.skipif(not has_kernel(KEPT_ATTENTION["fp32"]), reason="needs kernels of this version")
@pytest.mark.parametrize("variant", ["fp16-cache-int8", "int8-cache-int8"])
def test_texts_that_share_calls_are_those_made_alone(folder, variant):
    pair = edgespec.load(folder, threads=1, target_format=variant, capacity=64)
    assert pair.shares_calls
    rng = np.random.default_rng(0)
    prompts = [[int(t) for t in rng.integers(3, 272, size=n)] for n in (2, 31, 9, 17)]
    together = pair.generate_many(prompts, texts=3, **OPTIONS)
    for prompt, text in zip(prompts, together, strict=True):
        alone = pair.generate(prompt, draft=False, **OPTIONS)
        assert (text.token_ids, text.logprobs) == (alone.token_ids, alone.logprobs)


# --- configs that are refused ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"enable_moe_block": True}, "enable_moe_block = true.* without experts"),
        ({"use_bidirectional_attention": "all"}, "use_bidirectional_attention = 'all'"),
        ({"attention_bias": True}, "attention_bias = True"),
        ({"hidden_activation": "silu"}, "hidden_activation = 'silu'"),
        ({"layer_types": [GLOBAL]}, "layer_types has 1 of 6 layers"),
        ({"num_kv_shared_layers": 6}, "num_kv_shared_layers is 6"),
        ({"num_kv_shared_layers": 4}, "layer 2 shares the keys of no layer of its kind"),
        ({"vocab_size_per_layer_input": 271}, "vocab_size_per_layer_input is 271 of 272"),
        ({"per_layer_config": {"0": {"window": 1}}}, r"per_layer_config has \['window'\]"),
        ({"rope_parameters": {LOCAL: {"rope_type": "default"}}}, GLOBAL),
    ],
)
def test_a_config_that_is_not_understood_is_refused_by_name(settings, named):
    values = {"model_type": "gemma4_text", **SIZES, **settings}
    with pytest.raises(EdgespecError, match=named) as error:
        family_of(values, "model")
    assert "\n" not in str(error.value)
