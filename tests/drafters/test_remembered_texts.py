"""Claim: what is remembered, and given files, change how fast a text comes, never which.

The folder is the user's own: its files are bounded, private, whole, of one tokenizer each, and
gone when they are deleted. Whatever is wrong with them, texts are made.
"""

from __future__ import annotations

import os
import stat
import threading

import numpy as np
import pytest
from click.testing import CliRunner

import edgespec
from checkpoints import word_tokenizer, write_llama
from depth import one_in
from edgespec.artifact.manifest import TOKENIZER, read_manifest
from edgespec.cli.main import main
from edgespec.drafters import corpus as corpus_module
from edgespec.drafters.remembered_texts import MOST_BYTES, MOST_TOKENS, RememberedTexts, forget
from edgespec.drafters.suffix_array import SuffixArray
from edgespec.errors import EdgespecError, UsageError
from edgespec_export.export_pair import export_pair

DIGEST = "0123456789abcdef" * 4
PROMPT = "w3 w4 w5"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A pair over words, without a draft model."""
    made = tmp_path_factory.mktemp("words")
    target = write_llama(
        made / "target", vocab_size=61, heads=2, head_size=16, layers=2, spread=3.0
    )
    export_pair(str(target), None, made / "pair", threads=1)
    return made / "pair"


def remembered(folder, digest=DIGEST, vocab_size=1000) -> RememberedTexts:
    return RememberedTexts(folder, digest, vocab_size)


def tokens_after(store, *context) -> list[int]:
    """What a store says follows some tokens, one after the other."""
    matcher = store.begin()
    matcher.read(context)
    found = next((matcher.best(state) for _, state in matcher.suffixes()), None)
    tokens = []
    while found is not None:
        tokens.append(found.token)
        found = matcher.best(found.after)
    return tokens


def only_file(folder):
    (file,) = folder.iterdir()
    return file


# --- texts are the same --------------------------------------------------------------------------

OPTIONS = [{}, {"temperature": 1.0, "seed": 3}, {"temperature": 0.7, "seed": 4, "rule": "coupled"}]


@one_in(2)
@pytest.mark.parametrize("options", OPTIONS, ids=["greedy", "sampled", "cooler"])
def test_texts_are_the_plain_ones_whatever_is_stored(folder, tmp_path, options):
    plain = edgespec.load(folder, threads=1)
    expected = plain.generate(PROMPT, max_new_tokens=40, draft=False, ignore_eos=True, **options)
    right, wrong = tmp_path / "right.txt", tmp_path / "wrong.txt"
    right.write_text(f"{PROMPT} {expected.text}")
    wrong.write_text(" ".join(f"w{number}" for number in range(60, 3, -1)) * 5)
    calls = {}
    stored = {"none": [], "right": [right], "wrong": [wrong], "all": [wrong, right]}
    for name, files in stored.items():
        pair = edgespec.load(folder, threads=1, corpus=files, remember=tmp_path / name)
        for attempt in range(2):  # the second with the first in memory
            found = pair.generate(
                PROMPT, max_new_tokens=40, draft="lookup", gamma=4, ignore_eos=True, **options
            )
            assert found.token_ids == expected.token_ids
            calls[name, attempt] = found.stats.target_calls
    assert calls["right", 0] < calls["none", 0]
    assert calls["none", 1] < calls["none", 0]


def test_another_process_begins_with_what_was_remembered(folder, tmp_path):
    options = {"max_new_tokens": 40, "draft": "lookup", "gamma": 4, "ignore_eos": True}
    first = edgespec.load(folder, threads=1, remember=tmp_path / "texts").generate(
        PROMPT, **options
    )
    again = edgespec.load(folder, threads=1, remember=tmp_path / "texts").generate(
        PROMPT, **options
    )
    assert again.token_ids == first.token_ids
    assert again.stats.target_calls < first.stats.target_calls


def test_nothing_is_kept_unless_asked_for(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(folder.rglob("*"))
    pair = edgespec.load(folder, threads=1)
    first, second = (
        pair.generate(PROMPT, max_new_tokens=40, draft="lookup", gamma=4) for _ in range(2)
    )
    assert first.stats.target_calls == second.stats.target_calls
    assert sorted(folder.rglob("*")) == before
    assert not list(tmp_path.iterdir())


def test_a_text_that_is_left_early_is_not_remembered(folder, tmp_path):
    pair = edgespec.load(folder, threads=1, remember=tmp_path / "texts")
    with pair.stream(PROMPT, max_new_tokens=40) as stream:
        next(stream)
    assert not list((tmp_path / "texts").iterdir())


# --- the file ------------------------------------------------------------------------------------


def test_a_file_is_private_and_named_by_the_tokenizer(folder, tmp_path):
    texts = tmp_path / "deep" / "texts"
    edgespec.load(folder, threads=1, remember=texts).generate(PROMPT, max_new_tokens=4)
    file = only_file(texts)
    assert file.name == f"{read_manifest(folder).files[TOKENIZER].sha256[:16]}.tokens"
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(texts.stat().st_mode) & 0o077 == 0


def test_texts_of_another_tokenizer_are_not_read(tmp_path):
    remembered(tmp_path).add([5, 6, 7])
    assert tokens_after(remembered(tmp_path), 5) == [6, 7]
    assert tokens_after(remembered(tmp_path, "f" * 64), 5) == []


def test_a_file_is_bounded_and_keeps_the_newest(tmp_path):
    store = remembered(tmp_path, vocab_size=10**6)
    store.add(range(MOST_TOKENS))
    store.add([8, 7, 9])
    assert only_file(tmp_path).stat().st_size == MOST_BYTES
    again = remembered(tmp_path, vocab_size=10**6)
    assert tokens_after(again, 8, 7) == [9]
    assert tokens_after(again, 1) == []  # the oldest are gone


def test_tokens_that_the_target_lacks_are_not_proposed(tmp_path):
    remembered(tmp_path).add([5, 6, 99, 7])
    assert tokens_after(remembered(tmp_path, vocab_size=99), 5) == [6]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:10],
        lambda data: data[:-1],
        lambda data: data[:-4],
        lambda data: data[:60] + b"x" + data[61:],
        lambda data: b"another program's file",
        lambda data: data + b"\0" * MOST_BYTES,
    ],
    ids=["empty", "header", "odd", "short", "changed", "other", "long"],
)
def test_a_damaged_file_is_one_line_and_then_replaced(tmp_path, caplog, damage):
    remembered(tmp_path).add([5, 6, 7])
    file = only_file(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    caplog.clear()
    store = remembered(tmp_path)
    assert [record.getMessage() for record in caplog.records] == [
        f"{file} is damaged; its texts are forgotten"
    ]
    assert tokens_after(store, 5) == []
    store.add([8, 9])
    caplog.clear()
    assert tokens_after(remembered(tmp_path), 8) == [9]
    assert not caplog.records


def test_writers_at_once_leave_a_whole_file(tmp_path, caplog):
    """Each writer has its own store, as processes do."""

    def write(number):
        store = remembered(tmp_path)
        for text in range(10):
            store.add([100 * number + text] * 50)

    threads = [threading.Thread(target=write, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not caplog.records
    assert only_file(tmp_path).suffix == ".tokens"
    kept = remembered(tmp_path)._saved().reshape(-1, 51)  # 50 tokens and the end of each text
    assert (kept[:, :50] == kept[:, :1]).all()
    assert set(kept[:, 0]) & {9, 109, 209, 309}, "the last writer's last text"


def test_a_folder_that_goes_away_costs_a_line_not_the_text(folder, tmp_path, caplog):
    pair = edgespec.load(folder, threads=1, remember=tmp_path / "texts")
    (tmp_path / "texts").rmdir()
    assert pair.generate(PROMPT, max_new_tokens=4).token_ids
    (line,) = (record.getMessage() for record in caplog.records)
    assert "the text is not remembered" in line


def test_a_folder_that_is_a_file_is_refused(folder, tmp_path):
    file = tmp_path / "texts"
    file.write_text("mine")
    with pytest.raises(UsageError, match=r"cannot keep texts: .*; give another folder"):
        edgespec.load(folder, threads=1, remember=file)


# --- forgetting ----------------------------------------------------------------------------------


def test_forgetting_deletes_every_file_of_ours_and_the_empty_folder(tmp_path):
    texts = tmp_path / "texts"
    remembered(texts).add([1])
    remembered(texts, "f" * 64).add([1])
    run = CliRunner().invoke(main, ["forget", str(texts)])
    assert (run.exit_code, run.stdout) == (0, f"{texts}: 2 files deleted\n")
    assert not texts.exists()


def test_forgetting_leaves_files_that_are_not_ours(tmp_path):
    remembered(tmp_path).add([1])
    (tmp_path / "mine.tokens").write_text("mine")
    (tmp_path / "mine.txt").write_text("mine")
    assert len(forget(tmp_path)) == 1
    assert {file.name for file in tmp_path.iterdir()} == {"mine.tokens", "mine.txt"}


def test_forgetting_leaves_folders_and_pipes_that_have_such_names(tmp_path):
    remembered(tmp_path).add([1])
    (tmp_path / "folder.tokens").mkdir()
    (tmp_path / "folder.partial").mkdir()
    (tmp_path / "link.tokens").symlink_to("nowhere")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.tokens")
    others = {path.name for path in tmp_path.iterdir() if not path.is_file()}
    assert len(forget(tmp_path)) == 1
    assert {path.name for path in tmp_path.iterdir()} == others


def test_forgetting_what_is_no_folder_is_one_line(tmp_path):
    with pytest.raises(EdgespecError, match=r"cannot be forgotten: No such file"):
        forget(tmp_path / "none")


# --- given files ---------------------------------------------------------------------------------


def test_files_are_texts_of_their_own(tmp_path):
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    files[0].write_text("w3 w4")
    files[1].write_text("w5 w6")
    tokenizer = word_tokenizer(61)
    store = corpus_module.read_corpus(files, tokenizer)
    ids = [tokenizer.token_to_id(f"w{number}") for number in (3, 4, 5, 6)]
    assert tokens_after(store, ids[0]) == [ids[1]]
    assert tokens_after(store, ids[2]) == [ids[3]]
    assert isinstance(store, SuffixArray)


def test_too_long_a_corpus_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_module, "MOST_TOKENS", 3)
    file = tmp_path / "long.txt"
    file.write_text("w3 w4 w5 w6")
    with pytest.raises(UsageError, match=r"has 4 tokens with .*long\.txt; give at most 3"):
        corpus_module.read_corpus([file], word_tokenizer(61))


@pytest.mark.parametrize("content", [b"\xff\xfe\xff", None], ids=["not text", "missing"])
def test_a_corpus_that_cannot_be_read_is_one_line(folder, tmp_path, content):
    file = tmp_path / "corpus.txt"
    if content is not None:
        file.write_bytes(content)
    run = CliRunner().invoke(main, ["generate", str(folder), PROMPT, "--corpus", str(file)])
    assert run.exit_code == 2
    (line,) = [line for line in run.stderr.splitlines() if line.startswith("edgespec: ")]
    assert str(file) in line


def test_the_command_line_takes_both(folder, tmp_path):
    file = tmp_path / "corpus.txt"
    file.write_text(PROMPT)
    texts = tmp_path / "texts"
    command = ["generate", str(folder), PROMPT, "--greedy", "-n", "8"]
    plain = CliRunner().invoke(main, command)
    given = [*command, "--corpus", str(file), "--corpus", str(file), "--remember", str(texts)]
    for _ in range(2):
        assert CliRunner().invoke(main, given).stdout == plain.stdout
    assert only_file(texts)


def test_an_empty_corpus_and_an_unknown_context_match_nothing():
    store = SuffixArray([np.zeros(0, np.int32)])
    assert tokens_after(store, 3) == []
