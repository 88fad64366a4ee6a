"""Claim: layers with windows keep greedy text exact, and see no key that was dropped.

Windows of 7 positions in all layers or some, YaRN trained on 8 positions and queries scaled by
position; texts of up to 40 tokens, so that most of a text is outside the windows. In each number
format with kernels, and without them in float32 (EDGESPEC_DEEP=1: in each). A guard checks that
drafts are accepted and rejected.
"""

from __future__ import annotations

import numpy as np
import pytest

import edgespec
from checkpoints import write_noisy, write_small_llama
from depth import deep, one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import Device
from edgespec.device.kernels import SWITCH, installed_kernels
from edgespec.pair.opening.runtime import open_model
from edgespec_export.components.attention import kv_cache, standard_attention
from edgespec_export.components.positions import Positions
from edgespec_export.export_pair import export_pair
from gemma3_checkpoints import write_gemma3

FORMATS = ("fp32", "int8", "int4")
WAYS = [  # with kernels and without: operators of the runtime, and bodies of functions
    *((name, "1") for name in FORMATS),
    ("fp32", "0"),
    *(pytest.param(name, "0", marks=deep) for name in ("int8", "int4")),
]
LENGTH = 24
WINDOW = {"sliding_window": 7}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 8.0,
    "original_max_position_embeddings": 8,
}
MODELS = {
    "Gemma 3": {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96},
    "Mistral": {"model_type": "mistral", **WINDOW},
    "Qwen2": {
        **{"model_type": "qwen2", **WINDOW, "use_sliding_window": True, "max_window_layers": 1},
        "rope_scaling": YARN,
    },
    "Ministral 3": {
        **{"model_type": "ministral3", **WINDOW},
        "rope_parameters": {**YARN, "llama_4_scaling_beta": 0.3},
    },
}


@pytest.fixture(scope="module", params=MODELS)
def checkpoints(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("windows")
    write = write_gemma3 if request.param == "Gemma 3" else write_small_llama
    target = write(folder / "target", **MODELS[request.param])
    return target, write_noisy(target, folder / "draft", noise=0.05)


@pytest.fixture(scope="module")
def folder(checkpoints, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    export_pair(*map(str, checkpoints), folder, target_formats=FORMATS, threads=1)
    return folder


@one_in(2)
@pytest.mark.parametrize(("format_", "kernels"), WAYS)
def test_greedy_text_with_a_draft_is_the_targets_own(folder, format_, kernels, monkeypatch):
    monkeypatch.setenv(SWITCH, kernels)
    pair = edgespec.load(folder, target_format=format_, threads=1)
    generator = np.random.default_rng(7)
    accepted = evaluated = 0
    for count in (1, 6, 16):
        prompt = [int(token) for token in generator.integers(3, 272, size=count)]
        options = {"max_new_tokens": LENGTH, "logprobs": True, "ignore_eos": True}
        alone = pair.generate(prompt, draft=False, **options)
        for gamma in (1, 7):
            drafted = pair.generate(prompt, gamma=gamma, **options)
            assert drafted.token_ids == alone.token_ids
            assert drafted.logprobs == alone.logprobs
            accepted += drafted.stats.accepted
            evaluated += drafted.stats.evaluated
    assert 0.2 < accepted / evaluated < 0.99


def change_by_dropped_keys(folder, format_):
    """Largest |difference| of logits after keys were dropped, from those of a fresh model."""
    exported = read_manifest(folder).target
    used, fresh = (
        open_model(folder, exported, format_, device=Device(1), min_rows=2) for _ in range(2)
    )
    generator = np.random.default_rng(3)
    prompt, dropped, text = (
        [int(token) for token in generator.integers(3, 272, size=size)] for size in (20, 9, 3)
    )
    for model in (used, fresh):
        pending = model.prefill(prompt)
    length = used.length
    used.score([pending, *dropped])
    used.rewind(length)
    pieces = [[pending, text[0]], text[1:]]  # fewer positions than were dropped
    ours, expected = ([model.score(piece).copy() for piece in pieces] for model in (used, fresh))
    return float(np.abs(np.concatenate(ours) - np.concatenate(expected)).max())


@one_in(2, turn=1)
@pytest.mark.parametrize(("format_", "kernels"), WAYS)
def test_after_a_rewind_no_window_shows_a_dropped_key(folder, format_, kernels, monkeypatch):
    monkeypatch.setenv(SWITCH, kernels)
    assert change_by_dropped_keys(folder, format_) == 0


@one_in(2)
@pytest.mark.parametrize(("format_", "kernels"), WAYS)
def test_a_prompt_read_in_pieces_is_one_read_at_once(folder, format_, kernels, monkeypatch):
    monkeypatch.setenv(SWITCH, kernels)
    exported = read_manifest(folder).target
    whole, pieces = (
        open_model(folder, exported, format_, device=Device(1), min_rows=2) for _ in range(2)
    )
    text = [int(token) for token in np.random.default_rng(5).integers(3, 272, size=31)]
    pending = whole.prefill(text[:4])
    expected = whole.score([pending, *text[4:20]]).copy()
    pending = pieces.prefill(text[:4])
    rows = [pending, *text[4:20]]
    found = [pieces.score(rows[start : start + 5]).copy() for start in range(0, len(rows), 5)]
    assert np.array_equal(np.concatenate(found), expected)


@pytest.mark.skipif(installed_kernels() is None, reason="texts share no calls without kernels")
def test_texts_that_share_calls_are_those_made_alone(folder):
    pair = edgespec.load(folder, target_format="int8", threads=1)
    assert pair.shares_calls
    generator = np.random.default_rng(2)
    prompts = [list(map(int, generator.integers(3, 272, size=n))) for n in (3, 9, 16, 30, 21)]
    options = {"max_new_tokens": 12, "logprobs": True, "ignore_eos": True}
    together = pair.generate_many(prompts, texts=4, **options)
    for prompt, result in zip(prompts, together, strict=True):
        alone = pair.generate(prompt, **options)
        assert (result.token_ids, result.logprobs) == (alone.token_ids, alone.logprobs)


def test_a_window_that_shows_dropped_keys_is_found(tmp_path, monkeypatch):
    """A mistake: a window that reaches as far after a query as before it."""
    shown = 4  # positions after the call's last one

    def valid(g, whole, positions):
        end = g.op.Add(positions.total, g.ints(shown))
        return g.op.Slice(whole, g.ints(0), end, g.ints(2))

    def keys(positions, g):
        end = g.op.Add(positions.end, g.constant(shown, np.int64))
        return g.op.Range(g.constant(0, np.int64), end, g.constant(1, np.int64))

    monkeypatch.setattr(kv_cache, "_valid", valid)
    monkeypatch.setattr(Positions, "keys", keys)
    monkeypatch.setattr(
        standard_attention,
        "_seen",
        lambda g, p, window: standard_attention._in_window(g, p, window or 128),
    )
    source = write_gemma3(tmp_path / "checkpoint", head_dim=10)  # standard attention
    export_pair(str(source), None, tmp_path / "pair", measure=False)
    assert change_by_dropped_keys(tmp_path / "pair", "fp32") > 1e-2
