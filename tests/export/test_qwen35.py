"""Claim: a Qwen3.5 computes what transformers computes, and its states rewind, bit by bit.

Tiny random checkpoints; no Qwen3.5 was run with its real weights. States that are not rewound, and
a position too many or too few that a call goes through once more, would pass as long as nothing is
dropped: these mistakes are planted. EDGESPEC_CORPUS=all tests every shape and format.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest

import edgespec
from checkpoints import write_noisy
from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import Device
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from edgespec_runtimes.ort import recurrent_states
from edgespec_runtimes.ort.graph_run import GraphRun
from edgespec_runtimes.ort.recurrent_states import RecurrentStates
from qwen35_checkpoints import ATTENTION, DELTA, SIZES, write_qwen35

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

CASES = {
    "as published": {},
    "as many key heads as value heads": {"linear_num_value_heads": 2},
    "keys and values of two sizes": {"linear_value_head_dim": 24},
    "two taps": {"linear_conv_kernel_dim": 2},
    "standard attention": {
        "head_dim": 20,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1e4,
            "partial_rotary_factor": 0.5,
        },
    },
    "whole heads rotated": {
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1e4,
            "partial_rotary_factor": 1.0,
        }
    },
    "delta rules only": {"layer_types": 3 * [DELTA]},
    "attention only": {"layer_types": 3 * [ATTENTION]},
}
PUBLISHED = {
    "hidden_size": 256,
    "intermediate_size": 160,
    "num_hidden_layers": 4,
    "layer_types": [DELTA, DELTA, DELTA, ATTENTION],
    "num_attention_heads": 8,
    "head_dim": 32,
    "vocab_size": 512,
    "max_position_embeddings": 256,
    "rope_parameters": {
        **{"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
        **{"mrope_interleaved": True, "mrope_section": [2, 1, 1]},
    },
}
ALL = os.environ.get("EDGESPEC_CORPUS") == "all"
FORMATS = ["fp32", "int8", *(["fp16", "int4"] if ALL else [])]
CACHES = ["fp32", *(["int8"] if ALL else [])]
TEXT = [int(token) for token in np.random.default_rng(1).integers(3, 272, size=420)]


@pytest.mark.parametrize("case", CASES if ALL else ["as published"])
def test_logits_are_those_of_transformers(case, tmp_path):
    """After a prompt of two long calls, in calls of seven rows."""
    original = write_qwen35(tmp_path / "checkpoint", **CASES[case])
    out = tmp_path / "pair"
    exported = export_pair(str(tmp_path / "checkpoint"), None, out, measure=False).target
    model = open_model(out, exported, "fp32", min_rows=2)
    model.prefill(TEXT[:351])
    ours = [model.score(TEXT[first : first + 7]).copy() for first in range(350, 420, 7)]
    with torch.inference_mode():
        expected = original(input_ids=torch.tensor([TEXT]), use_cache=False).logits[0, 350:]
    assert np.abs(np.concatenate(ours) - expected.numpy()).max() <= 1e-4
    assert expected.std() > 0.5


def test_a_model_whose_sums_round_is_as_near_to_float64_as_transformers_is(tmp_path):
    """The published 9B's shape made small, in bfloat16: transformers in float32 is itself 1.9e-4
    from float64, and edgespec 2.2e-4."""
    original = write_qwen35(tmp_path / "checkpoint", bfloat16=True, **PUBLISHED)
    text = [int(token) for token in np.random.default_rng(7).integers(8, 256, size=120)]
    theirs = logits_of(original, text)
    with everything_in_float64():
        exact = logits_of(original.double(), text)
    out = tmp_path / "pair"
    exported = export_pair(str(tmp_path / "checkpoint"), None, out, measure=False).target
    model = open_model(out, exported, "fp32", min_rows=2)
    rows = [model.prefill(text[:3]), *text[3:]]
    ours = np.concatenate([model.score(rows[i : i + 7]).copy() for i in range(0, len(rows), 7)])
    assert np.abs(ours - exact[2:]).max() <= 2 * np.abs(theirs - exact).max()
    assert exact.std() > 0.5


@contextmanager
def everything_in_float64():
    """Transformers computes norms and delta rules in float32, whatever the weights are."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    with (
        mock.patch.object(torch, "float32", torch.float64),
        mock.patch.object(torch.Tensor, "float", torch.Tensor.double),
    ):
        yield
    torch.set_default_dtype(usual)


def logits_of(model, text):
    with torch.inference_mode():
        return model(input_ids=torch.tensor([text]), use_cache=False).logits[0].double().numpy()


# --- number formats, drafts, rewinds --------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("qwen35")
    write_qwen35(folder / "target")
    write_noisy(folder / "target", folder / "draft", noise=0.1)
    out = folder / "pair"
    export_pair(
        str(folder / "target"),
        str(folder / "draft"),
        out,
        target_formats=FORMATS,
        cache_formats=CACHES,
        threads=1,
    )
    return out


def test_number_formats_stay_near_the_model_and_keep_rows_apart(folder):
    exported = read_manifest(folder).target
    assert exported.layers == 1  # of attention: states are no part of the cache
    for name, variant in exported.variants.items():
        assert variant.row_invariance.is_row_invariant, name
        limit = 0.5 if name.startswith("int4") else 0.05
        assert variant.distance is None or variant.distance.kl < limit, name


