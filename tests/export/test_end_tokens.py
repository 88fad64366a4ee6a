"""Claim: a text ends where its configs, its tokenizer or its chat template end a turn."""

from __future__ import annotations

import json
import logging

import pytest
from tokenizers import AddedToken

import edgespec
from checkpoints import EOS, byte_tokenizer, write_llama
from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import Source
from edgespec_export.export_pair import export_pair

ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|of_no_known_name|>")
SIZE = 272 + len(ENDS)


def template(end):
    return (
        "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}" + end + "\n{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )


def write(folder, *, chat=None, generation=None, settings=None, **config):
    tokenizer = byte_tokenizer(272)
    tokenizer.add_special_tokens([AddedToken(end, special=True) for end in ENDS])
    source = write_llama(
        folder, vocab_size=SIZE, tokenizer=tokenizer, heads=2, head_size=16, layers=1, **config
    )
    values = {} if chat is None else {"chat_template": chat}
    (source / "tokenizer_config.json").write_text(json.dumps({**values, **(settings or {})}))
    if generation is not None:
        (source / "generation_config.json").write_text(json.dumps(generation))
    return source, {end: tokenizer.token_to_id(end) for end in ENDS}


def ends(folder):
    return open_checkpoint(Source(folder, "model")).eos_token_ids


@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_a_chats_turn_ends_a_text(end, tmp_path):
    source, ids = write(
        tmp_path / "checkpoint", chat=template(end), generation={"eos_token_id": EOS}
    )
    assert ends(source) == (EOS, ids[end])


@pytest.mark.parametrize("token", ["<|im_end|>", {"content": "<|im_end|>", "special": True}])
def test_the_tokenizers_own_end_ends_a_text(token, tmp_path):
    source, ids = write(tmp_path / "checkpoint", settings={"eos_token": token})
    assert ends(source) == (EOS, ids["<|im_end|>"])


def test_an_older_checkpoint_names_its_end_in_special_tokens_map(tmp_path):
    source, ids = write(tmp_path / "checkpoint")
    (source / "special_tokens_map.json").write_text('{"eos_token": "<|eot_id|>"}')
    assert ends(source) == (EOS, ids["<|eot_id|>"])


def test_a_template_that_ends_a_turn_without_a_token_adds_no_end(tmp_path):
    source, _ = write(tmp_path / "checkpoint", chat=template(""))
    assert ends(source) == (EOS,)


def test_a_model_that_ends_its_turn_is_stopped_in_a_chat(tmp_path):
    source, ids = write(tmp_path / "checkpoint", chat=template("<|im_end|>"))
    export_pair(str(source), None, tmp_path / "pair", measure=False, threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    end = ids["<|im_end|>"]
    answer = pair.generate("hi", chat=True, logit_bias={end: 100}, max_new_tokens=5)
    assert (answer.finish_reason, answer.text) == ("eos", "")


def test_ends_beyond_the_vocabulary_are_left_out_and_named(tmp_path, caplog):
    source, _ = write(tmp_path / "checkpoint", generation={"eos_token_id": [EOS, 999_999]})
    with caplog.at_level(logging.WARNING, logger="edgespec"):
        export_pair(str(source), None, tmp_path / "pair", measure=False, threads=1)
    assert f"end token 999999 is left out: the model has {SIZE} tokens" in caplog.text
    pair = edgespec.load(tmp_path / "pair", threads=1)
    assert pair.manifest.eos_token_ids == (EOS,)
    assert len(pair.generate("hello", max_new_tokens=3, min_tokens=2).token_ids) >= 2


@pytest.mark.parametrize("eos", [None, [], 999_999])
def test_a_model_without_any_end_is_refused(eos, tmp_path):
    source, _ = write(tmp_path / "checkpoint", eos_token_id=eos)
    with pytest.raises(EdgespecError, match="names no token that ends a text"):
        export_pair(str(source), None, tmp_path / "pair", measure=False)
