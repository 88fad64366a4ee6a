"""Claim: every family is exported for GPUs and NPUs and computes the same, or is refused by name.

The graphs run on the processor here.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from checkpoints import byte_tokenizer
from depth import deep
from edgespec.errors import EdgespecError
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from edgespec_export.hosts import gpu, npu
from family_corpus import CASES, SIZES, write_model
from scored_in_pieces import scored_in_pieces

TESTED = {case.model: case for case in CASES if not case.refused}
CHECKS = {"gpu": gpu.check_family, "npu": npu.check_family}
# By which words, and whose names in the corpus begin with these.
REFUSED = {
    "gpu": {"LFM": "has short convolutions", "Qwen3.5": "has recurrent layers"},
    "npu": {
        **{"LFM": "has short convolutions", "Qwen3.5": "has recurrent layers"},
        **{"Qwen3 30B-A3B": "has experts", "gpt-oss": "has experts"},
        "Gemma 4 E2B": "has layers that share a layer of the cache",
        "T5Gemma 2": "attends to its source and its cache at once",
    },
}


def refusal(host: str, model: str) -> str | None:
    return next((words for start, words in REFUSED[host].items() if model.startswith(start)), None)


@pytest.mark.parametrize(
    ("host", "start"), [(host, start) for host, starts in REFUSED.items() for start in starts]
)
def test_what_has_no_graph_is_refused_by_its_config(host, start):
    """Before any weight is read."""
    models = [model for model in TESTED if model.startswith(start)]
    assert models
    for model in models:
        config = TESTED[model].config
        family = family_of(config.get("text_config", config), model)
        with pytest.raises(EdgespecError, match=f"{refusal(host, model)}.*leave --for {host} out"):
            CHECKS[host](family)


@deep
@pytest.mark.parametrize("host", CHECKS)
@pytest.mark.parametrize("name", TESTED)
def test_every_family_computes_the_same_or_is_refused_by_name(name, host, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    checkpoint = tmp_path / "checkpoint"
    write_model(TESTED[name], checkpoint)
    byte_tokenizer(SIZES["vocab_size"]).save(str(checkpoint / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"}  # the file as it is
    (checkpoint / "tokenizer_config.json").write_text(json.dumps(settings))
    options = {"target_formats": ("fp32",), "measure": False, "threads": 1}
    fixed = {"capacity": 64} if host == "npu" else {}
    words = refusal(host, name)
    if words is not None:
        with pytest.raises(EdgespecError, match=f"{words}.*; leave --for {host} out"):
            export_pair(str(checkpoint), None, tmp_path / host, host=host, **fixed, **options)
        return
    export_pair(str(checkpoint), None, tmp_path / host, host=host, **fixed, **options)
    export_pair(str(checkpoint), None, tmp_path / "usual", **options)
    usual, found = scored_in_pieces(tmp_path / "usual"), scored_in_pieces(tmp_path / host)
    assert np.abs(found - usual).max() < 1e-4 * np.abs(usual).max()
