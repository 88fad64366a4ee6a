"""Claim: what README and guides tell people to type works.

Each page's blocks run in order, as a reader would run them, in a folder with everything that the
pages name: the shipped pair as build/en-de, small random models as all others. A command that
needs the hub, or runs for minutes or until it is stopped, is parsed by its own options instead,
with files of those names. What is not run at all is listed, with the test that covers it.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import tomllib
import wave
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

import edgespec
from adapters import write_adapter
from checkpoints import write_noisy
from depth import deep
from edgespec.cli.main import main
from serving import Served
from whisper_checkpoints import write_whisper

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = ("", "bash")
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", *sorted(GUIDES.glob("*.md"))]

# Commands that download, measure for minutes, train, or serve until they are stopped.
LONG = ("chat", "distill", "serve", "tune")
HUB = ("smollm2-1.7b", "flan-t5-large")
# Blocks that are not run, by what is in them.
ELSEWHERE = {
    "ray.data.from_items": "tests/batch/test_batch_on_ray.py",
    "@edgespec/edgespec/web": "runtimes/js/tests/web/page.test.ts",
}
JAVASCRIPT = ROOT / "runtimes" / "js"


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of each block of a page."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def commands(block: str) -> list[list[str]]:
    """The words of each command of a block. Those of a pipe are commands of their own; a file that
    the output goes to is left out."""
    found: list[list[str]] = []
    for line in block.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|>&")
        lexer.whitespace_split = True
        groups = itertools.groupby(lexer, key=lambda word: word in ("|", "&&", ">"))
        parts = [list(words) for _, words in groups]
        found += [
            words for at, words in enumerate(parts[::2]) if parts[2 * at - 1 : 2 * at] != [[">"]]
        ]
    return found


@pytest.fixture(scope="module")
def shelf(pair_folder, chat_folder, tiny_folder, tiny_checkpoints, tmp_path_factory) -> Path:
    """Files of the names in the pages."""
    folder = tmp_path_factory.mktemp("reader")
    target, draft = tiny_checkpoints
    pairs = {"en-de": pair_folder, "smollm2": chat_folder, "pair": tiny_folder}
    pairs |= {"flan": tiny_folder, "pair-with-another-draft": tiny_folder, "draft": draft}
    (folder / "build").mkdir()
    for name, linked in pairs.items():
        (folder / "build" / name).symlink_to(linked)
    links = {"pair": tiny_folder, "PAIR": chat_folder, "TARGET": target, "DRAFT": draft}
    links |= {"HEAD": write_noisy(target, folder / "head", noise=0.1), "models": ROOT / "models"}
    for name, linked in links.items():
        (folder / name).symlink_to(linked)
    shutil.copytree(
        write_whisper(folder / "w", alignment_heads=[[1, 0], [2, 1]]), folder / "whisper-base"
    )
    write_whisper(folder / "whisper-tiny", noise=0.03)
    write_adapter(target, folder / "ADAPTER", ["model.layers.0.mlp.down_proj"])
    texts = "The file is open.\n%%\nSave changes?\n"
    for name in ("prompts.txt", "prompt.txt", "my_prompts.txt", "manual.txt", "glossary.txt"):
        (folder / name).write_text(texts)
    (folder / "SmolLM2-135M-Instruct.Q4_1.gguf").touch()
    lines = [block for kind, block in blocks(GUIDES / "batch.md") if kind == "json"]
    (folder / "questions.jsonl").write_text("".join(lines[:2]))
    (folder / "questions.jsonl.gz").write_bytes(gzip.compress("".join(lines[:2]).encode()))
    (folder / "person.json").write_text('{"type": "boolean"}')
    (folder / "rules.lark").write_text('start: "yes" | "no"')
    with wave.open(str(folder / "talk.wav"), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(16_000)
        tone = 9000 * np.sin(np.arange(24_000) / 9)
        sound.writeframes(tone.astype("<i2").tobytes())
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_says_works(page, shelf, tmp_path, monkeypatch):
    folder = tmp_path / "reader"
    shutil.copytree(shelf, folder, symlinks=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    remembered = tmp_path / ".local" / "share" / "my-app" / "texts"  # by a server, earlier
    edgespec.load("build/pair", threads=1, remember=remembered).generate("a", max_new_tokens=9)
    names: dict[str, object] = {"show": print}
    for kind, block in blocks(page):
        if any(mark in block for mark in ELSEWHERE):
            continue
        if kind in SHELL:
            for words in commands(block):
                typed(words)
        elif kind == "python":
            read(block, names)


def typed(words: list[str]) -> None:
    """One command of a shell."""
    program, *arguments = map(os.path.expanduser, words)
    if program == "edgespec":
        if arguments[0] in LONG or "--ray" in arguments or set(HUB) & set(arguments):
            parsed(arguments)
        else:
            ran(arguments)
    elif program == "pip":
        installable(arguments)
    elif program == "make":
        rules = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{arguments[0]}:", rules, re.MULTILINE)
    else:
        others = ("cd", "docker", "export", "jq", "lm_eval", "npm", "python3", ".", "zcat")
        assert program in others, words


def parsed(arguments: list[str]) -> None:
    """A command's own checks of its options, without what it does."""
    command = main.commands[arguments[0]]
    with click.Context(main, info_name="edgespec", **main.context_settings) as context:
        command.make_context(arguments[0], arguments[1:], parent=context)


