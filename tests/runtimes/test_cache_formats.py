"""Claim: an fp16 or int8 cache makes another target, exact like any other.

With keys and values in fp16 or int8, every variant is row-invariant, greedy text with a draft is
the same as without, and stored values are within half a step of float32. A scale that positions
share is a mutant that must be caught. Rewinding, the last position of the capacity and memory are
in test_cache.py.
"""

from __future__ import annotations

import numpy as np
import pytest

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_noisy, write_t5
from depth import by_turns, deep, one_in
from edgespec.artifact.graph_io import CACHE_FORMATS
from edgespec.artifact.manifest import MANIFEST, read_manifest
from edgespec.device.device import Device
from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.components.attention import choose_attention
from edgespec_export.components.attention import kv_cache as cache
from edgespec_export.export_pair import export_pair
from edgespec_export.operators.attention.narrow_cache import rounded_to_int8
from manifests import edit_manifest

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


@pytest.fixture(
    scope="module",
    params=[pytest.param(n, marks=deep) if n == "llama" else n for n in FAMILIES],
)
def folder(request, made_once):
    def make(folder):
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

    return made_once(f"caches-{request.param}", make) / "pair"


@pytest.fixture(scope="module")
def target(folder):
    return read_manifest(folder).target


# --- the variants --------------------------------------------------------------------------------


def test_each_cache_format_is_a_variant(target):
    caches = {name: variant.cache_format for name, variant in target.variants.items()}
    assert caches == {
        "fp32": "fp32",
        "fp32-cache-fp16": "fp16",
        "fp32-cache-int8": "int8",
        "int8": "fp32",
        "int8-cache-fp16": "fp16",
        "int8-cache-int8": "int8",
    }


def test_variants_with_the_same_weights_format_differ_only_in_the_decoder_graph(folder, target):
    assert len(list((folder / "target").rglob("weights.data"))) == len(WEIGHTS)
    full, narrow = (target.variants[name].graphs for name in ("int8", "int8-cache-int8"))
    different = {name for name in full if full[name] != narrow[name]}
    assert different == {"decoder"}
    manifest = read_manifest(folder)
    sizes = [manifest.bytes("target", name) for name in ("int8", "int8-cache-int8")]
    assert sizes[1] < 1.2 * sizes[0]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_distance_from_float32_is_recorded(target, variant):
    distance = target.variants[variant].distance
    assert distance.reference == "fp32"
    assert 0 < distance.kl < 0.1
    assert distance.top1 > 0.8  # int8 weights alone change some tokens


def test_an_int8_cache_is_further_from_float32_than_an_fp16_cache(target):
    kl = {name: target.variants[f"fp32-cache-{name}"].distance.kl for name in NARROW}
    assert kl["fp16"] < kl["int8"]


# --- exactness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_row_invariant(target, variant):
    assert target.variants[variant].row_invariance.is_row_invariant


@one_in(2)
@pytest.mark.parametrize("variant", VARIANTS)
def test_greedy_text_with_a_draft_equals_the_text_without(folder, variant):
    pair = edgespec.load(folder, threads=1, target_format=variant)
    accepted = evaluated = 0
    for seed in by_turns(range(12), VARIANTS.index(variant), 2):
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


@one_in(2, turn=1)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_positions_logits_do_not_depend_on_the_call_at_any_cache_length(folder, target, variant):
    """Kernels change with the length of the cache; row invariance is measured at a few only."""
    capacity = target.positions or 300
    model = open_model(folder, target, variant, capacity=capacity, device=Device(1))
    text = [int(token) for token in np.random.default_rng(2).integers(3, 272, size=capacity)]
    model.prefill(text[:2])
    for length in range(model.length, capacity - 17):
        row = model.score(text[length : length + 17])[0].copy()
        model.rewind(length)
        assert np.array_equal(model.score(text[length : length + 2])[0], row)
        model.rewind(length + 1)


def with_a_shared_scale(g, rows):
    """Mutant: one scale for all positions of a call, as with quantization per tensor."""
    _, own = rounded_to_int8(g, rows)
    largest = g.op.ReduceMax(own, g.ints(2), keepdims=1)
    shared = g.op.Expand(largest, g.op.Shape(own))
    ratios = g.op.Div(rows, shared)
    return g.op.QuantizeLinear(ratios, g.constant(1, np.float32), g.constant(0, np.int8)), shared


