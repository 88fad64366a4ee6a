"""Claim: a cache of fewer bits makes another target, as exact as any other, and copies nothing.

With keys and values in fp16 or int8, every variant is row-invariant, greedy text with a draft is
its own text bit by bit, what is kept is the float32 number within half a step, and a call's time
does not depend on the capacity. A scale that positions share is a mutant that must be caught.
Rewinding and the last position of the capacity are in test_cache.py.
"""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_noisy, write_t5
from edgespec.artifact.graph_io import CACHE_FORMATS
from edgespec.artifact.manifest import MANIFEST, read_manifest
from edgespec.core.device import Device
from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.runtime import open_model
from edgespec_export.api import export_pair
from edgespec_export.components import kv_cache as cache

NARROW = [name for name in CACHE_FORMATS if name != "fp32"]
WEIGHTS = ("fp32", "int8")
VARIANTS = [f"{weights}-cache-{name}" for weights in WEIGHTS for name in NARROW]

FAMILIES = {
    "t5": lambda folder: write_t5(
        folder, vocab_size=272, tokenizer=byte_tokenizer(272, append_eos=True), head_size=16
    ),
    "llama": lambda folder: write_llama(
        folder, vocab_size=272, tokenizer=byte_tokenizer(272), head_size=16, heads=2, kv_heads=1
    ),
    "llama, heads of 10": lambda folder: write_llama(
        folder, vocab_size=272, tokenizer=byte_tokenizer(272)
    ),
}


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("caches")
    target = FAMILIES[request.param](folder / "target")
    draft = write_noisy(target, folder / "draft", noise=0.1)
    export_pair(
        str(target),
        str(draft),
        folder / "pair",
        target_formats=WEIGHTS,
        cache_formats=list(CACHE_FORMATS),
        threads=1,
    )
    return folder / "pair"


@pytest.fixture(scope="module")
def target(folder):
    return read_manifest(folder).target


# --- the variants --------------------------------------------------------------------------------


def test_each_cache_is_a_variant_that_says_so(target):
    caches = {name: variant.cache for name, variant in target.variants.items()}
    assert caches == {
        "fp32": "fp32",
        "fp32-cache-fp16": "fp16",
        "fp32-cache-int8": "int8",
        "int8": "fp32",
        "int8-cache-fp16": "fp16",
        "int8-cache-int8": "int8",
    }


def test_variants_of_one_number_format_share_all_but_the_decoder(folder, target):
    assert len(list((folder / "target").rglob("weights.data"))) == len(WEIGHTS)
    full, narrow = (target.variants[name].graphs for name in ("int8", "int8-cache-int8"))
    different = {name for name in full if full[name] != narrow[name]}
    assert different == {"decoder"}
    manifest = read_manifest(folder)
    sizes = [manifest.bytes("target", name) for name in ("int8", "int8-cache-int8")]
    assert sizes[1] < 1.2 * sizes[0]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_distance_from_float32_is_recorded(target, variant):
    far = target.variants[variant].distance
    assert far.reference == "fp32"
    assert 0 < far.kl < 0.1
    assert far.top1 > 0.8  # int8 weights alone change some


def test_8_bits_are_further_away_than_16(target):
    far = {name: target.variants[f"fp32-cache-{name}"].distance.kl for name in NARROW}
    assert far["fp16"] < far["int8"]


# --- exactness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_row_invariant(target, variant):
    assert target.variants[variant].row_invariance.is_row_invariant


@pytest.mark.parametrize("variant", VARIANTS)
def test_greedy_text_with_a_draft_is_the_variants_own(folder, variant):
    pair = edgespec.load(folder, threads=1, target_format=variant)
    accepted = evaluated = 0
    for seed in range(12):
        prompt = [int(t) for t in np.random.default_rng(seed).integers(3, 272, size=6)]
        options = {"max_new_tokens": 16, "logprobs": True}
        expected = pair.generate(prompt, draft=False, **options)
        for gamma in (1, 4, 8):
            drafted = pair.generate(prompt, gamma=gamma, **options)
            assert drafted.token_ids == expected.token_ids
            assert drafted.logprobs == expected.logprobs
            accepted += drafted.stats.accepted
            evaluated += drafted.stats.evaluated
    assert 0.2 < accepted / evaluated < 0.99


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_position_is_the_same_after_any_number_of_others(folder, target, variant):
    """Kernels change with the length of the cache; the verdict looks at a few lengths only."""
    capacity = target.positions or 300
    model = open_model(folder, target, variant, capacity=capacity, device=Device(1))
    text = [int(token) for token in np.random.default_rng(2).integers(3, 272, size=capacity)]
    model.prefill(text[:2])
    for length in range(model.length, capacity - 17):
        row = model.score(text[length : length + 17])[0].copy()
        model.rewind(length)
        assert np.array_equal(model.score(text[length : length + 2])[0], row)
        model.rewind(length + 1)


class SharedScale(cache.Int8Cache):
    """The mutant: one scale for all positions of a call, as quantizing per tensor would have."""

    def _scale(self, g, rows):
        own = super()._scale(g, rows)
        largest = g.op.ReduceMax(own, g.ints(2), keepdims=1)
        return g.op.Expand(largest, g.op.Shape(own))


def test_a_scale_that_positions_share_is_refused(tiny_checkpoints, tmp_path, monkeypatch):
    monkeypatch.setitem(cache.CACHES, "int8", SharedScale)
    target, draft = map(str, tiny_checkpoints)
    exported = export_pair(target, draft, tmp_path / "pair", cache_formats=["int8"], threads=1)
    assert not exported.target.variants["fp32-cache-int8"].row_invariance.is_row_invariant
    with pytest.raises(EdgespecError, match="not row-invariant"):
        edgespec.load(tmp_path / "pair", threads=1).generate([3, 4, 5], gamma=4)


