"""Claim: `edgespec.load` and `edgespec.export` take what commands take, and share their cache."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

import edgespec
from edgespec.artifact.manifest import read_manifest
from edgespec.cli.commands.export_command import export as export_command
from edgespec.pair.opening.loading import LoadOptions
from edgespec_export import export_pair as export_module
from edgespec_export.checkpoint import sources
from edgespec_export.export_pair import export_pair

FORMAT = "int8"  # of a draft from no catalogue: the quickest export


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "pairs"


@pytest.fixture
def exports(monkeypatch) -> list[str]:
    """The targets that were exported."""
    done: list[str] = []

    def counted(target, draft, folder, **options):
        done.append(target)
        return export_pair(target, draft, folder, **options)

    monkeypatch.setattr(export_module, "export_pair", counted)
    return done


def test_a_checkpoint_is_exported_once_and_a_name_of_the_hub_means_the_same(
    tiny_checkpoints, home, exports, monkeypatch
):
    target, _ = tiny_checkpoints
    monkeypatch.setattr(sources, "download", lambda repository, revision: target)
    for name in (str(target), str(target), target, "smollm2-360m", "smollm2-360m"):
        pair = edgespec.load(name, threads=1, target_format=FORMAT)
        assert pair.generate([4, 5, 6], max_new_tokens=3).token_ids
        assert pair.formats[0] == FORMAT
    assert exports == [str(target), "smollm2-360m"]
    (kept, _) = sorted(home.iterdir())
    assert edgespec.load(kept.name, threads=1).manifest.target.source
    assert len(exports) == 2


@pytest.mark.parametrize("name", ["", None, 5, b"pair", []], ids=str)
def test_what_is_no_name_is_refused_also_where_this_folder_is_a_pair(
    tiny_folder, name, monkeypatch
):
    monkeypatch.chdir(tiny_folder)
    with pytest.raises(edgespec.UsageError, match="give a folder or a model's name"):
        edgespec.load(name)


def test_export_returns_its_folder_and_takes_the_cache_by_default(
    tiny_checkpoints, tmp_path, home, exports
):
    target, draft = tiny_checkpoints
    options = {"target_formats": [FORMAT], "measure": False, "threads": 1}
    folder = edgespec.export(target, draft, **options)
    assert folder.parent == home
    assert edgespec.export(str(target), str(draft), **options) == folder
    assert len(exports) == 1
    own = edgespec.export(target, None, tmp_path / "own", no_draft=True, **options)
    assert own == tmp_path / "own"
    assert read_manifest(own).draft is None
    with pytest.raises(edgespec.EdgespecError, match="own"):
        edgespec.export(target, None, own, no_draft=True, **options)
    edgespec.export(target, None, own, no_draft=True, replace=True, **options)
    assert list(read_manifest(own).target.variants) == [FORMAT]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (Path("nosuch"), "so it is not an exported pair"),
        (Path("no/such"), "is not an exported pair"),
        ("smollm2-136m", "short name or hub id.*smollm2-135m"),
        ("", "give a folder or a model.s name"),
    ],
)
def test_what_is_nowhere_is_said_in_a_line_and_never_downloaded(name, message, monkeypatch):
    def download(*_):
        raise AssertionError

    monkeypatch.setattr(sources, "download", download)
    with pytest.raises(edgespec.EdgespecError, match=message) as failure:
        edgespec.load(name)
    assert "\n" not in str(failure.value)


def test_without_the_exporter_a_folder_opens_and_a_name_says_what_to_install(
    tiny_folder, monkeypatch
):
    for name in [name for name in sys.modules if name.partition(".")[0] == "edgespec_export"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "edgespec_export", None)
    assert edgespec.load(str(tiny_folder), threads=1).manifest
    with pytest.raises(edgespec.EdgespecError, match=r"needs the package .*edgespec_export.*pip"):
        edgespec.load("smollm2-135m")
    with pytest.raises(edgespec.EdgespecError, match=r"needs the package .*edgespec_export.*pip"):
        edgespec.export("smollm2-135m")


def test_help_shows_every_option_and_a_mistyped_one_is_told_the_nearest(tiny_folder):
    shown = inspect.signature(edgespec.load).parameters
    assert list(shown)[1:] == list(LoadOptions.__annotations__)
    assert all(f"{name}" in (edgespec.load.__doc__ or "") for name in LoadOptions.__annotations__)
    with pytest.raises(TypeError, match="load has no option 'thread'; did you mean 'threads'"):
        edgespec.load(tiny_folder, thread=1)
    with pytest.raises(TypeError, match="export has no option 'drfat'; did you mean 'draft'"):
        edgespec.export(tiny_folder, drfat="x")
    assert "target_formats" in inspect.signature(edgespec.export).parameters


def test_python_exports_with_every_option_of_the_command():
    names = {"no_measure": "measure", "force": "replace"}
    options = {names.get(option.name, option.name) for option in export_command.params}
    assert options == set(inspect.signature(edgespec.export).parameters)
