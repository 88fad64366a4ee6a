"""Claim: a draft that proposes fewer tokens has the same logits for them as it has with all."""

from __future__ import annotations

import numpy as np
import pytest

import edgespec
from checkpoints import byte_tokenizer, write_llama, write_t5
from edgespec.errors import EdgespecError, UsageError
from edgespec_export.changes.fewer_tokens import frequent_tokens
from edgespec_export.export_pair import export_pair

SIZE, COUNT = 272, 100
PROMPT = (40, 41, 42, 50, 60, 61, 7)


@pytest.fixture(scope="module", params=[("llama", True), ("qwen3", False)], ids=str)
def pairs(request, tmp_path_factory):
    """The same pair, whose draft proposes fewer tokens, and all."""
    kind, tied = request.param
    folder = tmp_path_factory.mktemp(kind)
    common = {"vocab_size": SIZE, "tokenizer": byte_tokenizer(SIZE), "spread": 1.5}
    write_llama(folder / "target", layers=3, model_type=kind, **common)
    write_llama(folder / "draft", layers=1, model_type=kind, tie_word_embeddings=tied, **common)
    for name, count in (("fewer", COUNT), ("all", None)):
        export_pair(
            str(folder / "target"),
            str(folder / "draft"),
            folder / name,
            draft_formats=("fp32", "int8"),
            draft_tokens=count,
            measure=False,
        )
    return folder / "fewer", folder / "all"


@pytest.mark.parametrize("draft_format", ["fp32", "int8"])
def test_logits_are_those_of_the_whole_draft_bit_for_bit(pairs, draft_format):
    rows = []
    for folder in pairs:
        pair = edgespec.load(folder, threads=1, draft_format=draft_format)
        outputs = getattr(pair.vocabulary, "outputs", None)
        pair.draft.prefill(PROMPT)
        rows.append((outputs, np.array(pair.draft.score(PROMPT[-1:]))))
    (outputs, fewer), (none, whole) = rows
    assert none is None
    assert len(outputs) == COUNT
    np.testing.assert_array_equal(fewer, whole[:, outputs])


def test_texts_are_those_of_plain_decoding(pairs):
    pair = edgespec.load(pairs[0], threads=1)
    plain = pair.generate(PROMPT, draft=False, max_new_tokens=24)
    drafted = pair.generate(PROMPT, draft="model", gamma=3, max_new_tokens=24)
    assert drafted.token_ids == plain.token_ids
    settings = {"max_new_tokens": 24, "temperature": 0.8, "seed": 3}
    plain = pair.generate(PROMPT, draft=False, **settings)
    assert pair.generate(PROMPT, draft="model", **settings).token_ids == plain.token_ids


def test_it_proposes_ends_then_tokens_of_the_texts_then_low_ids():
    tokenizer = byte_tokenizer(SIZE)
    text = "zzzzz yy"
    seen = set(tokenizer.encode(text).ids)
    found = frequent_tokens(tokenizer, [200], [text], 2 * len(seen), SIZE)
    assert {200} | seen <= set(found)
    low = [token for token in range(SIZE) if token not in {200} | seen]
    assert set(found) == {200} | seen | set(low[: len(seen) - 1])
    assert found == sorted(found)


def test_what_cannot_be_is_refused(pairs, tmp_path):
    target, draft = (str(pairs[0].parent / name) for name in ("target", "draft"))
    with pytest.raises(UsageError, match="draft_tokens is 3; give 16 or more"):
        export_pair(target, draft, tmp_path / "pair", draft_tokens=3)
    with pytest.raises(UsageError, match="without a draft"):
        export_pair(target, None, tmp_path / "pair", draft_tokens=100)
    t5 = write_t5(tmp_path / "t5")
    with pytest.raises(EdgespecError, match="'t5', whose head cannot be cut"):
        export_pair(str(t5), str(t5), tmp_path / "pair", draft_tokens=16)
