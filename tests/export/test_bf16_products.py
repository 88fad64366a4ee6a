"""Claim: a target whose products are in bfloat16 verifies exactly, and is near fp32."""

from __future__ import annotations

import pytest

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_noisy, write_t5
from depth import one_in
from edgespec.artifact.manifest import read_manifest
from edgespec_export.export_pair import export_pair

FORMAT = "bf16-products"
SIZES = {
    "vocab_size": 272,
    "tokenizer": byte_tokenizer(272),
    "heads": 4,
    "head_size": 16,
    "width": 48,  # no multiple of a block of 32
    "inner": 100,
}


@one_in(2)
@pytest.mark.parametrize("write", [write_llama, write_t5])
def test_text_with_a_draft_is_the_text_without(write, tmp_path):
    source = write(tmp_path / "checkpoint", **SIZES)
    draft = write_noisy(source, tmp_path / "draft", noise=0.05)
    manifest = export_pair(
        str(source),
        str(draft),
        tmp_path / "pair",
        target_formats=[FORMAT, "fp32"],
        draft_formats=[FORMAT],
        threads=1,
    )
    variant = manifest.target.variants[FORMAT]
    assert variant.run_by_kernels
    assert variant.row_invariance.is_row_invariant
    assert 0 < variant.distance.kl < 0.01
    pair = edgespec.load(tmp_path / "pair", threads=1)
    for prompt in ([4, 7, 9, 3, 20], [5, 8, 6, 10, 4, 7, 11]):
        plain = pair.generate(prompt, draft=False, max_new_tokens=24)
        assert pair.generate(prompt, gamma=4, max_new_tokens=24).token_ids == plain.token_ids


def test_all_blocks_are_fused_and_the_weights_are_those_of_bf16(tmp_path):
    source = write_llama(tmp_path / "checkpoint", tie_word_embeddings=True, **SIZES)
    formats = [FORMAT, "bf16"]
    export_pair(str(source), None, tmp_path / "pair", target_formats=formats, measure=False)
    variants = read_manifest(tmp_path / "pair").target.variants
    (blocks,) = variants[FORMAT].blocks.values()
    assert blocks.fused == blocks.total
    ours, theirs = (tmp_path / "pair" / "target" / name / "weights.data" for name in formats)
    assert ours.read_bytes() == theirs.read_bytes()
