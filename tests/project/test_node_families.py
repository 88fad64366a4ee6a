"""Claim: Node.js runs what is exported of each family: its texts are Python's, greedy and sampled.

Tiny random checkpoints of family_corpus.py, plain and with lookup. EDGESPEC_CORPUS=all runs every
case, else two: one with layer norms and ALiBi, one whose layers have caches of several shapes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import edgespec
from checkpoints import byte_tokenizer
from edgespec_export.export_pair import export_pair
from family_corpus import CASES, SIZES, write_model
from node_process import NODE, NodeProcess

pytest.importorskip("torch")
pytest.importorskip("transformers")

PACKAGE = Path(__file__).parents[2] / "runtimes" / "js"

pytestmark = [
    pytest.mark.skipif(NODE is None, reason="Node.js is not installed"),
    pytest.mark.skipif(
        not (PACKAGE / "dist").is_dir(), reason="run npm ci && npm run build in runtimes/js"
    ),
]
ALL = os.environ.get("EDGESPEC_CORPUS") == "all"
DEFAULT = ("BLOOM, BLOOMZ", "Gemma 4 E2B, E4B")
MODELS = [case.model for case in CASES if not case.refused and (ALL or case.model in DEFAULT)]
# It repeats itself, so that lookup proposes something, and crosses every window.
PROMPT = 2 * [int(token) for token in np.random.default_rng(7).integers(8, 256, size=20)]
WAYS = [
    {"temperature": 0.0, "draft": False},
    {"temperature": 0.0, "draft": "lookup"},
    {"temperature": 1.0, "seed": 5, "draft": False},
    {"temperature": 1.0, "seed": 5, "draft": "lookup"},
]
SCRIPT = """
const pair = await load(given.folder, { threads: 1 });
for (const options of given.ways) results.push(await pair.generate(given.prompt, options));
await pair.dispose();
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    imports = f'import {{ load }} from "{PACKAGE}/dist/index.js";'
    with NodeProcess(tmp_path_factory.mktemp("scripts"), imports) as process:
        yield process


def exported(model, folder):
    (case,) = (case for case in CASES if case.model == model)
    source, out = folder / "checkpoint", folder / "pair"
    write_model(case, source)
    byte_tokenizer(SIZES["vocab_size"]).save(str(source / "tokenizer.json"))
    # Some classes put tokens of their own around a text.
    as_it_is = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (source / "tokenizer_config.json").write_text(json.dumps(as_it_is))
    export_pair(str(source), None, out, measure=False, threads=1)
    return out


def in_javascript(options):
    draft = "ngram" if options["draft"] else False
    return {**options, "draft": draft, "maxNewTokens": 16, "ignoreEos": True, "gamma": 3}


@pytest.mark.parametrize("model", MODELS)
def test_texts_are_pythons(model, node, tmp_path):
    folder = exported(model, tmp_path)
    pair = edgespec.load(folder, threads=1)
    expected = [
        pair.generate(PROMPT, max_new_tokens=16, ignore_eos=True, **options).token_ids
        for options in WAYS
    ]
    given = {"folder": str(folder), "prompt": PROMPT, "ways": [*map(in_javascript, WAYS)]}
    found = node.run(SCRIPT, given)
    assert [text["tokenIds"] for text in found] == expected
