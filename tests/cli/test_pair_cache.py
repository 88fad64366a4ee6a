"""Claim: a model can be used by its name: it is exported once, whole, into the user's cache.

Hub ids are looked up without a network: what would be downloaded is replaced by a local folder.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from huggingface_hub.errors import OfflineModeIsEnabled

from command import run
from depth import one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.library.exporting import export_request
from edgespec.library.pair_cache import cached_folder, pair_folder, pairs_home
from edgespec_export import export_pair as export_module
from edgespec_export.checkpoint import sources

HUB_TARGET, HUB_DRAFT = "HuggingFaceTB/SmolLM2-1.7B-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct"
ONE = ("--threads", 1)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    """A cache of this test's own."""
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "pairs"


@pytest.fixture
def exports(monkeypatch) -> list[tuple[str, str | None]]:
    """The targets and drafts that were exported."""
    done = []
    original = export_module.export_pair

    def export_pair(target, draft, folder, **options):
        done.append((target, draft))
        return original(target, draft, folder, **options)

    monkeypatch.setattr(export_module, "export_pair", export_pair)
    return done


@pytest.fixture
def hub(own_checkpoints, monkeypatch) -> list[str]:
    """A hub with two models; the list of what was downloaded."""
    target, draft = own_checkpoints
    folders = {HUB_TARGET: target, HUB_DRAFT: draft}
    asked = []

    def download(repository, revision):
        asked.append(repository)
        return folders[repository]

    monkeypatch.setattr(sources, "download", download)
    return asked


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


# --- where the cache is --------------------------------------------------------------------------


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    assert pairs_home() == tmp_path / "home" / "pairs"
    monkeypatch.delenv("EDGESPEC_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert pairs_home() == tmp_path / "xdg" / "edgespec" / "pairs"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert pairs_home() == tmp_path / ".cache" / "edgespec" / "pairs"


# --- generate NAME -------------------------------------------------------------------------------


def test_a_checkpoint_is_exported_on_first_use_and_reused(own_checkpoints, exports, home):
    target, _ = own_checkpoints
    first = run("generate", target, "abc", "-n", 5, *ONE)
    (name,) = names_in(home)
    assert name.startswith("target--lookup--")
    lines = first.stderr.splitlines()
    assert lines[0] == f"{target}: used for the first time, exporting to {home / name}"
    assert lines[1] == f"draft: none is known for {target}, so the pair drafts by prompt lookup"
    assert any(line.startswith("target format: ") for line in lines)
    second = run("generate", target, "abc", "-n", 5, *ONE)
    assert second.stdout == first.stdout
    assert second.stderr == ""
    assert exports == [(str(target), None)]


@pytest.mark.parametrize(
    "name",
    ["./pairs/x", "../x", "~/pairs/x", "/nosuch/x", "a/b/c", "build/", "./x", "C:\\pairs\\x"],
)
@pytest.mark.parametrize("command", ["generate", "inspect"])
def test_a_path_that_is_not_there_is_no_model_of_a_hub(home, monkeypatch, tmp_path, command, name):
    monkeypatch.chdir(tmp_path)
    said = run(command, name, *(["abc"] if command == "generate" else []), code=1).stderr
    assert "there is no such folder, so it is not an exported pair" in said
    assert "hub" not in said
    assert not home.exists()


def test_a_name_of_a_hub_that_may_be_a_folder_says_both(home, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.snapshot_download", offline)
    said = run("generate", "build/x", "abc", code=1).stderr.splitlines()
    assert said[0].startswith("build/x: no folder here, so the hub's model; used for the first")
    assert "build/x: no such folder here, no copy in the cache, and the hub" in said[-1]
    (tmp_path / "build").mkdir()
    said = run("generate", "build/x", "abc", code=1).stderr
    assert said.startswith("edgespec: build/x: there is no such folder")


def offline(*_: object, **__: object) -> None:
    raise OfflineModeIsEnabled("offline")


def test_a_folder_with_a_gguf_file_is_a_checkpoint(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    said = run("generate", tmp_path, "abc", code=1).stderr
    assert f"{tmp_path}: used for the first time" in said
    assert "is not an exported pair" not in said


@one_in(3)
@pytest.mark.parametrize("command", ["inspect", "chat", "bench"])
def test_other_commands_take_names_too(own_checkpoints, exports, tmp_path, command):
    target, _ = own_checkpoints
    (tmp_path / "texts").write_text("abc\n")
    (target / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": "<{{ messages[0].content }}>"})
    )
    options = {"bench": ["-n", 4, "--text", tmp_path / "texts", *ONE], "chat": ["-n", 4, *ONE]}.get(
        command, []
    )
    assert run(command, target, *options, input="hi\n").stdout
    assert run(command, target, *options, input="hi\n").stdout
    assert exports == [(str(target), None)]


def test_a_changed_checkpoint_is_another_pair(own_checkpoints, exports, home):
    target, _ = own_checkpoints
    run("inspect", target)
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 64}))
    assert "capacity 64" in run("inspect", target).stdout
    assert len(names_in(home)) == 2


