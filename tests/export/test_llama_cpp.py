"""Claim: llama.cpp itself reads a GGUF file as edgespec does.

The other tests of GGUF compare a file with the checkpoint that their own converter made it of.
Here llama.cpp, as xllamacpp has it, loads the same file: its greedy tokens after a prompt that
crosses every window, and the log-probabilities of the most probable tokens at each, are edgespec's.

    python -m venv .peers/llama && .peers/llama/bin/pip install xllamacpp
    EDGESPEC_LLAMA_CPP=.peers/llama/bin/python .venv/bin/pytest tests/export/test_llama_cpp.py
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from edgespec.artifact.manifest import read_manifest
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from gguf_checkpoints import write_gguf, write_source
from gguf_more_forms import ALL_FORMS

PYTHON = os.environ.get("EDGESPEC_LLAMA_CPP")
SCRIPT = Path(__file__).parents[2] / "benchmarks/peers/llama_cpp_tokens.py"
PROMPT = [int(token) for token in np.random.default_rng(5).integers(8, 256, size=60)]
TOKENS, TOP, EOS = 20, 20, 1
TOLERANCE = 2e-3

pytestmark = pytest.mark.skipif(PYTHON is None, reason="EDGESPEC_LLAMA_CPP names no Python")


def llama_cpp(path, folder, prompt=PROMPT):
    """Its greedy tokens, and the log-probabilities of the most probable tokens by id."""
    request, answer = folder / "request.json", folder / "answer.json"
    request.write_text(json.dumps({"prompt": prompt, "tokens": TOKENS, "top": TOP}))
    command = [PYTHON, SCRIPT, path, request, answer]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(answer.read_text())
    return found["tokens"], [{int(k): v for k, v in step.items()} for step in found["top"]]


def log_probabilities(path, folder, tokens):
    """edgespec's, after the prompt and after each token: [tokens, vocabulary]."""
    out = folder / "pair"
    export_pair(str(path), None, out, measure=False, threads=1)
    model = open_model(out, read_manifest(out).target, "fp32", min_rows=2)
    pending = model.prefill(PROMPT)
    logits = model.score([pending, *tokens[:-1]]).astype(np.float64)
    return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)


def compare(path, folder):
    """The largest difference of log-probabilities, and tokens where the greedy ones differ."""
    tokens, top = llama_cpp(path, folder)
    ours = log_probabilities(path, folder, tokens)
    difference = max(
        abs(row[token] - value)
        for row, step in zip(ours, top, strict=True)
        for token, value in step.items()
    )
    ours[:, EOS] = -np.inf  # llama.cpp was asked to go on
    missed = [row.max() - row[token] for row, token in zip(ours, tokens, strict=True)]
    return difference, max(missed)


@pytest.mark.parametrize("model", ALL_FORMS)
def test_llama_cpp_reads_the_same_model(model, tmp_path):
    form = ALL_FORMS[model]
    _, checkpoint = write_source(tmp_path / "source", form)
    (tmp_path / "gguf").mkdir()
    path = write_gguf(tmp_path / "gguf/tiny.gguf", form, checkpoint)
    difference, missed = compare(path, tmp_path)
    print(f"RESULT {model}: {difference:.1e}, {missed:.1e}")
    assert difference <= TOLERANCE
    assert missed <= TOLERANCE
