"""Claim: what is kept is listed at once, with what it takes and whether it is exact here; what is
not wanted any more goes, and nothing else does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import edgespec
from command import run
from edgespec.artifact.kept import used_mark
from edgespec.artifact.manifest import FORMAT_VERSION, MANIFEST, manifest_digest
from edgespec.cli.models import list_command
from edgespec.errors import EdgespecError
from edgespec.library.kept_pairs import bytes_of, find_kept, kept_pairs, older_line, size
from edgespec.pair.opening.invariance_cache import INVARIANCE_FILE
from edgespec_export.catalogue import proposed_draft
from edgespec_export.checkpoint.sources import ALIASES
from edgespec_export.known.available import available_models

NEW, OLD = "target--draft--01234567", "target--draft--89abcdef"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    """A cache of this test's own."""
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path / "home"))
    pairs = tmp_path / "home/pairs"
    pairs.mkdir(parents=True)
    return pairs


def keep(folder: Path, place: Path, **fields: object) -> Path:
    """A copy in the cache, with other fields in its manifest."""
    shutil.copytree(folder, place)
    data = {**json.loads((place / MANIFEST).read_text()), **fields}
    (place / MANIFEST).write_text(json.dumps({**data, "digest": manifest_digest(data)}))
    return place


def listed() -> list[dict]:
    return json.loads(run("list", "--json").stdout)["models"]


# --- list and show -------------------------------------------------------------------------------


def test_a_kept_pair_is_listed_with_what_is_known_of_it(tiny_folder, home):
    folder = keep(tiny_folder, home / NEW)
    (pair,) = listed()
    assert pair["name"] == NEW
    assert pair["path"] == str(folder)
    assert pair["formats"] == ["fp32"]
    assert pair["bytes"] == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert (pair["version"], pair["format_version"]) == (edgespec.__version__, FORMAT_VERSION)
    assert (pair["exact"], pair["tuned"], pair["is_older"]) == (True, False, False)
    header, row = run("list").stdout.splitlines()
    assert header.split()[:3] == ["NAME", "FORMATS", "SIZE"]
    for word in (NEW, "fp32", size(pair["bytes"]), "yes", edgespec.__version__):
        assert word in row


def test_loading_marks_it_as_used_and_exact_here(tiny_folder, home, monkeypatch):
    folder = keep(tiny_folder, home / NEW)
    os.utime(folder / MANIFEST, (1, 1))
    assert listed()[0]["last_used"] == 1
    before = time.time() - 5
    edgespec.load(folder, threads=1)
    assert listed()[0]["last_used"] > before
    assert listed()[0]["exact"] is True
    assert "yes" in run("list").stdout
    monkeypatch.setenv("EDGESPEC_KERNELS", "0")  # other bits, of which nothing is known
    assert listed()[0]["exact"] is None


def test_a_folder_elsewhere_is_not_marked_and_what_was_tested_there_counts(
    tiny_folder, home, tmp_path, monkeypatch
):
    folder = keep(unmeasured(tiny_folder, tmp_path), tmp_path / "elsewhere" / "pairs" / NEW)
    assert json.loads(run("show", str(folder), "--json").stdout)["exact"] is None
    edgespec.load(folder, threads=1)
    assert not (folder / used_mark.MARK).exists()
    assert json.loads(run("show", str(folder), "--json").stdout)["exact"] is True
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path / "elsewhere"))
    assert listed()[0]["exact"] is True
    assert (folder / used_mark.MARK).exists()


def test_an_export_that_nobody_used_is_tested_if_it_was_measured_here(tiny_folder, home, tmp_path):
    keep(tiny_folder, home / NEW)
    keep(unmeasured(tiny_folder, tmp_path), home / OLD)
    assert {pair["name"]: pair["exact"] for pair in listed()} == {NEW: True, OLD: None}


def test_a_mark_of_other_software_is_written_anew(tiny_folder, home):
    folder = keep(tiny_folder, home / NEW)
    mark = folder / used_mark.MARK
    mark.write_text('{"exact": false, "machine": ["onnxruntime 1.0"]}')
    os.utime(mark, (7, 7))
    assert (listed()[0]["exact"], listed()[0]["last_used"]) == (True, 7)


def unmeasured(folder: Path, place: Path) -> Path:
    """A copy whose export was measured on another machine."""
    target = json.loads((folder / MANIFEST).read_text())["target"]
    for variant in target["variants"].values():
        variant["row_invariance"]["machine"] = "another"
    copy = keep(folder, place / "exported", target=target)
    (copy / INVARIANCE_FILE).unlink(missing_ok=True)
    return copy


@pytest.mark.parametrize("command", ["prune --unused 9x", "prune --unused days"])
def test_days_that_are_no_number_are_refused_as_such(command):
    assert "is not a number." in run(*command.split(), code=2).stderr


