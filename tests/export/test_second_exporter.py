"""Claim: optimum's ONNX exports of a checkpoint give the logits of edgespec's.

Both exporters read the same random checkpoint; both graphs run on ONNX Runtime, in float32, with
a call of several tokens and calls of one. optimum's exporter asks for an older transformers, so it
has an environment of its own:

    benchmarks/peers/install .peers optimum
    EDGESPEC_OPTIMUM=.peers/optimum/bin/python .venv/bin/pytest tests/export/test_second_exporter.py
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from bart_checkpoints import write_bart
from checkpoints import byte_tokenizer, change_tensors, write_llama, write_t5
from edgespec.artifact.manifest import read_manifest
from edgespec.audio.sample_sound import sample_log_mel
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from whisper_checkpoints import write_whisper

PYTHON = os.environ.get("EDGESPEC_OPTIMUM")
PEERS = Path(__file__).parents[2] / "benchmarks/peers"
SOURCE = [5, 9, 6, 7, 30, 8, 11, 5]
TEXT = [9, 12, 5, 8, 7, 7, 20, 6, 10, 11]
FIRST = 4
SOUND = 1500
TOLERANCE = 1e-4

pytestmark = pytest.mark.skipif(PYTHON is None, reason="EDGESPEC_OPTIMUM names no Python")


def llama(folder):
    tokenizer = byte_tokenizer(320)
    return write_llama(folder, vocab_size=320, head_size=16, kv_heads=1, tokenizer=tokenizer)


def t5(folder):
    """optimum takes heads of the width over their number, whatever d_kv says."""
    return write_t5(folder, vocab_size=40, gated=True, head_size=16, heads=2, width=32)


def whisper(folder):
    """Its exporter traces the model with half a minute of sound."""
    return write_whisper(folder, max_source_positions=SOUND)


CASES = {
    "llama": ("text-generation", llama),
    "t5": ("text2text-generation", t5),
    "bart": ("text2text-generation", lambda folder: write_bart(folder, "bart")),
    "whisper": ("automatic-speech-recognition", whisper),
}


def optimum(script, *arguments):
    command = [PYTHON, PEERS / script, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stderr[-2000:]


def second_logits(task, source, inputs, folder):
    optimum("optimum_export.py", task, source, folder / "optimum")
    np.savez(folder / "inputs.npz", **inputs)
    optimum("optimum_logits.py", folder / "optimum", folder / "inputs.npz", folder / "logits.npz")
    return np.load(folder / "logits.npz")["logits"]


def edgespec_logits(source, folder):
    """Logits after each token of the text, and the inputs that another runtime needs for them."""
    export_pair(str(source), None, folder / "pair", measure=False)
    exported = read_manifest(folder / "pair").target
    model = open_model(folder / "pair", exported, "fp32", min_rows=2)
    inputs = {}
    if hasattr(model, "hear"):
        inputs["sound"] = sample_log_mel(12, 2 * SOUND)
        model.hear(inputs["sound"])
    elif exported.is_encoder_decoder:
        inputs["source"] = np.array(SOURCE)
    start = model.prefill(SOURCE if "source" in inputs else TEXT[:1])
    text = [start, *TEXT[1:]]
    parts = [text[:FIRST], *([token] for token in text[FIRST:])]
    rows = np.concatenate([model.score(part).copy() for part in parts])
    return rows, {**inputs, "text": np.array(text), "first": np.array(FIRST)}


@pytest.mark.parametrize("case", CASES)
def test_a_second_exporter_gives_the_same_logits(case, tmp_path):
    task, write = CASES[case]
    source = write(tmp_path / "checkpoint")
    ours, inputs = edgespec_logits(source, tmp_path)
    theirs = second_logits(task, source, inputs, tmp_path)
    assert ours.std() > 0.1
    assert np.abs(ours - theirs).max() <= TOLERANCE


def test_another_checkpoint_has_other_logits(tmp_path):
    """The comparison can fail: one norm of one layer is another."""
    source = llama(tmp_path / "checkpoint")
    ours, inputs = edgespec_logits(source, tmp_path)
    change_tensors(source, layers_1_input_layernorm_weight=3.0)
    theirs = second_logits("text-generation", source, inputs, tmp_path)
    assert np.abs(ours - theirs).max() > 100 * TOLERANCE
