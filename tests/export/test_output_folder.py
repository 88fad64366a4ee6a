"""Claim: an export replaces a pair when it is asked to, and never anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpoints import write_llama
from refusals import contents, export, failure, load, usage


def test_an_empty_folder_may_become_the_pair(tiny_checkpoints, tmp_path):
    (tmp_path / "pair").mkdir()
    export(*tiny_checkpoints, tmp_path / "pair")
    load(tmp_path / "pair")
    assert [path.name for path in tmp_path.iterdir()] == ["pair"]


def test_missing_parent_folders_are_made(tiny_checkpoints, tmp_path):
    export(tiny_checkpoints[0], None, tmp_path / "a" / "b")
    load(tmp_path / "a" / "b")


def test_a_pair_is_replaced_only_when_asked(tiny_checkpoints, own_pair):
    before = contents(own_pair)
    (own_pair / "mine.txt").write_text("there until it is replaced")
    assert "--force" in usage(export, tiny_checkpoints[0], None, own_pair)
    assert contents(own_pair).keys() - before.keys() == {"mine.txt"}
    export(tiny_checkpoints[0], None, own_pair, replace=True)
    assert load(own_pair).manifest.draft is None
    assert not (own_pair / "mine.txt").exists()


def test_a_replacement_that_fails_leaves_the_old_pair(tiny_checkpoints, own_pair, tmp_path):
    before = contents(own_pair)
    failing = write_llama(tmp_path / "failing", rope_scaling={"rope_type": "twist"})
    failure(export, failing, None, own_pair, replace=True)
    assert contents(own_pair) == before


@pytest.mark.parametrize("replace", [False, True])
def test_any_other_folder_is_never_touched(tiny_checkpoints, tmp_path, replace):
    folder = tmp_path / "home"
    (folder / "photos").mkdir(parents=True)
    (folder / "photos" / "cat.jpg").write_bytes(b"meow")
    assert str(folder) in usage(export, *tiny_checkpoints, folder, replace=replace)
    assert contents(tmp_path) == {"home/photos/cat.jpg": b"meow"}


@pytest.mark.parametrize("replace", [False, True])
def test_a_file_is_never_replaced_by_a_folder(tiny_checkpoints, tmp_path, replace):
    (tmp_path / "pair").write_text("mine")
    assert str(tmp_path / "pair") in usage(
        export, *tiny_checkpoints, tmp_path / "pair", replace=replace
    )
    failure(export, *tiny_checkpoints, tmp_path / "pair" / "below")
    assert contents(tmp_path) == {"pair": b"mine"}


def test_where_a_volume_is_mounted_is_not_replaced(tiny_checkpoints):
    assert "a volume is mounted" in usage(export, *tiny_checkpoints, Path("/"))


@pytest.mark.parametrize("name", [".", "..", "../{here}"])
def test_the_current_folder_is_not_replaced(tiny_checkpoints, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    said = usage(export, *tiny_checkpoints, Path(name.format(here=tmp_path.name)))
    assert "the folder you are in" in said