# --- what is kept --------------------------------------------------------------------------------


def kept(folder, target, variant):
    """Keys and scales of the first layer after some calls; what they are of is in every variant."""
    model = open_model(folder, target, variant, capacity=30, device=Device(1), min_rows=2)
    text = [int(token) for token in np.random.default_rng(1).integers(3, 272, size=20)]
    model.prefill(text[:5])
    for start in range(0, 20, 4):
        model.score(text[start : start + 4])
    arrays = {buffer.past: array for buffer, array in model._cache.items()}
    return tuple(
        arrays[name][0, :, : model.length]
        for name in ("past_key.0", "past_key.0.scale")
        if name in arrays
    )


def test_16_bits_are_the_float32_number_rounded(folder, target):
    (full,), (half,) = (kept(folder, target, name) for name in ("fp32", "fp32-cache-fp16"))
    assert half.dtype == np.float16
    assert np.array_equal(half, full.astype(np.float16))


def test_8_bits_are_within_half_a_step_and_use_the_whole_range(folder, target):
    (full,), (rows, scale) = (kept(folder, target, name) for name in ("fp32", "fp32-cache-int8"))
    assert rows.dtype == np.int8
    assert np.array_equal(np.abs(rows.astype(int)).max(axis=2), np.full(rows.shape[:2], 127))
    assert (np.abs(rows * scale - full) <= 0.501 * scale).all()


@pytest.mark.parametrize("name", CACHE_FORMATS)
def test_a_call_touches_its_own_positions_only(tiny_checkpoints, tmp_path, name):
    source = str(tiny_checkpoints[0])
    exported = export_pair(
        source, None, tmp_path / "pair", cache_formats=[name], measure=False
    ).target
    (variant,) = exported.variants
    model = open_model(
        tmp_path / "pair", exported, variant, capacity=30, device=Device(1), min_rows=2
    )
    model.prefill([3, 4, 5, 6])
    clean = model.score([7, 8, 9]).copy()
    model.rewind(3)
    junk = {}
    for buffer, array in model._cache.items():
        array[:, :, 3:] = 77
        junk[buffer] = array.copy()
    assert np.array_equal(model.score([7, 8, 9]), clean)
    for buffer, array in model._cache.items():
        assert np.array_equal(array[:, :, 6:], junk[buffer][:, :, 6:])
        assert np.array_equal(array[:, :, :3], junk[buffer][:, :, :3])


@pytest.mark.parametrize("name", CACHE_FORMATS)
def test_the_time_of_a_call_does_not_depend_on_the_capacity(tmp_path, name):
    """Copying the large cache, 100 MB and more, would take many times as long as the call."""
    source = write_t5(tmp_path / "checkpoint", head_size=16)
    exported = export_pair(
        str(source), None, tmp_path / "pair", cache_formats=[name], measure=False
    ).target
    (variant,) = exported.variants
    fastest = {}
    for capacity in (64, 1 << 19):
        model = open_model(
            tmp_path / "pair", exported, variant, capacity=capacity, device=Device(1)
        )
        model.prefill([3, 4, 5])
        times = []
        for _ in range(30):
            began = time.perf_counter()
            model.score([3, 4])
            times.append(time.perf_counter() - began)
            model.rewind(0)
        fastest[capacity] = min(times)
    assert fastest[1 << 19] < 5 * fastest[64]


# --- the manifest and the command line -----------------------------------------------------------


def changed_manifest(folder, change):
    data = json.loads((folder / MANIFEST).read_text())
    change(data["target"]["variants"]["fp32"])
    (folder / MANIFEST).write_text(json.dumps(data))


def test_a_manifest_from_before_there_was_a_choice_means_float32(own_pair):
    before = read_manifest(own_pair)
    changed_manifest(own_pair, lambda variant: variant.pop("cache"))
    assert read_manifest(own_pair) == before
    assert before.target.variants["fp32"].cache == "fp32"


@pytest.mark.parametrize("value", ["int3", "", 8, None, ["fp32"]])
def test_a_manifest_with_an_unknown_cache_is_one_line(own_pair, value):
    changed_manifest(own_pair, lambda variant: variant.update(cache=value))
    with pytest.raises(
        EdgespecError, match=f"{MANIFEST} is damaged .*cache is .*; export"
    ) as message:
        read_manifest(own_pair)
    assert "\n" not in str(message.value)


@pytest.mark.parametrize("value", ["fp16", "int8"])
def test_a_manifest_that_does_not_fit_its_graph_is_one_line(own_pair, value):
    changed_manifest(own_pair, lambda variant: variant.update(cache=value))
    with pytest.raises(EdgespecError) as message:
        edgespec.load(own_pair, threads=1).generate([3, 4, 5], max_new_tokens=4)
    assert "\n" not in str(message.value)


@pytest.mark.parametrize(
    ("formats", "message"),
    [
        (["int3"], "no cache format 'int3'; there is: fp32, fp16, int8"),
        ([], "no cache format is given; there is: fp32, fp16, int8"),
    ],
)
def test_an_unknown_cache_format_is_refused(tiny_checkpoints, tmp_path, formats, message):
    with pytest.raises(UsageError, match=message):
        export_pair(str(tiny_checkpoints[0]), None, tmp_path / "pair", cache_formats=formats)
    assert not (tmp_path / "pair").exists()
