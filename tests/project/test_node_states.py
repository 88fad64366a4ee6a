"""Claim: Node.js keeps the states of recurrent layers: its texts are Python's, plain and drafted.

Tiny random Qwen3.5s; one drafts with the head in its checkpoint, one with another model that has
states. States that are not rewound are planted. runtimes/js/tests/recurrent-states.test.ts walks
through rewinds of any length.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import edgespec
from checkpoints import write_noisy
from depth import DEEP, deep
from edgespec.artifact.manifest import read_manifest
from edgespec_export.export_pair import export_pair
from node_process import NODE, NodeProcess
from qwen35_checkpoints import add_head, write_qwen35

PACKAGE = Path(__file__).parents[2] / "runtimes" / "js"

pytestmark = [
    pytest.mark.skipif(NODE is None, reason="Node.js is not installed"),
    pytest.mark.skipif(
        not (PACKAGE / "dist").is_dir(), reason="run npm ci && npm run build in runtimes/js"
    ),
]
TEXT = [int(token) for token in np.random.default_rng(1).integers(3, 272, size=200)]
# A text that goes on, one whose end is another, one whose middle is, and a long one.
PROMPTS = [TEXT[:40], TEXT[:70], [*TEXT[:60], *TEXT[100:110]], [*TEXT[:20], *TEXT[90:100]], TEXT]
SCRIPT = """
const pair = await load(given.folder, { threads: 1, ...given.loading });
for (const [prompt, options] of given.tasks) results.push(await pair.generate(prompt, options));
await pair.dispose();
"""


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """A target with a head of its own, and another model."""
    base = tmp_path_factory.mktemp("qwen35")
    rope = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25}
    target = base / "target"
    write_qwen35(target, rope_parameters=rope, mtp_num_hidden_layers=1)
    add_head(target)
    return {"own head": target, "another model": write_noisy(target, base / "draft", noise=0.1)}


@pytest.fixture
def folder_of(checkpoints, tmp_path):
    def folder(draft):
        sources = str(checkpoints["own head"]), str(checkpoints[draft])
        export_pair(*sources, tmp_path / "pair", measure=False, threads=1)
        return tmp_path / "pair"

    return folder


def texts_of(folder):
    """Python's texts of the prompts, one after the other, without a draft."""
    pair = edgespec.load(folder, threads=1)
    given = {"max_new_tokens": 16, "temperature": 1.0, "seed": 2, "draft": False}
    return [pair.generate(prompt, **given).token_ids for prompt in PROMPTS]


def theirs_of(folder, tmp_path, *ways, package=PACKAGE, **loading):
    """JavaScript's results of the prompts, for each way to draft."""
    imports = f'import {{ load }} from "{package}/dist/index.js";'
    given = {"maxNewTokens": 16, "temperature": 1.0, "seed": 2}
    tasks = [(prompt, {**given, **how}) for how in ways for prompt in PROMPTS]
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    with NodeProcess(scripts, imports) as process:
        found = process.run(SCRIPT, {"folder": str(folder), "tasks": tasks, "loading": {**loading}})
    return [found[first : first + len(PROMPTS)] for first in range(0, len(found), len(PROMPTS))]


WAYS = [{"draft": False}, {"draft": "model", "gamma": 2}, {"draft": "model", "gamma": 9}]


@pytest.mark.parametrize("draft", ["own head", pytest.param("another model", marks=deep)])
def test_texts_are_pythons_whatever_drafts(folder_of, tmp_path, draft):
    folder = folder_of(draft)
    assert bool(read_manifest(folder).draft.states) == (draft == "another model")
    expected, accepted = texts_of(folder), 0
    for found in theirs_of(folder, tmp_path, *(WAYS if DEEP else WAYS[2:])):
        assert [text["tokenIds"] for text in found] == expected
        accepted += sum(text["stats"]["accepted"] for text in found)
    assert accepted > 0


# What calls keep is the state after all of their rows, and a rewind takes it for that of fewer.
MUTANT = {
    "this.#slots = this.#slots.filter((slot) => slot.length <= length);": (
        "for (const slot of this.#slots) slot.length = Math.min(slot.length, length);"
    ),
    "(rows > MAX_ROWS ? count : 0)": "count",
}


@deep
def test_states_that_are_not_rewound_are_found(folder_of, tmp_path):
    package = Path(shutil.copytree(PACKAGE / "dist", tmp_path / "js" / "dist")).parent
    shutil.copy(PACKAGE / "package.json", package)
    (package / "node_modules").symlink_to(PACKAGE / "node_modules")
    file = package / "dist/pair/recurrent-states.js"
    text = file.read_text()
    for line, other in MUTANT.items():
        assert text.count(line) == 1
        text = text.replace(line, other)
    file.write_text(text)
    folder = folder_of("own head")
    (found,) = theirs_of(folder, tmp_path, WAYS[2], package=package, allowInexact=True)
    assert [text["tokenIds"] for text in found] != texts_of(folder)
