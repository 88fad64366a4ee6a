"""Claim: in every number format that kernels run, texts that share calls are those made alone.

Random decoder-only and encoder-decoder models, in each format of weights and of the cache: 100
prompts of mixed lengths in batches of 2, 4, 8 and 16, greedy and sampled, with a draft model. By
default each format has every way to generate with one size of batches, the next format with
another one; EDGESPEC_DEEP=1 has all.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import edgespec
from checkpoints import byte_tokenizer, write_noisy, write_small_llama, write_t5
from depth import by_turns, one_in
from edgespec.device.kernels import installed_kernels
from edgespec_export.export_pair import export_pair
from edgespec_export.quantization.formats import FORMATS

pytestmark = pytest.mark.skipif(installed_kernels() is None, reason="needs kernels")

SIZE = 272
RUN_BY_KERNELS = [name for name, each in FORMATS.items() if each.run_by_kernels]
VARIANTS = [*RUN_BY_KERNELS, "int8-cache-fp16", "int8-cache-int8"]
AT_ONCE = (2, 4, 8, 16)
WAYS = (
    {"max_new_tokens": 12},  # calls return tokens, not logits
    {"max_new_tokens": 8, "logprobs": True},
    {"max_new_tokens": 8, "temperature": 0.9, "top_p": 0.9, "seed": 1, "logprobs": True},
)
CASES = [(number, options) for number in range(len(AT_ONCE)) for options in WAYS]


def write_llama(folder: Path) -> Path:
    return write_small_llama(folder, max_position_embeddings=128)


def write_translator(folder: Path) -> Path:
    tokenizer = byte_tokenizer(SIZE)
    return write_t5(
        folder, vocab_size=SIZE, heads=2, head_size=16, width=32, inner=64, tokenizer=tokenizer
    )


@pytest.fixture(scope="module", params=[write_llama, write_translator])
def folder(request, made_once) -> Path:
    def make(base: Path) -> None:
        target = request.param(base / "target")
        draft = write_noisy(target, base / "draft", noise=0.05)
        export_pair(
            str(target),
            str(draft),
            base / "pair",
            target_formats=RUN_BY_KERNELS,
            draft_formats=["int8"],
            cache_formats=["fp32", "fp16", "int8"],
            measure=False,  # so that only what is loaded is measured
            threads=1,
        )

    return made_once(f"batches-{request.param.__name__}", make) / "pair"


@one_in(2)
@pytest.mark.parametrize("variant", VARIANTS)
def test_texts_in_batches_are_those_made_alone(folder, variant):
    pair = edgespec.load(folder, threads=1, target_format=variant, capacity=64)
    assert pair.shares_calls
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 40, size=100)
    prompts = [[int(token) for token in generator.integers(3, SIZE, size=n)] for n in lengths]
    for number, options in by_turns(CASES, VARIANTS.index(variant), len(AT_ONCE)):
        some = prompts[number :: len(AT_ONCE)]
        together = pair.generate_many(some, texts=AT_ONCE[number], **options)
        for index, result in enumerate(together):
            own = options | ({"seed": 1 + index} if "seed" in options else {})
            alone = pair.generate(some[index], **own)
            assert result.token_ids == alone.token_ids
            assert result.logprobs == alone.logprobs
