"""Token ids of a checkpoint are those of transformers' `AutoTokenizer`, or it is refused."""

from __future__ import annotations

import json
import os

import pytest

from checkpoints import write_small_llama
from depth import one_in
from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.json_file import read_json_object
from edgespec_export.checkpoint.tokenizer.tokenizers_file import load_tokenizer
from edgespec_export.export_pair import export_pair
from tokenizer_folders import byte_bpe, flags, texts, write_folder, write_slow_bpe
from tokenizer_kinds import FOLDERS

# EDGESPEC_TEXTS=10000 compares so many texts of each kind of folder.
COUNT = int(os.environ.get("EDGESPEC_TEXTS", "100"))


@one_in(2)
@pytest.mark.parametrize("name", FOLDERS)
def test_ids_are_those_of_auto_tokenizer(name, tmp_path):
    transformers = pytest.importorskip("transformers")
    folder = FOLDERS[name](tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ours = load_tokenizer(folder, read_json_object(folder / "config.json"))
    for text in texts(COUNT):
        for special in (True, False):
            expected = theirs(text, add_special_tokens=special).input_ids
            encoded = ours.encode(text, add_special_tokens=special)
            assert encoded.ids == expected, f"{text!r}: {encoded.tokens}"
    assert ours.decode(encoded.ids, skip_special_tokens=True) == theirs.decode(
        expected, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )


REFUSED = {
    "a class that is not read": (
        {"tokenizer_config": {"tokenizer_class": "XLMRobertaTokenizer"}},
        "tokenizer_class is XLMRobertaTokenizer, .* set it to PreTrainedTokenizerFast",
    ),
    "split_special_tokens": (
        {"tokenizer_config": {"split_special_tokens": True}},
        "split_special_tokens is true",
    ),
    "an id after a gap": (
        {"added_tokens": {"<think>": 603}},
        "'<think>' has the id 603 in its files, and would get 600",
    ),
    "another token's id": (
        {"tokenizer_config": {"added_tokens_decoder": {"7": flags("<think>")}}},
        "'<think>' has the id 7 in its files, and would get 600",
    ),
    "a token that is none": (
        {"tokenizer_config": {"added_tokens_decoder": {"600": "<think>"}}},
        "has tokens that cannot be read",
    ),
    "ids that are no list": (
        {"tokenizer_config": {"additional_special_tokens": "<think>"}},
        "'<think>' is no list of tokens",
    ),
    "roles that are no object": (
        {"tokenizer_config": {"model_specific_special_tokens": ["<think>"]}},
        "model_specific_special_tokens is .*<think>",
    ),
    "a flag that is none": (
        {"tokenizer_config": {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": 1}},
        "add_prefix_space is 1, not true or false",
    ),
    "an unknown language": (
        {"tokenizer_config": {"tokenizer_class": "NllbTokenizer", "src_lang": "xx_XX"}},
        "src_lang is 'xx_XX', and the tokenizer has no token 'xx_XX'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_give_other_ids_is_refused_by_name(name, tmp_path):
    files, message = REFUSED[name]
    folder = write_folder(tmp_path, byte_bpe(), **files)
    with pytest.raises(EdgespecError, match=message) as error:
        load_tokenizer(folder, {"model_type": "llama"})
    assert "\n" not in str(error.value)


def test_a_slow_vocabulary_of_an_unknown_class_is_refused(tmp_path):
    folder = write_slow_bpe(tmp_path, byte_bpe())
    with pytest.raises(EdgespecError, match=r"put the model's tokenizer\.json"):
        load_tokenizer(folder, {"model_type": "llama"})


def test_damaged_merges_are_refused(tmp_path):
    folder = write_slow_bpe(tmp_path, byte_bpe(), kind="gpt2")
    (folder / "merges.txt").write_text("a\n")
    with pytest.raises(EdgespecError, match=r"merges.txt: cannot be read .*download them again"):
        load_tokenizer(folder, json.loads((folder / "config.json").read_text()))


def test_a_token_around_a_text_that_the_model_lacks_is_refused(tmp_path):
    target = write_small_llama(tmp_path / "target")
    settings = {"tokenizer_class": "RobertaTokenizer"}
    (target / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(EdgespecError, match=r"its tokenizer puts '<s>' around a text, which is"):
        export_pair(str(target), None, tmp_path / "pair", measure=False, threads=1)