def ran(arguments: list[str]) -> None:
    """A command that ends well. A pair that other commands need is exported beside it."""
    arguments = [
        f"{word}-exported" if before == "-o" and Path(word).is_symlink() else word
        for before, word in itertools.pairwise(["", *arguments])
    ]
    given = Path("questions.jsonl").read_bytes() if "-" in arguments else None
    result = CliRunner().invoke(main, arguments, input=given)
    assert result.exit_code == 0, (arguments, result.output)


def installable(arguments: list[str]) -> None:
    """Every folder of a `pip install` has a project, with the extras that are asked for."""
    assert arguments[0] == "install"
    for argument in arguments[1:]:
        name, _, extras = argument.rstrip("]").partition("[")
        project = tomllib.loads((ROOT / name / "pyproject.toml").read_text(encoding="utf-8"))
        known = project["project"].get("optional-dependencies", {})
        assert set(filter(None, extras.split(","))) <= set(known), argument


def read(block: str, names: dict[str, object]) -> None:
    """Python, with the names of the page's earlier blocks; a client finds its server."""
    with contextlib.ExitStack() as opened:
        if "127.0.0.1:8080" in block:
            pytest.importorskip("openai")
            served = edgespec.load("build/smollm2", threads=1)
            port = opened.enter_context(Served(served))
            block = block.replace(":8080", f":{port}").replace('"smollm2"', '"small"')
        exec(compile(block, "block", "exec"), names)
        client = names.get("client")
        for connections in (client, getattr(client, "_client", None)):  # ollama's has no close
            if hasattr(connections, "close"):
                connections.close()


needs_node = pytest.mark.skipif(
    not (shutil.which("npm") and (JAVASCRIPT / "dist").is_dir()),
    reason="needs Node.js, and npm ci && npm run build in runtimes/js: make test",
)


def packed(folder: Path) -> Path:
    """The archive that `npm pack` makes of the package."""
    command = ["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(folder)]
    done = subprocess.run(command, cwd=JAVASCRIPT, capture_output=True, text=True, check=True)
    return folder / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def application(shelf, tmp_path_factory) -> Path:
    """A folder with pairs, and node_modules with what the archive holds and what it needs."""
    folder = tmp_path_factory.mktemp("application")
    (folder / "build").symlink_to(shelf / "build")
    ours = folder / "node_modules" / "@edgespec" / "edgespec"
    ours.parent.mkdir(parents=True)
    with tarfile.open(packed(folder)) as archive:
        archive.extractall(folder, filter="data")
    (folder / "package").rename(ours)
    for name in ("@huggingface", "onnxruntime-common", "onnxruntime-node", "koffi", "ai", "ai-6"):
        (folder / "node_modules" / name).symlink_to(JAVASCRIPT / "node_modules" / name)
    return folder


def run_together(folder: Path, scripts: list[str]) -> None:
    """Runs scripts in a process of Node.js that loads ONNX Runtime once."""
    for number, script in enumerate(scripts):
        (folder / f"block{number}.mjs").write_text(script, encoding="utf-8")
    (folder / "all.mjs").write_text(
        "".join(f'await import("./block{number}.mjs");\n' for number in range(len(scripts)))
        + "process.exit(0);\n"
    )
    done = subprocess.run(
        ["node", "all.mjs"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def scripts_of_guides() -> list[str]:
    """Blocks of JavaScript; those for AI SDK 7 also as the guide says for 6."""
    usual = 'import { load } from "@edgespec/edgespec";\n'
    scripts = [
        block if "import { load" in block else usual + block
        for page in PAGES
        for kind, block in blocks(page)
        if kind == "js" and not any(mark in block for mark in ELSEWHERE)
    ]
    older = [script for script in scripts if '/ai-sdk"' in script]
    assert len(scripts) >= 4
    assert older
    return scripts + [
        script.replace('/ai-sdk"', '/ai-sdk-6"').replace('"ai"', '"ai-6"') for script in older
    ]


@needs_node
def test_the_javascript_of_the_guides_runs(application):
    run_together(application, scripts_of_guides())


@needs_node
@deep
def test_the_javascript_of_the_guides_runs_where_npm_installed_it(shelf, tmp_path):
    """The guide's own lines, in an empty folder. npm asks its registry for what it has not kept."""
    guide = blocks(GUIDES / "javascript.md")
    (block,) = [block for kind, block in guide if kind in SHELL and "npm init" in block]
    archive = packed(tmp_path)
    lines = re.sub(r"\S*/edgespec-edgespec-\S+\.tgz", str(archive), block)
    assert lines != block
    folder = tmp_path / "application"
    folder.mkdir()
    lines += "npm install --force ai@7 ai-6@npm:ai@6\n"  # Node.js 20 is too old for 7's taste
    subprocess.run(["bash", "-ec", lines], cwd=folder, check=True, capture_output=True)
    (folder / "build").symlink_to(shelf / "build")
    run_together(folder, scripts_of_guides())


def test_what_is_not_run_here_has_a_test_elsewhere():
    whole = "".join(block for page in PAGES for _, block in blocks(page))
    for mark, test in ELSEWHERE.items():
        assert mark in whole
        assert (ROOT / test).is_file()


def test_a_command_with_a_wrong_option_is_found():
    with pytest.raises(click.UsageError):
        parsed(["serve", "--no-such-option"])
    with pytest.raises(AssertionError):
        ran(["inspect", "no-such-pair"])
