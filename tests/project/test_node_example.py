"""Claim: docs/reference/folder-format.md suffices to run a pair exactly in another language.

examples/node was written from it; its texts and its distribution are compared with edgespec's.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import edgespec
from chat_templates import TRIMS
from checkpoints import write_noisy, write_small_llama
from edgespec_export.export_pair import export_pair

EXAMPLE = Path(__file__).parents[2] / "examples" / "node"
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.skipif(NODE is None, reason="Node.js is not installed"),
    pytest.mark.skipif(
        not (EXAMPLE / "node_modules").is_dir(), reason="run npm install in examples/node"
    ),
]
PROMPTS = [
    "The file could not be opened because it does not exist.",
    "Development files for a library that reads and writes images",
]


def node(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [str(NODE), *map(str, arguments)]
    done = subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def generated(pair: Path, prompt: str, *options: object) -> dict:
    done = node("generate.mjs", pair, prompt, "--json", "--threads", 1, *options)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def chat_folder(tmp_path_factory):
    """A random chat model over bytes, whose template trims messages."""
    folder = tmp_path_factory.mktemp("node")
    target = write_small_llama(folder / "target")
    settings = {"chat_template": TRIMS, "bos_token": "<s>", "eos_token": "</s>"}
    (target / "tokenizer_config.json").write_text(json.dumps(settings))
    draft = write_noisy(target, folder / "draft", noise=0.05)
    formats = ["fp32", "int8"]
    export_pair(str(target), str(draft), folder / "pair", target_formats=formats, threads=1)
    return folder / "pair"


# --- texts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_translations_equal_edgespecs(pair, pair_folder, prompt):
    ours = pair.generate(prompt, draft="model", gamma=3)
    assert generated(pair_folder, prompt, "--plain")["token_ids"] == ours.token_ids
    drafted = generated(pair_folder, prompt, "--gamma", 3)
    assert drafted["token_ids"] == ours.token_ids
    assert drafted["text"] == ours.text
    assert drafted["accepted"] == ours.stats.accepted > 0


@pytest.mark.parametrize("target_format", ["fp32", "int8"])
def test_greedy_answers_of_a_chat_model_equal_edgespecs(chat_folder, target_format):
    pair = edgespec.load(chat_folder, threads=1, target_format=target_format)
    ours = pair.generate(" Hello!\n", chat=True, max_new_tokens=40, draft="model", gamma=2)
    options = ("--gamma", 2, "--tokens", 40, "--target-format", target_format)
    theirs = generated(chat_folder, " Hello!\n", *options)
    assert theirs["token_ids"] == ours.token_ids
    assert theirs["accepted"] == ours.stats.accepted > 0


def test_decoding_keeps_spaces(pair, pair_folder):
    text = "a ? b : ' c ' . !"
    script = (
        f'import {{ openPair }} from "{EXAMPLE / "pair.mjs"}";'
        f"const {{ tokenizer }} = await openPair({str(pair_folder)!r});"
        f"const {{ ids }} = tokenizer.encode({json.dumps(text)});"
        "console.log(tokenizer.decode(ids, { skip_special_tokens: true }))"
    )
    decoded = pair.tokenizer.decode(pair.tokenizer.encode(text).ids)
    assert node("--input-type=module", "-e", script).stdout == f"{decoded}\n"


# --- EAGLE heads ---------------------------------------------------------------------------------

EAGLE_LOGITS = """
import {{ openPair }} from "{module}";
const {{ target, draft }} = await openPair("{folder}", {{ threads: 1 }});
const ids = {ids};
await target.prefill(ids, 9);
await target.score([ids.at(-1)]);
await draft.prefill(ids, 9);
const rows = await draft.score([ids.at(-1), 7]); // the target has not been after this
for (const token of [5, 9]) rows.push((await draft.score([token])).at(-1));
console.log(JSON.stringify(rows.map((row) => [...row])));
"""


def test_an_eagle_heads_logits_equal_ours(tmp_path):
    from eagle_checkpoints import PROMPT, write_eagle, write_target

    target = write_target(tmp_path / "target", "llama")
    write_eagle(target, tmp_path / "draft")
    folder = tmp_path / "pair"
    export_pair(str(target), str(tmp_path / "draft"), folder, threads=1)
    pair = edgespec.load(folder, threads=1)
    pair.target.prefill(PROMPT)
    pair.target.score([PROMPT[-1]])
    pair.draft.prefill(PROMPT)
    ours = [*pair.draft.score([PROMPT[-1], 7]).copy()]
    ours += [pair.draft.score([token])[-1].copy() for token in (5, 9)]
    module = EXAMPLE / "pair.mjs"
    script = EAGLE_LOGITS.format(module=module, folder=folder, ids=list(PROMPT))
    theirs = json.loads(node("--input-type=module", "-e", script).stdout)
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-4)
    text = pair.generate("Hello!", max_new_tokens=60, draft="model", gamma=3)
    options = ("--gamma", 3, "--tokens", 60)
    assert generated(folder, "Hello!", *options)["token_ids"] == text.token_ids


# --- the distribution ----------------------------------------------------------------------------

# Tables replace models, and every triple of numbers from a grid replaces random ones. All
# probabilities are multiples of its step, so the frequencies are exactly the distribution.
FIRST_TOKEN = """
import {{ speculate }} from "{module}";
const [T, steps] = [2, 12];
const table = (weights) => ({{
  exported: {{ vocab_size: weights.length }},
  capacity: 9, length: 0, validLength: 9,
  async prefill(prompt) {{ this.length = 0; return prompt.at(-1); }},
  async score(tokens) {{
    this.length += tokens.length;
    return tokens.map(() => Float64Array.from(weights, (w) => T * Math.log(w)));
  }},
  rewind(length) {{ this.length = length; }},
}});
const pair = {{
  target: table({p}), draft: table({q}), vocabulary: {vocabulary},
  manifest: {{ eos_token_ids: [] }}, maxGamma: 16,
}};
const distribution = Array({p}.length).fill(0);
for (let i = 0; i < steps ** 3; i++) {{
  const numbers = [i % steps, Math.floor(i / steps) % steps, Math.floor(i / steps ** 2)];
  const random = () => (numbers.shift() + 0.5) / steps;
  const options = {{ temperature: T, gamma: 1, maxNewTokens: 2, random }};
  const {{ value }} = await speculate(pair, [0], options).next();
  distribution[value.token] += 1 / steps ** 3;
}}
console.log(JSON.stringify(distribution));
"""
P = [3, 6, 3]  # of twelve
DRAFTS = {
    "the same tokens": ([6, 3, 3], {"toDraftIds": [0, 1, 2], "toTargetIds": [0, 1, 2]}),
    "some of its tokens": ([6, 6], {"toDraftIds": [0, 0, 1], "toTargetIds": [0, 2]}),
    "more tokens": ([6, 3, 3, 12], {"toDraftIds": [0, 1, 2], "toTargetIds": [0, 1, 2]}),
}


def distribution_of_first_token(module: Path, draft: str) -> list[float]:
    q, vocabulary = DRAFTS[draft]
    script = FIRST_TOKEN.format(module=module, p=P, q=q, vocabulary=json.dumps(vocabulary))
    return json.loads(node("--input-type=module", "-e", script).stdout)


@pytest.mark.parametrize("draft", DRAFTS)
def test_the_distribution_is_the_targets_for_any_draft_vocabulary(draft):
    assert distribution_of_first_token(EXAMPLE / "decode.mjs", draft) == pytest.approx(
        [p / 12 for p in P]
    )


@pytest.mark.parametrize(
    ("right", "wrong", "draft"),
    [
        ("Math.max(0, value - q[i])", "value", "the same tokens"),
        ("random() * q[token] < p[token]", "random() < p[token]", "the same tokens"),
        ("p[i] = Math.exp((logits[i] - logits[best]) / temperature)",
         "p[i] = Math.exp(logits[i] - logits[best])", "the same tokens"),
        ("logits.subarray(0, toTargetIds.length)", "logits", "more tokens"),
    ],
    ids=["no residual", "p alone accepts", "no temperature", "tokens removed too late"],
)  # fmt: skip
def test_a_wrong_rule_is_caught(tmp_path, right, wrong, draft):
    code = (EXAMPLE / "decode.mjs").read_text(encoding="utf-8")
    assert right in code
    (tmp_path / "mutant.mjs").write_text(code.replace(right, wrong), encoding="utf-8")
    distribution = distribution_of_first_token(tmp_path / "mutant.mjs", draft)
    assert distribution != pytest.approx([p / 12 for p in P], abs=0.01)


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gamma", "17"], "exact for at most 16"),
        (["--gamma=-2"], "--gamma is -2; give a whole number from 0"),
        (["--tokens", "0"], "--tokens is 0"),
        (["--temperature", "x"], "--temperature is x; give a number from 0"),
        (["--target-format", "int4"], "no int4; there is: fp32,int8"),
        (["more"], "give a pair and a prompt"),
        (["--nosuch"], "'--nosuch'"),
    ],
    ids=str,
)
def test_a_mistake_is_one_line(chat_folder, options, message):
    done = node("generate.mjs", chat_folder, "Hello!", *options, code=1)
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def changed(folder: Path, tmp_path: Path, change) -> Path:
    """A copy of a pair with another manifest."""
    shutil.copytree(folder, tmp_path / "pair")
    manifest = json.loads((folder / "edgespec.json").read_text())
    change(manifest)
    (tmp_path / "pair" / "edgespec.json").write_text(json.dumps(manifest))
    return tmp_path / "pair"


def test_a_target_that_is_not_row_invariant_does_not_verify(chat_folder, tmp_path):
    def not_invariant(manifest):
        manifest["target"]["variants"]["fp32"]["row_invariance"]["is_row_invariant"] = False

    assert generated(changed(chat_folder, tmp_path, not_invariant), "Hello!")["accepted"] == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest["files"].update({"../x.onnx": {"bytes": 1}}),
        lambda manifest: manifest["files"]["tokenizer.json"].update(bytes=1),
        lambda manifest: manifest["files"]["tokenizer.json"].update(sha256="0" * 64),
        lambda manifest: manifest.update(version=3),
    ],
    ids=["leaves the folder", "size", "digest", "version"],
)
def test_a_damaged_pair_is_refused(chat_folder, tmp_path, change):
    folder = changed(chat_folder, tmp_path, change)
    assert len(node("generate.mjs", folder, "Hello!", code=1).stderr.splitlines()) == 1
