"""Claim: a batch that keeps prompts in a folder has the same texts, also in the next process; the
folder stays within its bytes, and what cannot be used there is passed over."""

from __future__ import annotations

import asyncio
import logging
import shutil
import stat
import threading
from contextlib import suppress

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


class Watched:
    """The most bytes that a folder ever had while the block ran."""

    def __init__(self, folder):
        self._folder, self._ended = folder, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.most = 0

    def _watch(self):
        while not self._ended.wait(0.002):
            total = 0
            for file in self._folder.rglob("*"):  # hidden ones, too
                with suppress(OSError):
                    total += file.stat().st_size if file.is_file() else 0
            self.most = max(self.most, total)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join(60)


def size_of_one(chat_folder, folder) -> int:
    many = opened(chat_folder, folder).many(1)
    answers(many, TEXTS[:1])
    many.keep()
    (first,) = files(folder)
    size = first.stat().st_size
    first.unlink()
    return size


def test_concurrent_requests_keep_within_the_bytes_at_every_moment(chat_folder, tmp_path):
    """Each slot's next text takes the place of another, which is kept first."""
    prompts = [f"{number % 9} {chr(97 + number % 9) * 110} {number}" for number in range(18)]
    plain = opened(chat_folder)
    expected = [plain.generate(prompt, **OPTIONS).token_ids for prompt in prompts]
    most = 3 * size_of_one(chat_folder, tmp_path) + 200

    async def texts(pair):
        async with pair.amany(4) as many:
            made = [many.generate(prompt, **OPTIONS) for prompt in prompts]
            return [result.token_ids for result in await asyncio.gather(*made)]

    with Watched(tmp_path) as watched:
        for _ in range(2):
            assert asyncio.run(texts(opened(chat_folder, tmp_path, most))) == expected
    assert most / 2 < watched.most <= most
    assert 2 <= len(files(tmp_path)) <= 3


def test_what_was_not_used_for_the_longest_time_goes_first(chat_folder, expected, tmp_path):
    most = 2 * size_of_one(chat_folder, tmp_path) + 400
    for text in TEXTS[:2]:
        many = opened(chat_folder, tmp_path, most).many(1)
        assert answers(many, [text]) == [expected[text]]
        many.keep()
    first, second = sorted(files(tmp_path), key=lambda file: file.stat().st_mtime)
    many = opened(chat_folder, tmp_path, most).many(1)
    assert answers(many, [TEXTS[0]]) == [expected[TEXTS[0]]], "it is used again"
    assert answers(many, [TEXTS[2]]) == [expected[TEXTS[2]]]
    many.keep()
    assert first in files(tmp_path)
    assert second not in files(tmp_path)


def test_a_text_that_is_larger_than_the_folder_may_be_removes_nothing(
    chat_folder, expected, tmp_path, caplog
):
    most = size_of_one(chat_folder, tmp_path) + 100
    many = opened(chat_folder, tmp_path, most).many(1)
    assert answers(many, TEXTS[:1]) == [expected[TEXTS[0]]]
    many.keep()
    kept = files(tmp_path)
    with caplog.at_level(logging.INFO, "edgespec"):
        assert len(answers(many, ["z" * 500])) == len(kept) == 1
        many.keep()
    assert files(tmp_path) == kept
    assert "tokens are not kept: they have" in caplog.text
    assert caplog.text.count(f"the folder may have {most}") == 1


def test_what_a_killed_process_had_begun_is_removed(chat_folder, tmp_path):
    many = opened(chat_folder, tmp_path).many(1)
    answers(many, TEXTS[:1])
    many.keep()
    (file,) = files(tmp_path)
    begun = file.with_name(f".{'0' * 32}.prefix.partial")
    begun.write_bytes(file.read_bytes()[:-9])
    opened(chat_folder, tmp_path)
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [file]


def test_a_folder_that_was_erased_is_made_again(chat_folder, expected, tmp_path, caplog):
    many = opened(chat_folder, tmp_path / "kept").many(1)
    for text in TEXTS:
        assert answers(many, [text]) == [expected[text]]
        shutil.rmtree(tmp_path / "kept")
    again = opened(chat_folder, tmp_path / "kept").many(1)
    assert answers(again, TEXTS[:1]) == [expected[TEXTS[0]]]
    shutil.rmtree(tmp_path / "kept")
    again.keep()
    (tmp_path / "kept").chmod(0o755)
    assert len(files(tmp_path)) == 1
    assert stat.S_IMODE(files(tmp_path)[0].parent.stat().st_mode) == 0o700
    assert not caplog.records


def test_what_is_damaged_is_passed_over_and_removed(chat_folder, expected, tmp_path, caplog):
    many = opened(chat_folder, tmp_path).many(1)
    answers(many, TEXTS[:1])
    many.keep()
    (file,) = files(tmp_path)
    file.write_bytes(file.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING, "edgespec"):
        many = opened(chat_folder, tmp_path).many(1)
    assert "a damaged one" in caplog.text
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
