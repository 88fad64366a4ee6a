"""Claim: T5Gemma 2 computes what transformers does, in sources and texts longer than its windows.

T5Gemma, configs of other versions and greedy texts are in test_family_corpus.py.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import edgespec
from checkpoints import byte_tokenizer
from edgespec.artifact.manifest import read_manifest
from edgespec.pair.opening.runtime import open_model
from edgespec_export.components.blocks.source_attention import Sight
from edgespec_export.export_pair import export_pair
from edgespec_export.families.gemma.t5gemma2 import T5Gemma2
from family_corpus import CASES, write_model

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

END_OF_IMAGE = 163  # has an embedding of its own
RANDOM = np.random.default_rng(3)
SOURCE = [*map(int, RANDOM.integers(8, 256, size=30)), END_OF_IMAGE]
TEXT = [*map(int, RANDOM.integers(8, 256, size=30)), END_OF_IMAGE, 9]
(CASE,) = (case for case in CASES if case.model == "T5Gemma 2")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    model = write_model(CASE, folder)
    (folder / "config.json").write_text(json.dumps(CASE.config))
    byte_tokenizer(320).save(str(folder / "tokenizer.json"))
    return folder, model


@pytest.fixture(scope="module")
def expected(checkpoint):
    start = CASE.config["bos_token_id"]
    inputs = {
        "input_ids": torch.tensor([SOURCE]),
        "decoder_input_ids": torch.tensor([[start, *TEXT]]),
    }
    with torch.inference_mode():
        return checkpoint[1](**inputs, use_cache=False).logits[0].numpy()


def farthest(folder, out, expected, *, formats=("fp32",), verify=False):
    """The largest distance of any logit, from calls of seven rows."""
    options = {"target_formats": formats, "verify": verify, "measure": False}
    export_pair(str(folder), None, out, threads=1, **options)
    model = open_model(out, read_manifest(out).target, "fp32", min_rows=2)
    rows = [model.prefill(SOURCE), *TEXT]
    calls = [model.score(rows[at : at + 7]).copy() for at in range(0, len(rows), 7)]
    return np.abs(np.concatenate(calls) - expected).max()


def test_every_position_is_that_of_transformers(checkpoint, expected, tmp_path):
    written = {"formats": ("fp32", "int8"), "verify": True}
    assert farthest(checkpoint[0], tmp_path / "pair", expected, **written) <= 1e-4
    pair = edgespec.load(tmp_path / "pair", threads=1, target_format="int8")
    options = {"max_new_tokens": 20, "ignore_eos": True, "temperature": 1.0, "seed": 2}
    alone = pair.generate(SOURCE, draft=False, **options)
    assert pair.generate(SOURCE, gamma=4, **options).token_ids == alone.token_ids


def test_a_window_that_is_one_row_off_is_another_model(checkpoint, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(T5Gemma2, "sight_of", lambda self, window: Sight(window // 2, window // 2))
    assert farthest(checkpoint[0], tmp_path / "pair", expected) > 1e-3
