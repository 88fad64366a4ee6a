"""Claim: the JavaScript package translates from and into the languages that are asked for, and
begins a completion with its space, as Python does."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import edgespec
from bart_checkpoints import write_languages
from checkpoints import write_llama
from depth import one_in
from edgespec_export.export_pair import export_pair
from tokenizer_folders import sentencepiece_bpe

PACKAGE = Path(__file__).parents[2] / "runtimes" / "js"
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.skipif(NODE is None, reason="Node.js is not installed"),
    pytest.mark.skipif(
        not (PACKAGE / "dist").is_dir(), reason="run npm ci && npm run build in runtimes/js"
    ),
]
TEXT = "hello world, it's 12:45"
SCRIPT = f"""
import {{ readFileSync }} from "node:fs";
import {{ load }} from "{PACKAGE}/dist/index.js";
const {{ folder, tasks }} = JSON.parse(readFileSync(0, "utf8"));
const pair = await load(folder, {{ threads: 1, allowInexact: true }});
const results = [];
for (const [prompt, options] of tasks) {{
  try {{
    let streamed = "";
    for await (const {{ text }} of pair.stream(prompt, options)) streamed += text;
    const {{ text, tokenIds }} = await pair.generate(prompt, options);
    results.push({{ text, tokenIds, streamed }});
  }} catch (error) {{ results.push(`${{error.name}}: ${{error.message}}`); }}
}}
await pair.dispose();
console.log(JSON.stringify(results));
"""


def in_javascript(folder, *tasks):
    """The results of `Pair.generate`, with the streamed text, or errors."""
    command = [str(NODE), "--input-type=module", "-e", SCRIPT]
    given = json.dumps({"folder": str(folder), "tasks": tasks})
    done = subprocess.run(command, input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@one_in(2)
@pytest.mark.parametrize("kind", ["MBart50Tokenizer", "MBartTokenizer"])
def test_languages_are_those_asked_for(kind, tmp_path):
    source = write_languages(tmp_path / "checkpoint", kind)
    export_pair(str(source), None, tmp_path / "pair", measure=False, threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1, allow_inexact=True)
    short = {"maxNewTokens": 6, "ignoreEos": True}
    chosen = [{}, {"targetLanguage": "ro_RO"}, {"sourceLanguage": "en_XX"}]
    chosen += [{"sourceLanguage": "fr_XX", "targetLanguage": "de_DE", "draft": False}]
    answers = in_javascript(tmp_path / "pair", *([TEXT, {**short, **task}] for task in chosen))
    for task, answer in zip(chosen, answers, strict=True):
        wanted = pair.generate(
            TEXT,
            source_language=task.get("sourceLanguage"),
            target_language=task.get("targetLanguage"),
            max_new_tokens=6,
            ignore_eos=True,
        )
        assert answer["tokenIds"] == wanted.token_ids
        assert answer["text"] == answer["streamed"] == wanted.text
    unknown, wrong = in_javascript(
        tmp_path / "pair",
        [TEXT, {"targetLanguage": "xx_XX"}],
        [[5, 6], {"sourceLanguage": "en_XX"}],
    )
    assert unknown.startswith('UsageError: targetLanguage is "xx_XX"; this model knows ')
    assert "de_DE, en_XX" in unknown
    assert wrong == ("UsageError: sourceLanguage comes with a text to translate; give one as it is")


def test_a_completion_begins_with_its_space(tmp_path):
    tokenizer = sentencepiece_bpe()
    target = write_llama(
        tmp_path / "target",
        vocab_size=tokenizer.get_vocab_size(),
        tokenizer=tokenizer,
        heads=2,
        head_size=16,
        layers=2,
        eos_token_id=2,
    )
    export_pair(str(target), None, tmp_path / "pair", measure=False, threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1, allow_inexact=True)
    # Sampled, so that some texts begin with a space; the seeds are those of the coupled rule.
    prompts = ["hello", "a b", "  two spaces", "日本", pair.encode("hello world")]
    tasks = [
        [prompt, {"maxNewTokens": 4, "ignoreEos": True, "temperature": 2, "seed": seed}]
        for seed in range(10)
        for prompt in prompts
    ]
    answers = in_javascript(tmp_path / "pair", *tasks)
    for (prompt, options), answer in zip(tasks, answers, strict=True):
        before = pair.encode(prompt)
        wanted = pair.generate(
            prompt, max_new_tokens=4, ignore_eos=True, temperature=2, seed=options["seed"]
        )
        assert answer["text"] == answer["streamed"] == wanted.text
        together = pair.tokenizer.decode([*before, *answer["tokenIds"]])
        if "\ufffd" not in together:
            assert together == pair.tokenizer.decode(before) + answer["text"]
    assert any(answer["text"].startswith(" ") for answer in answers)
