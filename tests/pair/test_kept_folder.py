"""Claim: a batch that keeps prompts in a folder has the same texts, also in the next process; the
folder stays within its bytes, and what cannot be used there is passed over."""

from __future__ import annotations

import asyncio
import logging

import click
import pytest
from click.testing import CliRunner

import edgespec
from edgespec.cli.parameters.loading_options import LOADINGS, PROMPT_CACHE, WHEN_FULL, Loading
from edgespec.errors import EdgespecError, UsageError

OPTIONS = {"max_new_tokens": 12, "ignore_eos": True, "chat": False}
TEXTS = [letter * 120 + " and so on" for letter in "abc"]


def opened(folder, kept=None, most_bytes=10**9) -> edgespec.Pair:
    pair = edgespec.load(folder, threads=1, target_format="int8")
    if kept is not None:
        pair.keep_prompts(kept, most_bytes)
    return pair


@pytest.fixture(scope="module")
def expected(chat_folder):
    pair = opened(chat_folder)
    return {p: pair.generate(p, **OPTIONS).token_ids for t in TEXTS for p in (t, t + " Now?")}


def answers(many, prompts):
    return [result.token_ids for _, result in sorted(many.results(prompts, **OPTIONS))]


def files(folder):
    return sorted(folder.rglob("*.prefix"))


def test_texts_are_those_without_and_the_next_process_begins_with_them(
    chat_folder, expected, tmp_path
):
    many = opened(chat_folder, tmp_path).many(1)
    assert answers(many, TEXTS) == [expected[text] for text in TEXTS]
    many.keep()
    assert len(files(tmp_path)) == 3
    again = opened(chat_folder, tmp_path).many(1)
    longer = [text + " Now?" for text in TEXTS]
    for text in longer:
        before = again.target.rows
        assert answers(again, [text]) == [expected[text]]
        assert again.target.rows - before < 80, "most of the prompt was kept"
    again.keep()
    assert len(files(tmp_path)) == 6


def test_the_folder_stays_within_its_bytes(chat_folder, expected, tmp_path):
    many = opened(chat_folder, tmp_path).many(1)
    answers(many, TEXTS[:1])
    many.keep()
    (first,) = files(tmp_path)
    most = 2 * first.stat().st_size + 100
    many = opened(chat_folder, tmp_path, most).many(1)
    for text in TEXTS:
        assert answers(many, [text]) == [expected[text]]
    many.keep()
    assert sum(file.stat().st_size for file in files(tmp_path)) <= most
    assert len(files(tmp_path)) == 2


def test_what_is_damaged_is_passed_over_and_removed(chat_folder, expected, tmp_path, caplog):
    many = opened(chat_folder, tmp_path).many(1)
    answers(many, TEXTS[:1])
    many.keep()
    (file,) = files(tmp_path)
    file.write_bytes(file.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING, "edgespec"):
        many = opened(chat_folder, tmp_path).many(1)
    assert "is damaged" in caplog.text
    assert not files(tmp_path)
    assert answers(many, TEXTS[:1]) == [expected[TEXTS[0]]]


def test_the_end_of_a_thread_keeps_what_the_caches_hold(chat_folder, expected, tmp_path):
    async def texts():
        async with opened(chat_folder, tmp_path).amany(2) as many:
            return [(await many.generate(text, **OPTIONS)).token_ids for text in TEXTS[:2]]

    assert asyncio.run(texts()) == [expected[text] for text in TEXTS[:2]]
    assert len(files(tmp_path)) == 2


def test_pairs_that_cannot_keep_prompts_say_so(pair_folder, chat_folder, tmp_path):
    with pytest.raises(UsageError, match="cannot be kept in a folder"):
        edgespec.load(pair_folder, threads=1).keep_prompts(tmp_path, 10**6)
    (tmp_path / "file").touch()
    with pytest.raises(EdgespecError, match="cannot be made"):
        opened(chat_folder, tmp_path / "file")


def test_options_of_the_command_line_reach_the_pair(chat_folder, tmp_path):
    seen: list[Loading] = []

    @click.command()
    @click.argument("pairs", nargs=-1)
    @LOADINGS
    @PROMPT_CACHE
    @WHEN_FULL
    def command(loadings: list[Loading]) -> None:
        seen.extend(loadings)

    options = ["--prompt-cache", tmp_path, "--prompt-cache-mib", 3, "--when-full", "drop"]
    arguments = [str(word) for word in (chat_folder, "--threads", 1, *options)]
    arguments += ["--target-format", "int8"]
    assert CliRunner().invoke(command, arguments).exit_code == 0
    pair = seen[0].pair()
    assert pair.when_full == "drop"
    assert pair.many(1).engine.kept_prompts is not None
    assert seen[0].prompt_cache_bytes == 3 * 2**20
