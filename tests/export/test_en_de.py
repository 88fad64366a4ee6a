"""Claim: an interrupted recipe of the shipped pair resumes after its last finished step."""

from __future__ import annotations

import importlib
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from transformers import T5Config

from checkpoints import byte_tokenizer

RECIPE = Path(__file__).parents[2] / "examples" / "en_de"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the recipe is for bash")

# Replaces every program of the recipe: logs its arguments and creates empty output files.
STUB = """#!/usr/bin/env bash
echo "$(basename "$0") $*" >> calls
case "$*" in
    "-m venv"*) mkdir -p .venv-recipe/bin
        for name in pip python edgespec; do cp stub ".venv-recipe/bin/$name"; done;;
    *corpus\\ work/corpus) mkdir -p work/corpus; echo a > work/corpus/descriptions.tsv
        touch work/corpus/complete;;
    *train_target.py*) mkdir -p work/target; test -f work/target/model.safetensors ||
        touch work/target/model.safetensors;;
    distill*) mkdir -p work/draft; touch work/draft/model.safetensors;;
esac
"""


def forget_modules(folder: Path) -> None:
    """Unloads them: other folders may have modules of the same names."""
    for file in folder.glob("*.py"):
        sys.modules.pop(file.stem, None)


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """The recipe's folder, and a function that runs it with stubs and returns the steps called."""
    (tmp_path / "examples" / "en_de").mkdir(parents=True)
    shutil.copy(RECIPE / "run", tmp_path / "examples" / "en_de" / "run")
    (tmp_path / "bin").mkdir()
    for name in ("stub", "bin/python3"):
        (tmp_path / name).write_text(STUB)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    steps = ("venv", "en_de/corpus", "train_target", "distill", "export", "judge")

    def run() -> list[str]:
        (tmp_path / "calls").unlink(missing_ok=True)
        subprocess.run(["bash", "examples/en_de/run", "work"], cwd=tmp_path, check=True)
        lines = (tmp_path / "calls").read_text().splitlines()
        calls = [line for line in lines if not line.startswith("pip")]
        return [next(step for step in steps if step in line) for line in calls]

    return tmp_path, run


def test_a_finished_recipe_does_not_make_the_corpus_and_the_draft_again(recipe):
    _, run = recipe
    assert run() == ["venv", "en_de/corpus", "train_target", "distill", "export", "judge"]
    assert run() == ["train_target", "export", "judge"]


def test_an_incomplete_corpus_or_environment_is_made_again(recipe):
    folder, run = recipe
    run()
    (folder / "work" / "corpus" / "complete").unlink()
    (folder / "work" / "corpus" / "messages.tsv").touch()
    assert "en_de/corpus" in run()
    (folder / ".venv-recipe" / "created").unlink()
    assert run()[0] == "venv"


def test_a_corpus_is_complete_after_its_last_source(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(RECIPE / "corpus"))
    monkeypatch.setitem(sys.modules, "polib", SimpleNamespace(POEntry=int, MOEntry=str))
    corpus = SimpleNamespace(**runpy.run_path(str(RECIPE / "corpus" / "__main__.py")))
    forget_modules(RECIPE / "corpus")
    last = [source for source in corpus.SOURCES if source.output == "lexicon"]

    def make_part(_apt, source, _held_out, _vocabulary, part):
        if source in last and not part.with_name("finish").exists():
            raise KeyboardInterrupt
        part.write_text("house\tHaus\n")

    names = corpus.main.__globals__
    monkeypatch.setitem(names, "Apt", lambda _: None)
    monkeypatch.setitem(names, "read_descriptions", lambda _: [("a house", "ein Haus")])
    monkeypatch.setitem(names, "make_part", make_part)
    monkeypatch.setattr(sys, "argv", ["corpus", str(tmp_path)])
    with pytest.raises(KeyboardInterrupt):
        corpus.main()
    assert (tmp_path / "messages.tsv").exists()
    assert not (tmp_path / "complete").exists()
    (tmp_path / "parts" / "finish").touch()
    corpus.main()
    assert (tmp_path / "complete").exists()


def test_a_new_target_needs_a_new_draft(recipe):
    folder, run = recipe
    run()
    weights = folder / "work" / "target" / "model.safetensors"
    later = (folder / "work" / "draft" / "model.safetensors").stat().st_mtime_ns + 10**9
    os.utime(weights, ns=(later, later))
    assert "distill" in run()


@pytest.fixture
def trainer(tmp_path, monkeypatch):
    """`train_target` with a tiny model and corpus; `trainer(steps)` returns how many it took."""
    monkeypatch.syspath_prepend(str(RECIPE))
    score = SimpleNamespace(score=0.0)
    judge = SimpleNamespace(corpus_chrf=lambda *_: score, corpus_bleu=lambda *_: score)
    monkeypatch.setitem(sys.modules, "sacrebleu", judge)
    module = importlib.import_module("train_target")
    config = T5Config(
        vocab_size=272,
        d_model=16,
        d_kv=8,
        d_ff=16,
        num_layers=2,
        num_heads=6,
        decoder_start_token_id=0,
    )
    monkeypatch.setattr(module, "CONFIG", config)
    monkeypatch.setattr(module, "translate", lambda _model, _tokenizer, lines: lines)
    lines = "".join(f"the house {n}\tdas Haus {n}\n" for n in range(60))
    for name in ("descriptions", "descriptions-valid"):
        (tmp_path / f"{name}.tsv").write_text(lines)
    tokens = tmp_path / "tokenizer"
    tokens.mkdir()
    byte_tokenizer(272, append_eos=True).save(str(tokens / "tokenizer.json"))
    (tokens / "tokenizer_config.json").write_text("{}")
    taken = []
    step = module.MasterWeights.step

    def counted(self, rate: float) -> float:
        taken.append(rate)
        return step(self, rate)

    monkeypatch.setattr(module.MasterWeights, "step", counted)

    def train(steps: int) -> int:
        taken.clear()
        module.train(
            SimpleNamespace(
                corpus=tmp_path,
                out=tmp_path / "target",
                tokenizer=tokens,
                work=tmp_path / "work",
                steps=steps,
                tokens=256,
                rate=1e-3,
                seed=0,
                evaluate_every=100,
            )
        )
        return len(taken)

    yield train, module
    forget_modules(RECIPE)


def test_a_finished_training_takes_no_step_and_does_not_change_the_weights(trainer, tmp_path):
    train, _ = trainer
    assert train(3) == 3
    weights = tmp_path / "target" / "model.safetensors"
    before = weights.stat().st_mtime_ns, weights.read_bytes()
    assert train(3) == 0
    assert (weights.stat().st_mtime_ns, weights.read_bytes()) == before
    assert train(5) == 2
    assert weights.read_bytes() != before[1]
    assert {file.name for file in tmp_path.iterdir() if file.name.startswith(".")} == set()


def test_a_checkpoint_that_was_not_finished_is_written_from_the_last_step(
    trainer, tmp_path, monkeypatch
):
    train, module = trainer

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module.shutil, "copy", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(3)
    assert not (tmp_path / "target").exists()
    assert train(3) == 0
    assert (tmp_path / "target" / "model.safetensors").exists()
