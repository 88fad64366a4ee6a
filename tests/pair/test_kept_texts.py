"""Claim: what one process keeps, another one goes on from, bit for bit: documents that are cut at
random, several texts of one document, alone and in a batch; 200 texts with EDGESPEC_DEEP=1."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest

import edgespec
from depth import DEEP

TEXTS, FILES = (200, 20) if DEEP else (8, 2)
CHARACTERS = "abcdefghij klmnop. QRSTU?"
WAYS = [
    {"draft": False},
    {"draft": "model", "gamma": 3},
    {"draft": "both", "gamma": 4},
    {"temperature": 0.9, "top_p": 0.95, "rule": "block"},
    {"temperature": 1.0, "rule": "coupled", "draft": "lookup"},
]
READER = """
import json, sys, edgespec
from pathlib import Path
folder, form, work = sys.argv[1:]
pair = edgespec.load(folder, threads=1, target_format=form)
made = []
for case in json.loads(Path(work).read_text()):
    pair.target.rewind(0)
    pair.use_prefix(case["file"])
    if case["many"]:
        results = list(pair.generate_many(case["prompts"], n=2, **case["options"]))
    else:
        results = [pair.generate(prompt, **case["options"]) for prompt in case["prompts"]]
    made.append([[result.token_ids, result.logprobs] for result in results])
    assert pair.target.prefixes.best([], -1) is not None
print(json.dumps(made))
"""


def cases(folder, count: int, files: int, seed: int):
    """Each a file, what begins like the document it keeps, and how texts of that are made."""
    draw = random.Random(seed)
    made = 0
    for number in range(files):
        document = "".join(draw.choices(CHARACTERS, k=draw.randint(80, 700)))
        kept = document[: draw.randint(1, len(document))]
        wanted = (count - made) // (files - number)
        many = number % 2 == 1
        prompts = [
            document[: draw.randint(1, len(document))] + "".join(draw.choices(CHARACTERS, k=9))
            for _ in range(wanted // 2 if many else wanted)
        ]
        made += 2 * len(prompts) if many else len(prompts)
        options = {"chat": False, "ignore_eos": True, "logprobs": True, "max_new_tokens": 12}
        options |= {"seed": number, **WAYS[number % len(WAYS)]}
        file = folder / f"{number}.prefix"
        yield kept, {"file": str(file), "many": many, "prompts": prompts, "options": options}


def without(plain, case):
    """Each text alone, with an empty cache and no file."""
    options, made = dict(case["options"]), []
    repeats = 2 if case["many"] else 1
    for number, prompt in enumerate(p for p in case["prompts"] for _ in range(repeats)):
        plain.target.rewind(0)
        seed = options["seed"] + (number if case["many"] else 0)
        result = plain.generate(prompt, **{**options, "seed": seed})
        made.append([result.token_ids, result.logprobs])
    return json.loads(json.dumps(made))


@pytest.mark.parametrize("form", ["int8", "fp32"] if DEEP else ["int8"])
def test_texts_of_another_process_are_those_without_a_file(chat_folder, tmp_path, form):
    plain, keeper = (edgespec.load(chat_folder, threads=1, target_format=form) for _ in range(2))
    work = []
    for kept, case in cases(tmp_path, TEXTS, FILES, seed=7):
        keeper.save_prefix(kept, case["file"], chat=False)
        work.append(case)
    assert sum(len(case["prompts"]) * (1 + case["many"]) for case in work) == TEXTS
    (tmp_path / "work.json").write_text(json.dumps(work))
    done = subprocess.run(
        [sys.executable, "-c", READER, str(chat_folder), form, str(tmp_path / "work.json")],
        capture_output=True,
        text=True,
        check=True,
    )
    for found, case in zip(json.loads(done.stdout), work, strict=True):
        assert found == without(plain, case), case
