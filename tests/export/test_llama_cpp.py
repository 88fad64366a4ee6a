"""Claim: llama.cpp itself reads a GGUF file as edgespec does.

The other tests of GGUF compare a file with the checkpoint that their own converter made it of.
Here llama.cpp, as xllamacpp has it, loads the same file: its greedy tokens after a prompt that
crosses every window, and the log-probabilities of the most probable tokens at each, are edgespec's.

    python -m venv .peers/llama && .peers/llama/bin/pip install xllamacpp
    EDGESPEC_LLAMA_CPP=.peers/llama/bin/python .venv/bin/pytest -s tests/export/test_llama_cpp.py
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file
from test_gguf_qwen35 import CHANGES, LAYERS, METADATA, VALUES, converted, gguf_name
from tokenizers import Tokenizer, models

from edgespec.artifact.manifest import read_manifest
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from family_corpus import SIZES
from gguf_checkpoints import write_gguf, write_source, write_tokenizer
from gguf_more_forms import ALL_FORMS
from qwen35_checkpoints import write_qwen35
from tiny_checkpoints import add_value

PYTHON = os.environ.get("EDGESPEC_LLAMA_CPP")
SCRIPT = Path(__file__).parents[2] / "benchmarks/peers/llama_cpp_tokens.py"
PROMPT = [int(token) for token in np.random.default_rng(5).integers(8, 256, size=60)]
TOKENS, TOP, EOS = 20, 20, 1
TOLERANCE = 1e-4
# llama.cpp looks GELU up in a table of 16-bit numbers.
GELU = {"bloom", "gemma", "gemma2", "gemma3", "gemma4", "gpt2", "gptneox", "phi2"}
TOLERANCE_OF_GELU = 2e-2
# llama.cpp holds back tokens that end amid a character, so no token has a part of one.
SPECIAL = ("<pad>", "</s>", "<unk>")

pytestmark = pytest.mark.skipif(PYTHON is None, reason="EDGESPEC_LLAMA_CPP names no Python")


def words(size):
    tokens = [*SPECIAL, *(f"w{index}" for index in range(size - len(SPECIAL)))]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    return Tokenizer(models.BPE(vocabulary, [], unk_token=SPECIAL[2]))


def llama_cpp(path, folder, prompt=PROMPT):
    """Its greedy tokens, and the log-probabilities of the most probable tokens by id."""
    request, answer = folder / "request.json", folder / "answer.json"
    request.write_text(json.dumps({"prompt": prompt, "tokens": TOKENS, "top": TOP}))
    command = [PYTHON, SCRIPT, path, request, answer]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(answer.read_text())
    assert len(found["tokens"]) == TOKENS
    return found["tokens"], [{int(k): v for k, v in step.items()} for step in found["top"]]


def log_probabilities(path, folder, tokens):
    """edgespec's, after the prompt and after each token: [tokens, vocabulary]."""
    out = folder / "pair"
    export_pair(str(path), None, out, measure=False, threads=1)
    model = open_model(out, read_manifest(out).target, "fp32", min_rows=2)
    pending = model.prefill(PROMPT)
    logits = model.score([pending, *tokens[:-1]]).astype(np.float64)
    return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)


def check(model, path, folder, tolerance):
    """Prints the largest difference of a log-probability, the figure in docs/reference/gguf.md."""
    tokens, top = llama_cpp(path, folder)
    ours = log_probabilities(path, folder, tokens)
    difference = max(
        abs(row[token] - value)
        for row, step in zip(ours, top, strict=True)
        for token, value in step.items()
    )
    ours[:, EOS] = -np.inf  # llama.cpp was asked to go on
    missed = [row.max() - row[token] for row, token in zip(ours, tokens, strict=True)]
    print(f"{model}: {difference:.1e}")
    assert difference <= tolerance
    assert max(missed) <= tolerance


# What llama.cpp can run of a model: it has no dense layers among those with experts, ignores
# Phi-3's window, rounds the bounds of gpt-oss' YaRN to whole pairs, and takes longrope's other
# factors where its cache, of 256 positions here, is longer than the texts of training.
RUN = {
    "Qwen3 30B-A3B": {"mlp_only_layers": []},
    "gpt-oss 20B": {"rope_scaling": {"rope_type": "default"}},
    "Phi-3 mini": {"sliding_window": None},
    "Phi-4-mini": {"original_max_position_embeddings": 256, "max_position_embeddings": 512},
}
# Its server has no encoder-decoders; the other reads no biases of the output.
NOT_RUN = {"T5 v1.0", "T5 v1.1, flan-T5", "UMT5", "Seed-OSS with other biases"}
MODELS = sorted(ALL_FORMS.keys() - NOT_RUN)


@pytest.mark.parametrize("model", MODELS)
def test_llama_cpp_reads_the_same_model(model, tmp_path):
    form = ALL_FORMS[model]
    form = replace(form, changes={**form.changes, **RUN.get(model, {})})
    _, checkpoint = write_source(tmp_path / "source", form)
    (tmp_path / "gguf").mkdir()
    path = write_gguf(
        tmp_path / "gguf/tiny.gguf", form, checkpoint, tokenizer=words(SIZES["vocab_size"])
    )
    check(model, path, tmp_path, TOLERANCE_OF_GELU if form.arch in GELU else TOLERANCE)


def test_llama_cpp_reads_the_same_qwen35(tmp_path, monkeypatch):
    """Its heads of keys and values have one size, as all published ones have."""
    size = CHANGES["linear_key_head_dim"]
    monkeypatch.setattr("test_gguf_qwen35.SIZE", size)
    source, path = tmp_path / "source", tmp_path / "gguf" / "tiny.gguf"
    path.parent.mkdir()
    of_model = {"mtp_num_hidden_layers": 0, "linear_value_head_dim": size}
    write_qwen35(source, **{**CHANGES, **of_model})
    writer = gguf.GGUFWriter(path, "qwen35")
    keys = {"block_count": LAYERS, "nextn_predict_layers": 0, "ssm.inner_size": VALUES * size}
    for key, value in {**METADATA, **keys}.items():
        add_value(writer, f"qwen35.{key}", value)
    tokenizer = words(272)
    write_tokenizer(writer, tokenizer)
    tokenizer.save(str(path.parent / "tokenizer.json"))
    for name, tensor in load_file(source / "model.safetensors").items():
        writer.add_tensor(gguf_name(name), np.ascontiguousarray(converted(name, tensor)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    check("Qwen3.5", path, tmp_path, TOLERANCE)


def test_another_model_has_other_probabilities(tmp_path):
    """The comparison can fail: rows of queries and keys are in the checkpoint's order."""
    form = ALL_FORMS["SmolLM2"]
    _, checkpoint = write_source(tmp_path / "source", form)
    (tmp_path / "gguf").mkdir()
    file, tokenizer = tmp_path / "gguf/tiny.gguf", words(SIZES["vocab_size"])
    path = write_gguf(file, replace(form, reorders=False), checkpoint, tokenizer=tokenizer)
    tokens, top = llama_cpp(path, tmp_path)
    right = write_gguf(file, form, checkpoint, tokenizer=tokenizer)
    ours = log_probabilities(right, tmp_path, tokens)
    differences = [
        abs(row[k] - v) for row, step in zip(ours, top, strict=True) for k, v in step.items()
    ]
    assert max(differences) > 10 * TOLERANCE_OF_GELU
