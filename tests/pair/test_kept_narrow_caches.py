"""Claim: a kept prompt changes no text with a narrow cache either: halves, codes of 8 bits with
their scales, and those codes read by attention in bfloat16."""

from __future__ import annotations

import random

import numpy as np
import pytest

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_noisy
from depth import DEEP
from edgespec.artifact.kept.tensor_file import read_tensors
from edgespec.device.kernels import installed_kernels
from edgespec_export.export_pair import export_pair
from edgespec_runtimes.ort.keeping import kept_sequence

pytestmark = pytest.mark.skipif(installed_kernels() is None, reason="there are no kernels here")

CACHES = ["fp16", "int8", "int8-bf16"]
DOCUMENT = "The pilot reads the tide tables before he goes aboard. " * 12
WAYS = [{"draft": False}, {"gamma": 4}, {"temperature": 0.9, "seed": 3, "rule": "block"}]


@pytest.fixture(scope="module")
def folder(made_once):
    def make(folder):
        sizes = {"vocab_size": 272, "head_size": 16, "heads": 4, "kv_heads": 2}
        sizes |= {"tokenizer": byte_tokenizer(272), "max_position_embeddings": 1024}
        target = write_llama(folder / "target", **sizes)
        draft = write_noisy(target, folder / "draft", noise=0.1)
        formats = {"target_formats": ["int8"], "cache_formats": CACHES}
        export_pair(str(target), str(draft), folder / "pair", threads=1, **formats)

    return made_once("kept-narrow-caches", make) / "pair"


@pytest.fixture(params=CACHES)
def opened(folder, request):
    def load(**options):
        names = list(edgespec.load(folder, threads=1).manifest.target.variants)
        form = names[CACHES.index(request.param)]
        return edgespec.load(folder, threads=1, target_format=form, **options)

    return load


def text(pair, prompt, **options):
    result = pair.generate(prompt, max_new_tokens=12, chat=False, logprobs=True, **options)
    return result.token_ids, result.logprobs


def cuts():
    """The document, and beginnings of it that are cut at random and go on otherwise."""
    draw = random.Random(5)
    yield DOCUMENT + "Who?"
    for _ in range(60 if DEEP else 3):
        yield DOCUMENT[: draw.randint(1, len(DOCUMENT))] + "".join(draw.choices("xyz ", k=7))


def test_texts_are_those_without_a_kept_prompt(opened, tmp_path):
    plain = opened()
    plain.save_prefix(DOCUMENT, tmp_path / "prefix", chat=False)
    pair = opened(prefix=tmp_path / "prefix")
    for number, prompt in enumerate(cuts()):
        way = WAYS[number % len(WAYS)]
        plain.target.rewind(0)
        pair.target.rewind(0)
        assert text(pair, prompt, **way) == text(plain, prompt, **way), (prompt, way)


def test_continuations_of_a_batch_share_it(opened, tmp_path):
    plain = opened()
    plain.save_prefix(DOCUMENT, tmp_path / "prefix", chat=False)
    pair = opened(prefix=tmp_path / "prefix")
    options = {"max_new_tokens": 8, "chat": False, "temperature": 1.0}
    prompts = [DOCUMENT + end for end in ("One", "Two")]
    found = [each.token_ids for each in pair.generate_many(prompts, n=2, seed=1, **options)]
    alone = (prompt for prompt in prompts for _ in range(2))
    assert found == [
        plain.generate(prompt, seed=1 + number, **options).token_ids
        for number, prompt in enumerate(alone)
    ]


def test_a_file_holds_the_narrow_numbers(opened, tmp_path):
    pair = opened()
    pair.save_prefix(DOCUMENT, tmp_path / "prefix", chat=False)
    _, arrays = read_tensors(tmp_path / "prefix")
    stored = {array.dtype for name, array in pair.target.cache.items() if array.size}
    kept = {array.dtype for name, array in arrays.items() if name.startswith("target.")}
    assert stored <= kept
    assert min(dtype.itemsize for dtype in stored) < np.dtype(np.float32).itemsize


def test_scales_of_other_positions_are_seen(opened, tmp_path, monkeypatch):
    """Mutant: the smallest arrays of a cache, which are scales where there are any, are moved."""
    plain = opened()
    plain.save_prefix(DOCUMENT, tmp_path / "prefix", chat=False)
    copy = kept_sequence.KeptSequence.copy_to

    def wrongly(self, cache, features, states, start, count):
        copy(self, cache, features, states, start, count)
        least = min(array.shape[-1] for array in cache.arrays.values())
        for array in cache.arrays.values():
            if array.shape[-1] == least:
                array[0, :, start + 1 : count] = array[0, :, start : count - 1].copy()

    monkeypatch.setattr(kept_sequence.KeptSequence, "copy_to", wrongly)
    pair = opened(prefix=tmp_path / "prefix")
    plain.target.rewind(0)
    prompt = DOCUMENT + "Who?"
    assert text(pair, prompt, draft=False) != text(plain, prompt, draft=False)