def test_what_show_says_of_a_folder_elsewhere_can_be_pasted(tiny_folder, tmp_path):
    folder = keep(tiny_folder, tmp_path / "my pairs")
    assert f"edgespec tune '{folder}'" in run("show", str(folder)).stdout


@pytest.mark.parametrize("place", ["kept", "elsewhere"])
def test_show_refuses_what_inspect_calls_damaged_in_the_same_line(
    tiny_folder, home, tmp_path, place
):
    def cut(folder):
        graph = min(folder.rglob("*.onnx"))
        graph.write_bytes(graph.read_bytes()[:-1])

    def changed(folder):
        data = json.loads((folder / MANIFEST).read_text())
        (folder / MANIFEST).write_text(json.dumps({**data, "created_by": "edgespec 9"}))

    def signed(folder):
        data = json.loads((folder / MANIFEST).read_text()) | {"host": "toaster"}
        (folder / MANIFEST).write_text(json.dumps({**data, "digest": manifest_digest(data)}))

    def missing(folder):
        (folder / "tokenizer.json").unlink()

    for damage in (cut, changed, signed, missing):
        name = f"{damage.__name__}--01234567"
        folder = keep(tiny_folder, (home if place == "kept" else tmp_path) / name)
        asked = name if place == "kept" else folder
        assert run("show", asked).stdout
        damage(folder)
        said = run("inspect", asked, code=1).stderr
        assert len(said.splitlines()) == 1
        assert run("show", asked, code=1).stderr == said


def test_show_says_what_a_folder_that_is_no_export_lacks(tmp_path):
    said = run("show", tmp_path, code=1).stderr
    assert said.startswith(f"edgespec: the folder {str(tmp_path)[:20]!r}"[:-1])
    assert f" has no {MANIFEST}, and no export is called" in said


def test_what_is_no_export_is_passed_over_and_an_old_format_is_not(tiny_folder, home):
    (home / "file").write_text("x")
    (home / "empty").mkdir()
    (home / "damaged").mkdir()
    (home / "damaged" / MANIFEST).write_text("{")
    (home / ".hidden").mkdir()
    keep(tiny_folder, home / OLD, version=1, created_by="edgespec 0.0.1")
    assert [pair["name"] for pair in listed()] == [OLD]
    assert listed()[0]["is_older"]


def test_an_empty_cache_says_where_models_are_to_be_had(home):
    result = run("list")
    assert result.stdout == ""
    assert "edgespec list --available" in result.stderr
    home.rmdir()
    assert run("list", "--json").exit_code == 0


def test_the_newest_use_comes_first(tiny_folder, home):
    for age, name in enumerate(("b", "a")):
        folder = keep(tiny_folder, home / name)
        os.utime(folder / MANIFEST, (1000 - age, 1000 - age))
    assert [pair["name"] for pair in listed()] == ["b", "a"]


def test_tables_fit_a_narrow_terminal_and_files_have_all_of_them(tiny_folder, home, monkeypatch):
    keep(tiny_folder, home / NEW)
    whole = run("list", "--available").stdout
    assert "HuggingFaceTB/SmolLM2-1.7B-Instruct" in whole
    monkeypatch.setattr(list_command, "_columns", lambda: 80)
    lines = run("list", "--available").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [line.split()[0] for line in whole.splitlines()]
    assert max(map(len, lines)) <= 80
    monkeypatch.setattr(list_command, "_columns", lambda: 66)
    lines = run("list").stdout.splitlines()
    assert (lines[0], lines[2]) == ("NAME", NEW)
    assert max(map(len, lines)) <= 66


def test_listing_imports_nothing_that_takes_long(tiny_folder, tmp_path, home):
    keep(tiny_folder, home / NEW)
    keep(unmeasured(tiny_folder, tmp_path), home / OLD)
    kept_pairs()  # marks them
    code = "from edgespec.cli.main import main; import sys\n"
    code += "try: main(['list'])\nexcept SystemExit: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = {name.partition(".")[0] for name in done.stdout.split()}
    slow = {"numpy", "onnxruntime", "tokenizers", "rich", "prompt_toolkit", "email"}
    assert modules & slow == set()
    others = [name for name in done.stdout.split() if name.startswith("edgespec.cli.commands.")]
    assert others == []


@pytest.mark.parametrize("name", [NEW, "target--draft", "TARGET--", "{model}"])
def test_show_finds_a_model_by_any_of_its_names(tiny_folder, home, name):
    folder = keep(tiny_folder, home / NEW)
    model = json.loads((folder / MANIFEST).read_text())["target"]["source"]
    shown = run("show", name.format(model=model)).stdout
    for word in (NEW, str(folder), "fp32", "exact here  yes", f"format {FORMAT_VERSION}"):
        assert word in shown
    parts = json.loads(run("show", NEW, "--json").stdout)["parts"]
    assert sum(parts.values()) == bytes_of(folder)


