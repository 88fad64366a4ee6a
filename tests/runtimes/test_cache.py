"""Claim: prefill, score and rewind in any order leave the same cache as a fresh prefill.

A Hypothesis state machine drives an exported model and records the text that its cache should hold.
After every step, the logits of the next position equal, bit by bit, those of a model that has seen
only this text. Encoder-decoder and decoder-only, fused and standard attention, every cache format.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from checkpoints import write_llama, write_t5
from depth import DEEP
from edgespec.artifact.graph_io import CACHE_FORMATS
from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import Device
from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_runtimes.ort.cache_memory import ON_LINUX, lazy_zeros

CAPACITY = 24
VOCAB = 11
tokens = st.integers(0, VOCAB - 1)

MAKERS = {
    "t5, fused": lambda folder: write_t5(folder, head_size=16),
    "t5, standard": lambda folder: write_t5(folder),
    "llama, fused": lambda folder: write_llama(folder, heads=2, kv_heads=1, head_size=16),
    "llama, standard": lambda folder: write_llama(folder),
}


@pytest.fixture(scope="module", params=MAKERS)
def checkpoint(request, tmp_path_factory):
    return MAKERS[request.param](tmp_path_factory.mktemp("cache") / "checkpoint")


@pytest.fixture(scope="module", params=CACHE_FORMATS)
def models(request, checkpoint):
    """Two copies of one model: the one under test and the fresh one."""
    folder = checkpoint.with_name(f"pair-{request.param}")
    exported = export_pair(
        str(checkpoint), None, folder, cache_formats=[request.param], measure=False
    ).target
    (variant,) = exported.variants
    return tuple(
        open_model(folder, exported, variant, capacity=CAPACITY, device=Device(1), min_rows=2)
        for _ in range(2)
    )


def next_logits(model):
    """The logits of one more position, which is forgotten again."""
    length = model.length
    logits = model.score([3])[0].copy()
    model.rewind(length)
    return logits


def test_any_order_of_calls_equals_a_fresh_prefill(models):
    used, fresh = models

    class Cache(RuleBasedStateMachine):
        @initialize(prompt=st.lists(tokens, min_size=1, max_size=9))
        def begin(self, prompt):
            self.prefill(prompt)

        @rule(prompt=st.lists(tokens, min_size=1, max_size=9))
        def prefill(self, prompt):
            self.prompt = prompt
            self.pending = used.prefill(prompt)
            self.start = used.length
            self.text = []

        @precondition(lambda self: used.length < CAPACITY)
        @rule(data=st.data())
        def score(self, data):
            room = CAPACITY - used.length
            text = data.draw(st.lists(tokens, min_size=1, max_size=min(room, 5)))
            logits = used.score(text).copy()
            assert logits.shape == (len(text), VOCAB)
            self.text += text

        @rule(data=st.data())
        def rewind(self, data):
            length = data.draw(st.integers(self.start, used.length))
            used.rewind(length)
            del self.text[length - self.start :]

        @invariant()
        def equals_a_fresh_one(self):
            if not hasattr(self, "prompt") or used.length == CAPACITY:
                return
            assert used.length == self.start + len(self.text)
            assert fresh.prefill(self.prompt) == self.pending
            if self.text:
                fresh.score(self.text)
            assert np.array_equal(next_logits(used), next_logits(fresh))

    Cache.TestCase.settings = settings(
        max_examples=25 if DEEP else 10, stateful_step_count=12, deadline=None
    )
    Cache.TestCase().runTest()


def test_the_whole_capacity_can_be_used(models):
    model, _ = models
    model.prefill([3, 4])
    while model.length < CAPACITY:
        model.score([5])
    with pytest.raises(EdgespecError, match=f"room for 0 of {CAPACITY}"):
        model.score([5])


def test_a_cache_may_hold_every_position_the_model_knows_and_no_more(tmp_path):
    checkpoint = write_llama(tmp_path / "c", max_position_embeddings=40)
    export_pair(str(checkpoint), None, tmp_path / "pair")
    exported = read_manifest(tmp_path / "pair").target
    model = open_model(tmp_path / "pair", exported, "fp32", capacity=40, min_rows=2)
    model.prefill([3])
    while model.length < 40:
        assert np.isfinite(model.score([5])).all()
    with pytest.raises(UsageError, match=r"capacity is 41; .* takes 1 to 40$"):
        open_model(tmp_path / "pair", exported, "fp32", capacity=41)


def test_a_long_prompt_is_split_without_effect_on_its_logits(tmp_path, monkeypatch):
    from edgespec_runtimes.ort import prefill

    export_pair(str(write_llama(tmp_path / "c", head_size=16)), None, tmp_path / "pair")
    exported = read_manifest(tmp_path / "pair").target
    model = open_model(tmp_path / "pair", exported, "fp32", min_rows=2)
    prompt = [int(token) for token in np.random.default_rng(0).integers(VOCAB, size=50)]
    model.prefill(prompt)
    whole = next_logits(model)
    monkeypatch.setattr(prefill, "MAX_PREFILL_ROWS", 7)
    model.prefill(prompt)
    assert np.array_equal(next_logits(model), whole)


@pytest.mark.parametrize("length", [-1, 99])
def test_a_rewind_to_an_impossible_length_is_refused(models, length):
    model, _ = models
    model.prefill([3, 4, 5])
    with pytest.raises(EdgespecError, match=f"cannot rewind to {length}"):
        model.rewind(length)


HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
ON_REQUEST = HUGE_PAGES.exists() and "[always]" not in HUGE_PAGES.read_text()


@pytest.mark.skipif(not ON_REQUEST, reason="this system makes huge pages without a request")
def test_a_cache_takes_memory_only_when_it_is_written():
    """numpy's own zeros request pages of 2 MB, and one position of each head would fill one."""
    before = resident()
    heads = lazy_zeros((1, 64, 8192, 64), np.float32)
    heads[:, :, 0] = 1
    assert resident() - before < 64 * 2**20  # 64 heads, 2 MB each
    assert heads.shape == (1, 64, 8192, 64)
    assert heads[:, :, :2].sum() == 64 * 64


@pytest.mark.skipif(not ON_LINUX, reason="other systems may refuse it")
def test_a_mostly_unwritten_cache_may_be_larger_than_memory():
    page = mmap.PAGESIZE
    memory = os.sysconf("SC_PHYS_PAGES") * page
    heads = lazy_zeros((2 * memory // page, page), np.uint8)
    heads[-1] = 1
    assert heads[-1].all()


@pytest.mark.skipif(not ON_LINUX, reason="only Linux tells what is resident")
@pytest.mark.parametrize("name", CACHE_FORMATS)
def test_a_call_does_not_copy_the_cache(tmp_path, name):
    """A copy would write every page of a cache that is almost empty."""
    checkpoint = write_t5(tmp_path / "checkpoint", head_size=16)
    exported = export_pair(
        str(checkpoint), None, tmp_path / "pair", cache_formats=[name], measure=False
    ).target
    (variant,) = exported.variants
    model = open_model(tmp_path / "pair", exported, variant, capacity=1 << 20, device=Device(1))
    cache_bytes = sum(array.nbytes for array in model.cache.values())
    before = resident()
    model.prefill([3, 4, 5])
    for _ in range(3):
        model.score([3, 4])
    assert resident() - before < cache_bytes / 8


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
