"""Claim: two tokenizers' common tokens are those that spell the same bytes or have the same role;
a pair of them generates the target's own text."""

from __future__ import annotations

import logging

import pytest
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE, WordPiece

import edgespec
from checkpoints import byte_tokenizer, word_tokenizer, write_small_llama
from depth import one_in
from edgespec_export.checkpoint.tokenizer.common_tokens import NoCommonTokensError, common_tokens
from edgespec_export.export_pair import export_pair

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())


def byte_level(merges, special=("<|end|>",), first=()):
    """A BPE tokenizer over bytes with these merges: "l l", "Ġ w"."""
    tokens = [*first, *ALPHABET, *(merge.replace(" ", "") for merge in merges)]
    pairs = [tuple(merge.split()) for merge in merges]
    tokenizer = Tokenizer(BPE({token: index for index, token in enumerate(tokens)}, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def pieces(words, fallback=True):
    """A SentencePiece-like tokenizer: "▁" is a space, bytes have tokens of their own."""
    tokens = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *words]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(BPE(vocabulary, [], unk_token="<unk>", byte_fallback=fallback))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(["<unk>", "</s>"])
    return tokenizer


def common(target, draft, ends=((), ())):
    sizes = target.get_vocab_size(), draft.get_vocab_size()
    return common_tokens(target, draft, ends=ends, sizes=sizes)


def names(target, draft, found):
    return {
        target.id_to_token(token): draft.id_to_token(other)
        for token, other in zip(*found.common, strict=True)
    }


def spelled(draft, found, target, name):
    return [draft.id_to_token(token) for token in found.spellings[target.token_to_id(name)]]


def test_tokens_of_equal_bytes_are_common_whatever_their_ids():
    target, draft = byte_level(["l l", "Ġ w"]), byte_level(["Ġ w", "h e"], first=["filler"])
    shared = names(target, draft, common(target, draft))
    assert shared == {token: token for token in [*ALPHABET, "Ġw", "<|end|>"]}


def test_bytes_in_gpt2s_alphabet_are_compared_with_sentencepieces():
    target, draft = byte_level(["Ġ w", "Ã ¤"]), pieces(["▁w", "ä", "w"])
    shared = names(target, draft, common(target, draft))
    assert {"Ġw": "▁w", "Ã¤": "ä", "w": "w", "Ġ": "▁", "a": "<0x61>"}.items() <= shared.items()


def test_other_tokens_are_spelled_as_the_draft_tokenizes_them():
    target, draft = byte_level(["l l", "ll o"]), byte_level(["l o"])
    found = common(target, draft)
    assert spelled(draft, found, target, "llo") == ["l", "lo"]


def test_a_part_of_a_character_is_spelled_in_bytes():
    target, draft = byte_level(["Ã ¤", "¤ x"]), pieces(["ä"])
    found = common(target, draft)
    assert spelled(draft, found, target, "¤x") == ["<0xA4>", "<0x78>"]


def test_special_tokens_are_common_by_content_and_by_role():
    target = byte_level([], special=["<|end|>", "<|user|>", "<|other|>"])
    draft = byte_level(["u s"], special=["</s>", "<|user|>"])
    ends = [target.token_to_id("<|end|>")], [draft.token_to_id("</s>")]
    found = common(target, draft, ends)
    shared = names(target, draft, found)
    assert shared["<|end|>"] == "</s>"
    assert shared["<|user|>"] == "<|user|>"
    assert "".join(spelled(draft, found, target, "<|other|>")) == "<|other|>"


def test_a_special_token_is_no_ordinary_token_of_the_same_text():
    target = byte_level([], special=["<|end|>", "us"])
    draft = byte_level(["u s"])
    assert "us" not in names(target, draft, common(target, draft))


def test_columns_beyond_the_models_are_not_used():
    target, draft = byte_level(["l l"]), byte_level(["l o", "l l"])
    found = common_tokens(target, draft, ends=((), ()), sizes=(258, 257))
    assert max(found.common[1]) < 257
    assert len(found.spellings) == 258
    assert max(max(ids) for ids in found.spellings) < 257


def test_what_a_draft_puts_before_a_text_stands_before_the_prompt():
    target, draft = byte_level([]), byte_level([], special=["<s>"])
    from tokenizers.processors import TemplateProcessing

    draft.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", draft.token_to_id("<s>"))]
    )
    assert common(target, draft).begin == [draft.token_to_id("<s>")]


def test_tokenizers_of_unknown_kinds_have_no_common_tokens():
    with pytest.raises(NoCommonTokensError, match="the draft's is of a kind"):
        common(byte_level([]), word_tokenizer(8))


def test_tokenizers_without_a_common_token_are_refused():
    word_piece = Tokenizer(WordPiece({"[UNK]": 0, "日": 1}, unk_token="[UNK]"))
    word_piece.decoder = decoders.Metaspace()
    with pytest.raises(NoCommonTokensError, match="no token"):
        common(pieces([], fallback=False), word_piece)


@one_in(2)
@pytest.mark.parametrize("options", [{"temperature": 0}, {"temperature": 1, "seed": 3}], ids=str)
def test_a_pair_of_two_tokenizers_has_the_targets_own_text(options, tmp_path, caplog):
    target = write_small_llama(tmp_path / "target")
    tokenizer = byte_level(
        [f"a {letter}" for letter in "bcdefghij"], first=[f"x{i}" for i in range(6)]
    )
    draft = write_small_llama(tmp_path / "draft", tokenizer)
    with caplog.at_level(logging.WARNING):
        export_pair(str(target), str(draft), tmp_path / "pair")
    assert "it drafts the 257 tokens that both have" in caplog.text
    pair = edgespec.load(tmp_path / "pair")
    results = [
        pair.generate("abracadabra äöü", max_new_tokens=40, draft=draft, gamma=gamma, **options)
        for draft, gamma in ((False, 0), ("model", 3), ("both", 4))
    ]
    assert len({tuple(result.token_ids) for result in results}) == 1
    assert results[1].stats.drafted > 0


def test_the_byte_tokenizers_fillers_are_text_to_the_draft():
    target, draft = byte_tokenizer(272), byte_level(["f i"])
    assert spelled(draft, common(target, draft), target, "Ġfiller3")[:2] == ["Ġ", "fi"]
