"""Claim: layers with windows keep greedy text exact, and see no key that was dropped.

A Gemma 3 with windows of 7 positions and texts of up to 40 tokens, so that most of a text is
outside the windows; in each number format, with kernels and without. A guard checks that drafts are
accepted and rejected.
"""

from __future__ import annotations

import numpy as np
import pytest

import edgespec
from checkpoints import write_noisy
from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import Device
from edgespec.device.kernels import SWITCH
from edgespec.pair.opening.runtime import open_model
from edgespec_export.components.attention import attention, kv_cache
from edgespec_export.export_pair import export_pair
from gemma3_checkpoints import write_gemma3

FORMATS = ("fp32", "int8", "int4")
LENGTH = 24


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("windows")
    even = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96}
    target = write_gemma3(folder / "target", **even)
    return target, write_noisy(target, folder / "draft", noise=0.05)


@pytest.fixture(scope="module")
def folder(checkpoints, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    export_pair(*map(str, checkpoints), folder, target_formats=FORMATS, threads=1)
    return folder


@pytest.mark.parametrize("kernels", ["1", "0"])
@pytest.mark.parametrize("format_", FORMATS)
def test_greedy_text_with_a_draft_is_the_targets_own(folder, format_, kernels, monkeypatch):
    monkeypatch.setenv(SWITCH, kernels)
    pair = edgespec.load(folder, target_format=format_, threads=1)
    generator = np.random.default_rng(7)
    accepted = evaluated = 0
    for count in range(1, 17):
        prompt = [int(token) for token in generator.integers(3, 272, size=count)]
        options = {"max_new_tokens": LENGTH, "logprobs": True, "ignore_eos": True}
        alone = pair.generate(prompt, draft=False, **options)
        for gamma in (1, 4, 7):
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


@pytest.mark.parametrize("kernels", ["1", "0"])
@pytest.mark.parametrize("format_", FORMATS)
def test_after_a_rewind_no_window_shows_a_dropped_key(folder, format_, kernels, monkeypatch):
    monkeypatch.setenv(SWITCH, kernels)
    assert change_by_dropped_keys(folder, format_) == 0


def test_a_window_that_shows_dropped_keys_is_found(tmp_path, monkeypatch):
    """A mistake: a window that reaches as far after a query as before it."""
    shown = 4  # positions after the call's last one

    def valid(g, whole, positions):
        end = g.op.Add(positions.total, g.ints(shown))
        return g.op.Slice(whole, g.ints(0), end, g.ints(2))

    def keys(g, positions):
        end = g.op.Add(positions.end, g.constant(shown, np.int64))
        return g.op.Range(g.constant(0, np.int64), end, g.constant(1, np.int64))

    monkeypatch.setattr(kv_cache, "_valid", valid)
    monkeypatch.setattr(attention, "_keys", keys)
    monkeypatch.setattr(
        attention, "_seen", lambda g, p, window: attention._in_window(g, p, window or 128)
    )
    source = write_gemma3(tmp_path / "checkpoint", head_dim=10)  # standard attention
    export_pair(str(source), None, tmp_path / "pair", measure=False)
    assert change_by_dropped_keys(tmp_path / "pair", "fp32") > 1e-2
