"""Claim: the JavaScript package has Python's token ids and texts for every kind of tokenizer, or
refuses to load it by name."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from edgespec_export.checkpoint.tokenizer.written_tokenizer import written_tokenizer
from tokenizer_folders import REAL, texts
from tokenizers_of_kinds import KINDS, of_kind

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "runtimes" / "js"
NODE = shutil.which("node")
# EDGESPEC_TEXTS=10000 compares so many texts of each kind of tokenizer.
COUNT = int(os.environ.get("EDGESPEC_TEXTS", "100"))

pytestmark = [
    pytest.mark.skipif(NODE is None, reason="Node.js is not installed"),
    pytest.mark.skipif(
        not (PACKAGE / "dist").is_dir(), reason="run npm ci && npm run build in runtimes/js"
    ),
]
SCRIPT = f"""
import {{ readFileSync }} from "node:fs";
import {{ TextCodec }} from "{PACKAGE}/dist/pair/tokenizer.js";
const {{ texts, kinds }} = JSON.parse(readFileSync(0, "utf8"));
const answer = ({{ file, tokens }}) => {{
  try {{
    const codec = new TextCodec(readFileSync(file), "tokenizer.json");
    const ids = texts.map((text) => codec.encode(text, true));
    return {{ ids, texts: tokens.map((tokens) => codec.decode(tokens)), error: null }};
  }} catch (error) {{ return {{ error: `${{error.name}}: ${{error.message}}` }}; }}
}};
console.log(JSON.stringify(kinds.map(answer)));
"""
TEXTS = [*texts(COUNT), "ΣΑΣ ΟΔΟΣ\u0085x", *map(str.upper, REAL)]


@dataclass(frozen=True)
class Compared:
    """A tokenizer's own ids of `TEXTS`, tokens to decode, and what JavaScript gave for both."""

    tokenizer: Tokenizer
    ids: list[list[int]]
    tokens: list[list[int]]
    javascript: dict[str, Any]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Every kind, by its name, read by one process of Node.js."""
    folder = tmp_path_factory.mktemp("kinds")
    draw = random.Random(0)
    found = {}
    for number, name in enumerate(KINDS):
        tokenizer = of_kind(name, folder / str(number))
        written = folder / f"{number}.json"
        written.write_text(written_tokenizer(tokenizer), encoding="utf-8")
        ids = [tokenizer.encode(text).ids for text in TEXTS]
        size = tokenizer.get_vocab_size()
        drawn = [[draw.randrange(size) for _ in range(8)] for _ in range(COUNT)]
        found[name] = tokenizer, ids, [*filter(None, ids), *drawn]
    kinds = [
        {"file": str(folder / f"{number}.json"), "tokens": tokens}
        for number, (_, _, tokens) in enumerate(found.values())
    ]
    command = [str(NODE), "--input-type=module", "-e", SCRIPT]
    given = json.dumps({"texts": TEXTS, "kinds": kinds})
    done = subprocess.run(command, input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    return {
        name: Compared(*parts, answer)
        for (name, parts), answer in zip(found.items(), answers, strict=True)
    }


NOT_READ = {
    "flags: single_word": 'the added token "<|user|>" with single_word',
    "other flags than tokenizer.json's": 'the added token "<think>" with single_word',
    "inverted": "a split with the behavior MergedWithNext, inverted",
    "scripts": "a pre-tokenizer UnicodeScripts",
    "prefixes": "BPE with continuing_subword_prefix",
}


@pytest.mark.parametrize("name", [name for name in KINDS if name not in NOT_READ])
def test_javascript_has_pythons_token_ids_and_texts(compared, name):
    kind = compared[name]
    assert kind.javascript["error"] is None
    for text, own, ids in zip(TEXTS, kind.ids, kind.javascript["ids"], strict=True):
        assert ids == own, f"{text!r}: {[kind.tokenizer.id_to_token(token) for token in own]}"
    for tokens, text in zip(kind.tokens, kind.javascript["texts"], strict=True):
        assert text == kind.tokenizer.decode(tokens), tokens


@pytest.mark.parametrize("name", NOT_READ)
def test_what_javascript_reads_otherwise_is_refused_by_name(compared, name):
    assert compared[name].javascript["error"] == (
        f"UsageError: tokenizer.json has {NOT_READ[name]}, which JavaScript reads otherwise; run "
        "this pair with Python"
    )
