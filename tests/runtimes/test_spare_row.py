"""Claim: ONNX Runtime's attention gives a single row the bits that it has among several, and the
spare row that makes it so needs one position of the cache, which every text leaves free.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from checkpoints import write_llama, write_t5
from depth import one_in
from edgespec.artifact.graph_io import SPARE_POSITIONS, LayerShape, cache_buffers
from edgespec.device.device import Device
from edgespec.device.kernels import SWITCH
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair

MAKERS = {
    "rotary": partial(write_llama, heads=2, kv_heads=1, head_size=16),
    "bias": partial(write_t5, head_size=16),
}
CAPACITY = 40
TOKENS = np.random.default_rng(0).integers(0, 11, CAPACITY).tolist()


@pytest.fixture(params=MAKERS)
def opened(request, tmp_path, monkeypatch):
    """Opens the model of int8 products, which are the same for every number of rows."""
    monkeypatch.setenv(SWITCH, "0")
    source = MAKERS[request.param](tmp_path / "checkpoint")
    out = tmp_path / "pair"
    exported = export_pair(str(source), None, out, target_formats=["int8"], measure=False).target
    return partial(open_model, out, exported, "int8", device=Device(1))


def logits(model, calls):
    model.prefill([1, 2, 3])
    model.rewind(0)
    rows = []
    for count in calls:
        start = len(rows)
        rows.extend(np.array(model.score(TOKENS[start : start + count])))
    return np.array(rows)


def test_single_rows_have_the_bits_of_longer_calls(opened):
    model = opened(capacity=CAPACITY)
    single = logits(model, [1] * 24)
    for calls in ([2] * 12, [5, 5, 5, 5, 4], [17, 7]):
        assert np.array_equal(single, logits(model, calls))


@one_in(2)
@pytest.mark.parametrize("last", [1, 4])
def test_a_text_may_fill_the_cache(opened, last):
    calls = [8, 8, 8, 8, 8 - last, last]
    assert sum(calls) == CAPACITY
    assert np.array_equal(
        logits(opened(capacity=CAPACITY), calls), logits(opened(capacity=CAPACITY + 20), calls)
    )


def test_the_spare_position_is_not_the_texts(opened):
    model = opened(capacity=CAPACITY)
    assert model.capacity == CAPACITY
    assert {array.shape[2] for array in model.cache.values()} == {CAPACITY + SPARE_POSITIONS}


def test_what_the_spare_row_writes_is_overwritten_by_the_next_call(opened):
    model, whole = opened(capacity=CAPACITY), opened(capacity=CAPACITY)
    logits(model, [1] * 9)
    logits(whole, [9])
    layers = [LayerShape(1, 16)] * (len(model.cache) // 2)
    assert len(model.cache) == len(cache_buffers(layers, "fp32"))
    for buffer, array in model.cache.items():
        assert np.array_equal(array[:, :, :9], whole.cache[buffer][:, :, :9])
