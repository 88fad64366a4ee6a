"""Prompt and completion together are the decoding of all tokens, streamed and whole."""

from __future__ import annotations

import random

import pytest

import edgespec
from checkpoints import write_llama
from edgespec.pair.tokenizer import GrowingText
from edgespec_export.export_pair import export_pair
from tokenizer_folders import byte_bpe, mbart, sentencepiece_bpe, texts, word_piece

TOKENIZERS = {
    "SentencePiece with bytes": sentencepiece_bpe,
    "SentencePiece": lambda: mbart(("en_XX",)),
    "byte-level": byte_bpe,
    "word pieces": word_piece,
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_prompt_and_its_pieces_are_the_decoding_of_all_tokens(name):
    tokenizer = TOKENIZERS[name]()
    draw = random.Random(0)
    prompts = [*texts(60), "x" * 300 + " " * 300, " " * 40]
    for prompt in prompts:
        before = tokenizer.encode(prompt).ids
        new = tokenizer.encode(draw.choice(prompts), add_special_tokens=False).ids
        growing = GrowingText(tokenizer, before=before)
        text = "".join([*map(growing.add, new), growing.end()])
        assert tokenizer.decode(before) + text == tokenizer.decode(before + new), (prompt, new)


def test_a_character_that_the_prompt_begins_is_finished():
    tokenizer = byte_bpe()
    parts = [tokenizer.token_to_id(letter) for letter in "æĹ¥"]
    growing = GrowingText(tokenizer, before=parts[:-1])
    assert growing.add(parts[-1]) + growing.end() == "日"


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A random Llama whose tokens begin with "▁"; `word` is one of them."""
    folder = tmp_path_factory.mktemp("first-space")
    tokenizer = sentencepiece_bpe()
    target = write_llama(
        folder / "target",
        vocab_size=tokenizer.get_vocab_size(),
        tokenizer=tokenizer,
        heads=2,
        head_size=16,
        layers=2,
        eos_token_id=2,
    )
    export_pair(str(target), None, folder / "pair", measure=False, threads=1)
    return edgespec.load(folder / "pair", threads=1, allow_inexact=True)


def word(pair):
    """A token that begins with a space, and options that make it come next."""
    names = pair.tokenizer.get_vocab()
    token = next(names[name] for name in sorted(names) if name[0] == "▁" and name[1:].isalpha())
    options = {"logit_bias": {token: 100}, "max_new_tokens": 1, "ignore_eos": True}
    return pair.tokenizer.decode([token]), options


@pytest.mark.parametrize("given", ["a text", "token ids"])
def test_a_completion_begins_with_its_space(pair, given):
    text, options = word(pair)
    prompt = "hello" if given == "a text" else pair.encode("hello")
    answer = pair.generate(prompt, **options)
    assert answer.text == f" {text}"
    assert "".join(chunk.text for chunk in pair.stream(prompt, **options)) == f" {text}"
    assert list(pair.generate_many([prompt, prompt], **options))[1].text == f" {text}"
    together = pair.tokenizer.decode([*pair.encode("hello"), *answer.token_ids])
    assert "hello" + answer.text == together


def test_a_stop_string_may_begin_with_the_space(pair):
    text, options = word(pair)
    assert pair.generate("hello", stop=f" {text}", **options).text == ""


def test_a_text_that_fits_a_grammar_stands_alone(pair):
    answer = pair.generate("hello", grammar=edgespec.regex("[a-z]{2}"), max_new_tokens=8)
    assert len(answer.text) == 2
    assert answer.text.isalpha()