def test_a_format_that_is_asked_for_is_exported(own_checkpoints, exports, home):
    target, _ = own_checkpoints
    done = run("generate", target, "abc", "-n", 3, *ONE, "--target-format", "fp16", "--json")
    assert json.loads(done.stdout)["settings"]["target_format"] == "fp16"
    (folder,) = names_in(home)
    assert list(read_manifest(home / folder).target.variants) == ["fp16"]


def test_an_unknown_format_is_one_line_before_anything_is_exported(own_checkpoints, exports, home):
    target, _ = own_checkpoints
    done = run("generate", target, "abc", "--target-format", "nope", code=2)
    assert "nope" in done.stderr.splitlines()[-1]
    assert not home.exists() or not names_in(home)


def test_an_exported_folder_is_used_as_it_is(own_pair, exports, home):
    run("generate", own_pair, "abc", "-n", 3)
    assert exports == []
    assert not home.exists()


@pytest.mark.parametrize("name", ["nosuch", "smollm2-136m"])
def test_an_unknown_name_is_one_line_with_names_that_are_close(name):
    (line,) = run("generate", name, "abc", code=1).stderr.splitlines()
    assert f"'{name}': no such folder or .gguf file, short name or hub id" in line
    assert ("smollm2-135m" in line) == name.startswith("smol")


def test_a_path_that_is_mistyped_is_not_looked_for_on_the_hub(own_pair, hub, monkeypatch):
    monkeypatch.chdir(own_pair.parent.parent)
    mistyped = Path(own_pair.parent.name) / "piar"
    assert "is not an exported pair" in run("generate", mistyped, "abc", code=1).stderr
    assert hub == []


def test_an_interrupted_export_is_never_taken_for_a_whole_one(own_checkpoints, home, monkeypatch):
    target, _ = own_checkpoints

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("edgespec_export.run_export.write_manifest", interrupted)
        said = run("generate", target, "abc", "-n", 3, code=130).stderr
    assert said.endswith("edgespec: interrupted\n")
    assert names_in(home) == []
    assert [
        path.name for path in home.iterdir()
    ]  # what was written stays: the next run continues from it
    assert run("generate", target, "abc", "-n", 3).stdout
    (name,) = names_in(home)
    read_manifest(home / name)
    assert [path.name for path in home.iterdir()] == [name]


# --- export without -o ---------------------------------------------------------------------------


def test_export_without_an_output_goes_to_the_cache_and_says_its_name(
    own_checkpoints, exports, home
):
    target, draft = own_checkpoints
    said = run("export", target, draft, "--target-format", "fp32", *ONE).stderr
    (name,) = names_in(home)
    assert name.startswith("target--draft--")
    begins, _, ends = said.splitlines()[-1].partition(", ")
    assert begins == f"{home / name}: ready"
    assert ends.endswith(f"; try: edgespec generate {name} PROMPT")
    assert run("generate", name, "abc", "-n", 3).stdout
    assert len(exports) == 1


def test_a_usual_export_is_found_by_its_target_s_name(own_checkpoints, exports):
    target, _ = own_checkpoints
    said = run("export", target, *ONE).stderr
    assert said.splitlines()[-1].endswith(f"try: edgespec generate {target} PROMPT")
    run("generate", target, "abc", "-n", 3)
    assert len(exports) == 1