@pytest.mark.parametrize("variant", [*FORMATS, *(["int8-cache-int8"] if ALL else [])])
def test_a_text_with_a_draft_is_the_targets_own(folder, variant):
    pair = edgespec.load(folder, threads=1, target_format=variant)
    accepted = evaluated = 0
    for seed in range(1 + ALL):
        prompt = TEXT[seed * 50 : seed * 51 + 2]
        for options in ({}, {"temperature": 1.0, "seed": seed}):
            given = {"max_new_tokens": 20, "logprobs": True, "ignore_eos": True, **options}
            plain = pair.generate(prompt, draft=False, **given)
            for gamma in (1, 7):
                drafted = pair.generate(prompt, gamma=gamma, **given)
                assert drafted.token_ids == plain.token_ids
                assert drafted.logprobs == plain.logprobs
                accepted += drafted.stats.accepted
                evaluated += drafted.stats.evaluated
    assert 0 < accepted < evaluated


def opened(folder, variant="fp32"):
    exported = read_manifest(folder).target
    return open_model(folder, exported, variant, device=Device(1), min_rows=2, max_rows=17)


def wrong_rows(folder, *, furthest=0, walks=40):
    """How many rows differ after rewinds from those of a model that drops nothing.

    Each call scores some tokens of a text and some that are dropped again.

    Args:
        furthest: positions that a second rewind goes back, at most; in every fifth call.
    """
    fresh, model = opened(folder), opened(folder)
    start, end = 40, 260
    fresh.prefill(TEXT[: start + 1])
    rows = [fresh.score(TEXT[i : i + 5]).copy() for i in range(start, end, 5)]
    expected = np.concatenate(rows)
    model.prefill(TEXT[: start + 1])
    generator = np.random.default_rng(3)
    wrong = longest = 0
    for walk in range(walks):
        at = model.length
        kept, dropped = (int(n) for n in generator.integers(0, 9, size=2))
        kept = min(kept, end - at)
        other = [int(token) for token in generator.integers(3, 272, size=dropped + 1)]
        logits = model.score([*TEXT[at : at + kept], *other])[:kept]
        wrong += int((logits != expected[at - start : at - start + kept]).any(axis=1).sum())
        model.rewind(at + kept)
        longest = max(longest, model.length)
        if furthest and walk % 12 == 11:
            model.rewind(max(start, model.length - int(generator.integers(furthest))))
    assert longest > start + 40
    return wrong


def test_after_rewinds_rows_are_those_of_a_model_that_dropped_nothing(folder):
    assert wrong_rows(folder) == 0


def test_a_rewind_beyond_what_is_kept_computes_positions_once_more(folder, monkeypatch):
    restarts = []
    restart = RecurrentStates.restart

    def counted(self, length):
        restarts.append(restart(self, length))
        return restarts[-1]

    monkeypatch.setattr(RecurrentStates, "restart", counted)
    assert wrong_rows(folder, furthest=150, walks=72) == 0
    assert restarts


def test_draft_calls_of_one_row_rewind_without_computing_anything_once_more(folder, monkeypatch):
    monkeypatch.setattr(RecurrentStates, "restart", None)  # fails if it is called
    model = opened(folder)
    model.prefill(TEXT[:101])
    for _ in range(8):
        at = model.length
        for token in TEXT[at : at + 12]:
            model.score([token])
        model.rewind(at + 3)


set_steps = GraphRun.set_steps


def _off_by_one(self, steps):
    """Says that the states are those of a position later, or earlier, than they are."""
    set_steps(self, steps)
    (step,) = steps
    if step.source.length:
        self._state_steps[0, 4] += 1 if step.source.length < step.length else -1


def _states_of_dropped_tokens(self, length):
    """Slots keep their states, as if they were those of fewer positions."""
    for slot in self._slots:
        slot.length = min(slot.length, length)
    self._recent.rewind(length)


def test_a_position_too_many_or_too_few_is_found(folder, monkeypatch):
    monkeypatch.setattr(GraphRun, "set_steps", _off_by_one)
    assert wrong_rows(folder) > 50


def test_states_that_are_not_rewound_are_found(folder, monkeypatch):
    monkeypatch.setattr(RecurrentStates, "rewind", _states_of_dropped_tokens)
    monkeypatch.setattr(recurrent_states, "_certain", lambda rows, count, certain: count)
    assert wrong_rows(folder) > 50


def test_a_conversation_reads_only_what_is_new(folder):
    """The second prompt begins with the first text; its answer is that of a pair that reads it
    all."""
    first, second = (edgespec.load(folder, threads=1) for _ in range(2))
    options = {"max_new_tokens": 20, "ignore_eos": True, "gamma": 4}
    prompt = TEXT[:60]
    answer = list(first.generate(prompt, **options).token_ids)
    again = [*prompt, *answer, *TEXT[100:130]]
    continued = first.generate(again, **options)
    assert continued.token_ids == second.generate(again, **options).token_ids
    edited = [*prompt, *TEXT[200:230]]
    assert (
        first.generate(edited, **options).token_ids == second.generate(edited, **options).token_ids
    )


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"attention_bias": True}, "attention_bias = True"),
        ({"attn_output_gate": False}, "attn_output_gate = False"),
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        ({"layer_types": [DELTA]}, "layer_types has 1 of 3 layers"),
        ({"layer_types": 3 * ["mamba"]}, "mamba"),
        ({"linear_num_value_heads": 3}, "linear_num_value_heads is 3"),
        ({"linear_conv_kernel_dim": 1}, "linear_conv_kernel_dim is 1"),
        ({"mlp_only_layers": [1]}, "mlp_only_layers"),
        ({"per_layer_config": {"0": 1}}, "per_layer_config"),
    ],
)
def test_a_config_that_is_not_understood_is_refused_by_name(settings, named):
    with pytest.raises(EdgespecError, match=named) as error:
        family_of({"model_type": "qwen3_5_text", **SIZES, **settings}, "model")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["qwen3_5_moe_text", "qwen3_next"])
def test_relatives_with_experts_are_refused_by_name(kind):
    with pytest.raises(EdgespecError, match=f"{kind}.*mixtures of experts"):
        family_of({"model_type": kind}, "model")