def test_show_takes_a_folder_anywhere(own_pair):
    assert str(own_pair) in run("show", own_pair).stdout


def test_a_name_that_means_two_or_none_is_one_line(tiny_folder, home):
    keep(tiny_folder, home / NEW)
    keep(tiny_folder, home / OLD)
    with pytest.raises(EdgespecError, match="means 2 exports; give one: target--draft--"):
        find_kept("target")
    said = run("show", "nosuch", code=1).stderr
    assert said == "edgespec: no export is called 'nosuch'; edgespec list names them\n"


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_999, "1.0 MB"), (1.86e9, "1.9 GB")],
)
def test_sizes_are_for_people(count, said):
    assert size(count) == said


# --- what there is -------------------------------------------------------------------------------


def test_each_short_name_is_available_with_its_draft_and_what_it_takes():
    models = {model.name: model for model in available_models()}
    assert models.keys() == ALIASES.keys()
    for name, model in models.items():
        proposal = proposed_draft(ALIASES[name])
        assert model.draft == (proposal.draft if proposal else None)
        assert model.licence
        assert 0 < model.export_bytes < model.memory_bytes
        assert model.export_bytes < model.download_bytes
    data = json.loads(run("list", "--available", "--json").stdout)["models"]
    assert [model["name"] for model in data] == list(ALIASES)
    assert "SmolLM2-1.7B-Instruct" in run("list", "--available").stdout


# --- rm and prune --------------------------------------------------------------------------------


def test_rm_removes_what_it_names_and_nothing_else(tiny_folder, home):
    keep(tiny_folder, home / NEW)
    keep(tiny_folder, home / "other")
    refused = run("rm", NEW, code=2).stderr
    assert "nobody can be asked here; add --yes" in refused
    assert "no export is called" in run("rm", NEW, "nosuch", "-y", code=1).stderr
    assert (home / NEW).is_dir()
    result = run("rm", NEW, "--yes")
    assert result.stderr.endswith(" removed\n")
    assert [path.name for path in home.iterdir()] == ["other"]


def test_rm_cannot_leave_the_cache(own_pair, home):
    for name in (own_pair, "..", "../..", "."):
        assert "no export is called" in run("rm", name, "--yes", code=1).stderr
    assert own_pair.is_dir()


def test_prune_removes_other_versions_and_what_was_left_unfinished(tiny_folder, home):
    keep(tiny_folder, home / NEW)
    keep(tiny_folder, home / OLD, created_by="edgespec 0.0.1")
    keep(tiny_folder, home / "owner--pulled", created_by="edgespec 0.0.1")  # not made again here
    (home / ".other--01234567.partial").mkdir()
    (home / ".other--01234567.recipe").write_text("x")
    shown = run("prune", "--dry-run")
    assert "would be freed" in shown.stderr
    assert len(list(home.iterdir())) == 5
    result = json.loads(run("prune", "--yes", "--json").stdout)
    assert {Path(folder["path"]).name for folder in result["folders"]} == {
        *(OLD, ".other--01234567.partial", ".other--01234567.recipe")
    }
    assert sorted(path.name for path in home.iterdir()) == ["owner--pulled", NEW]
    assert run("prune").stderr == "nothing to remove\n"


def test_prune_leaves_an_export_that_is_being_made(home):
    from filelock import FileLock

    (home / ".new--01234567.partial").mkdir()
    with FileLock(home / ".new--01234567.lock"):
        assert run("prune", "--yes").stderr == "nothing to remove\n"
    assert (home / ".new--01234567.partial").is_dir()


def test_prune_removes_what_was_not_used_for_so_long(tiny_folder, home):
    for name, days in (("long", 40), ("short", 3)):
        folder = keep(tiny_folder, home / name)
        then = time.time() - days * 86_400
        os.utime(folder / MANIFEST, (then, then))
    assert run("prune", "--unused", 30, "--yes").stdout.startswith("long: ")
    assert [pair.name for pair in kept_pairs()] == ["short"]


def test_a_newer_edgespec_says_what_is_old_and_what_removes_it(tiny_folder, home):
    keep(tiny_folder, home / OLD, created_by="edgespec 0.0.1")
    assert "exports such a model again" in run("list").stderr
    new = keep(tiny_folder, home / NEW)
    line = older_line(new)
    assert line is not None
    assert line.startswith("exported before by edgespec 0.0.1; edgespec prune removes that (")
    assert older_line(home / "another--draft--01234567") is None
