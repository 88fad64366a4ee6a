"""Claim: a pair goes to a hub and comes from one whole or not at all, every file with its digest,
and goes on after a break. The hub is a stand-in on the loopback address."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest

import edgespec
from command import run
from edgespec.artifact.manifest import MANIFEST, read_manifest
from edgespec.library.kept_pairs import bytes_of
from edgespec.library.pair_cache import pair_folder
from full_disk import full_after
from standing_hub import Hub, running_hub

# huggingface_hub uploads in a way that its HTTP client advises against.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<...>':DeprecationWarning")

REPOSITORY = "somebody/tiny"


@pytest.fixture
def hub(monkeypatch, tmp_path) -> Iterator[Hub]:
    with running_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path / "home"))
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        yield hub


@pytest.fixture
def pushed(hub, tiny_folder) -> Hub:
    run("push", tiny_folder, REPOSITORY)
    hub.uploads, hub.sent = 0, {}
    return hub


@pytest.fixture
def home(tmp_path) -> Path:
    return tmp_path / "home/pairs"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def same_files(folder: Path, other: Path) -> bool:
    names = [*read_manifest(folder).files, MANIFEST]
    return all((folder / name).read_bytes() == (other / name).read_bytes() for name in names)


def largest(hub: Hub) -> str:
    files = hub.repositories[REPOSITORY]
    return max(files, key=lambda name: len(files[name]))


# --- whole ---------------------------------------------------------------------------------------


def test_what_was_pushed_is_pulled_and_used_by_its_name(pushed, tiny_folder, tiny, home):
    assert pushed.repositories[REPOSITORY].keys() == {*read_manifest(tiny_folder).files, MANIFEST}
    said = run("pull", REPOSITORY).stderr
    folder = home / "somebody--tiny"
    assert said.startswith(f"{folder}: ready, ")
    assert names_in(home) == ["somebody--tiny"]
    assert {path.name for path in folder.rglob("*")} <= {
        part for name in [*read_manifest(folder).files, MANIFEST] for part in Path(name).parts
    }
    assert same_files(folder, tiny_folder)
    assert pair_folder(REPOSITORY) == pair_folder("somebody--tiny") == folder
    pulled = edgespec.load(folder, threads=1)
    assert (
        pulled.generate("abc", max_new_tokens=5).text == tiny.generate("abc", max_new_tokens=5).text
    )


def test_pulling_again_fetches_nothing_and_another_pair_needs_force(pushed, own_pair, tmp_path):
    folder = tmp_path / "pair-here"
    run("pull", REPOSITORY, "-o", folder)
    pushed.sent = {}
    assert "is as on the hub" in run("pull", REPOSITORY, "-o", folder).stderr
    assert pushed.sent.keys() == {MANIFEST}
    manifest = folder / MANIFEST
    manifest.write_text(manifest.read_text() + " ")
    assert "holds another pair; replace it with --force" in (
        run("pull", REPOSITORY, "-o", folder, code=2).stderr
    )
    run("pull", REPOSITORY, "-o", folder, "--force")
    assert same_files(folder, own_pair)


def test_for_programs_both_print_one_object(hub, tiny_folder, home):
    folder = home / "somebody--tiny"
    sent = json.loads(run("push", tiny_folder, REPOSITORY, "--json").stdout)
    commit = f"{hub.address}/{REPOSITORY}/commit/{hub.commit_of(REPOSITORY)}"
    assert sent == {"repository": REPOSITORY, "commit": commit}
    for fetched in (True, False):
        result = run("pull", REPOSITORY, "--json")
        found = {"folder": str(folder), "fetched": fetched, "bytes": bytes_of(folder)}
        assert json.loads(result.stdout) == found
        assert result.stderr == ""


def test_a_push_is_one_commit_and_sends_nothing_twice(pushed, tiny_folder):
    before = pushed.commit_of(REPOSITORY)
    run("push", tiny_folder, REPOSITORY)
    assert pushed.uploads == 0
    assert pushed.commit_of(REPOSITORY) == before


# --- after a break -------------------------------------------------------------------------------


def test_a_hub_that_stops_in_the_middle_is_one_line_and_the_next_pull_goes_on(
    pushed, tiny_folder, home
):
    name = largest(pushed)
    size = len(pushed.repositories[REPOSITORY][name])
    pushed.stops_after = size - 1000
    said = run("pull", REPOSITORY, code=1).stderr
    assert said.count("\n") == 1
    assert f"the hub stopped in the middle of {name}, at {size - 1000} of {size} bytes" in said
    assert not (home / "somebody--tiny").exists()
    pushed.stops_after, pushed.sent = None, {}
    run("pull", REPOSITORY)
    assert pushed.sent[name] == 1000
    assert names_in(home) == ["somebody--tiny"]
    assert same_files(home / "somebody--tiny", tiny_folder)


def test_a_full_disk_is_not_the_hub_s_and_the_next_pull_goes_on(pushed, tiny_folder, home):
    name = largest(pushed)
    size = len(pushed.repositories[REPOSITORY][name])
    with full_after(size - 1000):
        said = run("pull", REPOSITORY, code=1).stderr
    assert said.count("\n") == 1
    assert f"{name}.part: File too large" in said
    assert not (home / "somebody--tiny").exists()
    pushed.sent = {}
    run("pull", REPOSITORY)
    assert pushed.sent[name] == 1000
    assert same_files(home / "somebody--tiny", tiny_folder)


def test_a_push_that_was_cut_off_has_changed_nothing_and_the_next_one_goes_on(
    hub, tiny_folder, monkeypatch
):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between attempts
    hub.stops_after = 1
    said = run("push", tiny_folder, REPOSITORY, code=1).stderr
    assert said.startswith(f"edgespec: {REPOSITORY}: the hub stopped (")
    assert said.count("\n") == 1
    assert hub.repositories[REPOSITORY] == {}
    sent, hub.stops_after = hub.uploads, None
    run("push", tiny_folder, REPOSITORY)
    large = [name for name in read_manifest(tiny_folder).files if name.endswith((".onnx", ".data"))]
    assert sent == 1
    assert hub.uploads <= len(large)
    assert hub.repositories[REPOSITORY].keys() == {*read_manifest(tiny_folder).files, MANIFEST}


# --- what is no pair, or not the one -------------------------------------------------------------


def test_a_file_with_another_digest_is_not_kept(pushed, home):
    name = largest(pushed)
    files = pushed.repositories[REPOSITORY]
    files[name] = bytes(len(files[name]))
    said = run("pull", REPOSITORY, code=1).stderr
    assert f"{name} is not the file that was exported" in said
    assert names_in(home) == [".somebody--tiny.download"]
    assert not list(home.rglob("*.part"))


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "c:evil"])
def test_a_name_that_leaves_the_folder_is_refused(pushed, home, name):
    files = pushed.repositories[REPOSITORY]
    data = json.loads(files[MANIFEST])
    data["files"][name] = next(iter(data["files"].values()))
    files[MANIFEST] = json.dumps(data).encode()
    assert "refused" in run("pull", REPOSITORY, code=1).stderr
    assert names_in(home) == [".somebody--tiny.download"]


def test_what_is_no_pair_is_one_line(hub, own_pair, tmp_path):
    assert "no such repository" in run("pull", REPOSITORY, code=1).stderr
    hub.repositories[REPOSITORY] = {"config.json": b"{}"}
    assert "so it is no exported pair" in run("pull", REPOSITORY, code=1).stderr
    for name in ("tiny", "a/b/c", "../x", "a/b@", ""):
        assert "is no repository; give one as owner/name" in run("pull", name, code=2).stderr
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("x")
    said = run("pull", REPOSITORY, "-o", tmp_path / "full", code=2).stderr
    assert "is not an exported pair; give another -o DIR" in said
    weights = next(own_pair.rglob("*.data"))
    weights.write_bytes(bytes(weights.stat().st_size))
    assert "not the file that was exported" in run("push", own_pair, REPOSITORY, code=1).stderr
    assert hub.repositories[REPOSITORY] == {"config.json": b"{}"}


@pytest.mark.parametrize("command", ["pull", "push"])
def test_an_address_of_a_hub_that_is_none_is_refused(hub, tiny_folder, monkeypatch, command):
    monkeypatch.setenv("HF_ENDPOINT", "nonsense")
    given = [tiny_folder] if command == "push" else []
    error = run(command, *given, REPOSITORY, code=2).stderr
    assert "HF_ENDPOINT is 'nonsense'; give an address" in error