def test_a_scale_that_positions_share_is_refused(tiny_checkpoints, tmp_path, monkeypatch):
    monkeypatch.setattr(choose_attention, "HEAD_MULTIPLE", 32)  # no kernel replaces the mutant
    monkeypatch.setattr(cache, "rounded_to_int8", with_a_shared_scale)
    target, draft = map(str, tiny_checkpoints)
    exported = export_pair(target, draft, tmp_path / "pair", cache_formats=["int8"], threads=1)
    assert not exported.target.variants["fp32-cache-int8"].row_invariance.is_row_invariant
    with pytest.raises(EdgespecError, match="not row-invariant"):
        edgespec.load(tmp_path / "pair", threads=1).generate([3, 4, 5], gamma=4)


# --- stored values --------------------------------------------------------------------------------


def stored(folder, target, variant):
    """Keys of the first layer after some calls, and their scales if int8; same text for all."""
    model = open_model(folder, target, variant, capacity=30, device=Device(1), min_rows=2)
    text = [int(token) for token in np.random.default_rng(1).integers(3, 272, size=20)]
    model.prefill(text[:5])
    for start in range(0, 20, 4):
        model.score(text[start : start + 4])
    arrays = {buffer.past: array for buffer, array in model.cache.items()}
    return tuple(
        arrays[name][0, :, : model.length]
        for name in ("past_key.0", "past_key.0.scale")
        if name in arrays
    )


def test_an_fp16_cache_holds_the_float32_values_rounded(folder, target):
    (full,), (half,) = (stored(folder, target, name) for name in ("fp32", "fp32-cache-fp16"))
    assert half.dtype == np.float16
    assert np.array_equal(half, full.astype(np.float16))


def test_an_int8_cache_is_within_half_a_step_and_uses_the_whole_range(folder, target):
    (full,), (rows, scale) = (stored(folder, target, name) for name in ("fp32", "fp32-cache-int8"))
    assert rows.dtype == np.int8
    assert np.array_equal(np.abs(rows.astype(int)).max(axis=2), np.full(rows.shape[:2], 127))
    assert (np.abs(rows * scale - full) <= 0.501 * scale).all()


@pytest.mark.parametrize("name", CACHE_FORMATS)
def test_a_call_writes_only_its_own_positions(tiny_checkpoints, tmp_path, name):
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
    for buffer, array in model.cache.items():
        array[:, :, 3:] = 77
        junk[buffer] = array.copy()
    assert np.array_equal(model.score([7, 8, 9]), clean)
    for buffer, array in model.cache.items():
        assert np.array_equal(array[:, :, 6:], junk[buffer][:, :, 6:])
        assert np.array_equal(array[:, :, :3], junk[buffer][:, :, :3])


# --- the manifest and the command line -----------------------------------------------------------


@pytest.mark.parametrize("value", ["int3", "", 8, None, ["fp32"]])
def test_a_manifest_with_an_unknown_cache_is_one_line(own_pair, value):
    edit_manifest(
        own_pair, lambda data: data["target"]["variants"]["fp32"].update(cache_format=value)
    )
    with pytest.raises(
        EdgespecError, match=f"{MANIFEST} is damaged .*cache_format is .*; export"
    ) as said:
        read_manifest(own_pair)
    assert "\n" not in str(said.value)


@pytest.mark.parametrize("value", ["fp16", "int8"])
def test_a_manifest_that_does_not_fit_its_graph_is_one_line(own_pair, value):
    edit_manifest(
        own_pair, lambda data: data["target"]["variants"]["fp32"].update(cache_format=value)
    )
    with pytest.raises(EdgespecError) as said:
        edgespec.load(own_pair, threads=1).generate([3, 4, 5], max_new_tokens=4)
    assert "\n" not in str(said.value)


@pytest.mark.parametrize(
    ("formats", "message"),
    [
        (["int3"], "no cache format 'int3'; there is: fp32, fp16, int8, int8-bf16"),
        ([], "no cache format is given; there is: fp32, fp16, int8, int8-bf16"),
    ],
)
def test_an_unknown_cache_format_is_refused(tiny_checkpoints, tmp_path, formats, message):
    with pytest.raises(UsageError, match=message):
        export_pair(str(tiny_checkpoints[0]), None, tmp_path / "pair", cache_formats=formats)
    assert not (tmp_path / "pair").exists()