def test_an_export_into_the_cache_is_replaced_only_when_asked(own_checkpoints):
    target, _ = own_checkpoints
    run("export", target, *ONE)
    assert "--force" in run("export", target, *ONE, code=2).stderr
    run("export", target, "--force", *ONE)


@pytest.mark.parametrize("target_format", ["int4", "fp32", None])
def test_a_draft_is_int8_whatever_format_its_target_is_asked_for_in(own_checkpoints, target_format):
    formats = None if target_format is None else (target_format,)
    request = export_request(*map(str, own_checkpoints), target_formats=formats)
    assert (request.target_formats, request.draft_formats) == (formats, ("int8",))


def test_a_draft_for_a_host_without_int8_has_the_host_s_format(own_checkpoints):
    names = list(map(str, own_checkpoints))
    hosts = {"web": ("int8",), "gpu": ("fp32",), "npu": ("fp16",)}
    for formats in (None, ("fp16",)):
        found = {
            host: export_request(*names, target_formats=formats, host=host).draft_formats
            for host in hosts
        }
        assert found == hosts


def test_every_request_has_a_folder_of_its_own(own_checkpoints):
    target, draft = map(str, own_checkpoints)
    requests = [
        export_request(target),
        export_request(target, draft),
        export_request(target, draft, target_formats=("fp32",)),
        export_request(target, draft, target_formats=("fp32", "int8")),
        export_request(target, draft, draft_formats=("fp32",)),
        export_request(target, draft, cache_formats=("int8",)),
        export_request(target, draft, calibration="none"),
        export_request(target, draft, draft_tokens=100),
        export_request(target, draft, draft_tokens=101),
        export_request(target, draft, host="web"),
        export_request(target, draft, target_formats=("int8",), host="web"),
        export_request("smollm2-360m"),
        export_request("smollm2-360m@main"),
    ]
    folders = [cached_folder(request) for request in requests]
    assert len(set(folders)) == len(folders)
    assert folders == [cached_folder(request) for request in requests]


# --- the catalogue -------------------------------------------------------------------------------


@one_in(2)
@pytest.mark.parametrize("name", ["smollm2-1.7b", HUB_TARGET])
def test_a_well_known_target_gets_its_draft_and_the_reason(name, hub, exports, home):
    said = run("generate", name, "abc", "-n", 3, *ONE).stderr
    reason = "it has the same tokenizer and 13 times fewer parameters"
    assert (
        f"draft: {HUB_DRAFT}, because {reason}; to leave it out: edgespec export {name} --no-draft"
        in said.splitlines()
    )
    assert exports == [(name, HUB_DRAFT)]
    assert hub == [HUB_TARGET, HUB_DRAFT]
    (folder,) = names_in(home)
    assert folder.startswith("SmolLM2-1.7B-Instruct--SmolLM2-135M-Instruct--")
    assert read_manifest(home / folder).draft is not None


def test_a_proposed_draft_can_be_declined(hub, exports, tmp_path):
    folder = tmp_path / "pair"
    said = run("export", "smollm2-1.7b", "--no-draft", "-o", folder, *ONE).stderr
    assert "to leave it out" not in said
    assert hub == [HUB_TARGET]
    assert read_manifest(folder).draft is None


def test_a_draft_that_was_named_is_taken(hub, own_checkpoints, tmp_path):
    _, draft = own_checkpoints
    said = run("export", "smollm2-1.7b", draft, "-o", tmp_path / "pair", *ONE).stderr
    assert "to leave it out" not in said
    assert hub == [HUB_TARGET]


def test_a_pair_in_the_cache_needs_no_network(hub, exports, home):
    run("generate", "smollm2-1.7b", "abc", "-n", 3, *ONE)
    del hub[:]
    assert run("generate", "smollm2-1.7b", "abc", "-n", 3, *ONE).stdout
    assert hub == []


def test_a_damaged_pair_in_the_cache_says_what_to_do(own_checkpoints, home):
    target, _ = own_checkpoints
    folder = pair_folder(str(target))
    shutil.rmtree(folder / "target")
    (line,) = run("generate", target, "abc", code=1).stderr.splitlines()
    assert "export" in line
