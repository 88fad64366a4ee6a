"""Claim: docs/format.md is enough to run a pair exactly in another language; examples/node does."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import edgespec
from chat_templates import DEFAULT_SYSTEM
from checkpoints import byte_tokenizer, write_llama, write_noisy
from edgespec.export import export_pair

EXAMPLE = Path(__file__).parents[1] / "examples" / "node"
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


def node(*arguments: object) -> str:
    command = [str(NODE), *map(str, arguments)]
    done = subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def generated(pair: Path, prompt: str, *options: object) -> dict:
    return json.loads(node("generate.mjs", pair, prompt, "--json", "--threads", 1, *options))


@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_translations_are_those_of_edgespec(pair, pair_folder, prompt):
    ours = pair.generate(prompt, draft="model", gamma=3)
    assert generated(pair_folder, prompt, "--plain")["token_ids"] == ours.token_ids
    drafted = generated(pair_folder, prompt, "--gamma", 3)
    assert drafted["token_ids"] == ours.token_ids
    assert drafted["text"] == ours.text
    assert drafted["accepted"] == ours.stats.accepted > 0


def test_greedy_answers_of_a_chat_model_are_those_of_edgespec(tmp_path):
    target = write_llama(
        tmp_path / "target",
        vocab_size=272,
        tokenizer=byte_tokenizer(272),
        heads=2,
        head_size=16,
        layers=2,
    )
    (target / "tokenizer_config.json").write_text(json.dumps({"chat_template": DEFAULT_SYSTEM}))
    draft = write_noisy(target, tmp_path / "draft", noise=0.05)
    folder = tmp_path / "pair"
    export_pair(str(target), str(draft), folder, target_formats=["fp32", "int8"], threads=1)
    for target_format in ("fp32", "int8"):
        pair = edgespec.load(folder, threads=1, target_format=target_format)
        ours = pair.generate("Hello!", chat=True, max_new_tokens=40, draft="model", gamma=2)
        options = ("--gamma", 2, "--tokens", 40, "--target-format", target_format)
        theirs = generated(folder, "Hello!", *options)
        assert theirs["token_ids"] == ours.token_ids
        assert theirs["accepted"] == ours.stats.accepted > 0


def test_a_draft_that_reads_hidden_states_works_too(tmp_path):
    from test_eagle import write_eagle, write_target

    target = write_target(tmp_path / "target", "llama")
    write_eagle(target, tmp_path / "draft", tokens=200)
    folder = tmp_path / "pair"
    export_pair(str(target), str(tmp_path / "draft"), folder, threads=1)
    pair = edgespec.load(folder, threads=1)
    ours = pair.generate("Hello!", max_new_tokens=60, draft="model", gamma=3)
    theirs = generated(folder, "Hello!", "--gamma", 3, "--tokens", 60)
    assert theirs["token_ids"] == ours.token_ids
    assert theirs["accepted"] == ours.stats.accepted


# Every pair of numbers from a grid in place of two random ones. The steps of the probabilities are
# steps of the grid, so the frequencies are the law itself.
LAW = """
import {{ verify }} from "{module}";
const [p, q, bonus, steps] = [{p}, {q}, {bonus}, 12];
const law = {{}};
for (let drafted = 0; drafted < q.length; drafted++)
  for (let first = 0; first < steps; first++)
    for (let second = 0; second < steps; second++) {{
      const numbers = [(first + 0.5) / steps, (second + 0.5) / steps];
      const [law_of, random] = [(row) => [p, bonus][row], () => numbers.shift()];
      const {{ accepted, next }} = verify([drafted], [q], law_of, random);
      const run = accepted ? [drafted, next] : [next];
      law[run] = (law[run] ?? 0) + q[drafted] / steps ** 2;
    }}
console.log(JSON.stringify(law));
"""
P, Q, BONUS = [1 / 10, 6 / 10, 3 / 10], [4 / 10, 4 / 10, 2 / 10], [1 / 4, 3 / 4, 0]


def first_token_and_bonus(tmp_path: Path, module: Path) -> tuple[list[float], list[float]]:
    """The law of the first emitted token, and that of the second where the first was accepted."""
    script = tmp_path / "law.mjs"
    script.write_text(LAW.format(module=module, p=P, q=Q, bonus=BONUS))
    law = {
        tuple(map(int, run.split(","))): chance for run, chance in json.loads(node(script)).items()
    }
    first = [sum(c for run, c in law.items() if run[0] == token) for token in range(3)]
    both = {run: chance for run, chance in law.items() if len(run) == 2}
    second = [sum(c for run, c in both.items() if run[1] == token) for token in range(3)]
    return first, [chance / sum(both.values()) for chance in second]


def test_the_rule_keeps_the_law_of_the_target(tmp_path):
    first, second = first_token_and_bonus(tmp_path, EXAMPLE / "decode.mjs")
    assert first == pytest.approx(P)
    assert second == pytest.approx(BONUS)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Math.max(0, value - theirs[i])", "value"),
        ("random() * theirs[token] >= ours[token]", "random() >= ours[token]"),
    ],
    ids=["no residual", "p alone accepts"],
)
def test_a_wrong_rule_is_caught(tmp_path, right, wrong):
    code = (EXAMPLE / "decode.mjs").read_text(encoding="utf-8")
    assert right in code
    (tmp_path / "mutant.mjs").write_text(code.replace(right, wrong), encoding="utf-8")
    first, _ = first_token_and_bonus(tmp_path, tmp_path / "mutant.mjs")
    assert first != pytest.approx(P, abs=0.01)
