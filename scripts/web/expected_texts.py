"""Writes Python's greedy texts, which browsers must give as well: `make test-web`.

    python scripts/web/expected_texts.py EN_DE SMOLLM2 SMOLLM2_FP32 OUTPUT

50 prompts of the translation pair. Of the chat pairs' 50 questions, as many as the browsers are
asked: EDGESPEC_WEB_QUESTIONS, 3 by default. Without kernels: browsers have none.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import product
from pathlib import Path

os.environ["EDGESPEC_KERNELS"] = "0"

import edgespec

QUESTIONS_ASKED = int(os.environ.get("EDGESPEC_WEB_QUESTIONS", "3"))
TRANSLATED_TOKENS = 24
ANSWER_TOKENS = 12  # a browser computes some 6 a second
SENTENCES = (
    "The file could not be opened.",
    "Open the file.",
    "Save changes to the document before closing?",
    "GNOME development IDE - data files",
    "This package contains the documentation.",
    "The server is not responding.",
    "Enter your password to continue.",
    "No such file or directory",
    "Select a folder to save the backup in.",
    "The disk is full.",
)
# Package descriptions, what the shipped translation pair was trained on.
THINGS = (
    *("Python bindings", "command line tool", "shared library", "graphical user interface"),
    *("plug-in", "A small and fast server", "Collection of examples", "development files"),
)
PURPOSES = (
    *("for reading and writing image files", "to convert audio files between several formats"),
    *("for the GNOME desktop", "that monitors the network and prints a report"),
    "to search for text in many documents at once",
)
QUESTIONS = (
    "The capital of France is",
    "What is two plus two?",
    "Name three colours.",
    "Why is the sky blue?",
    "Write a sentence about a cat.",
)
ASKED = Path(__file__).parents[2] / "examples/smollm2_draft"


def sentences() -> list[str]:
    return [*SENTENCES, *(f"{thing} {purpose}" for thing, purpose in product(THINGS, PURPOSES))]


def questions() -> list[str]:
    files = (ASKED / name for name in ("held_out.txt", "requests.txt"))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    asked = [line for line in lines if line.strip() and not line.startswith("#")]
    return [*QUESTIONS, *asked][:QUESTIONS_ASKED]


def texts(folder: Path, prompts: list[str], chat: bool) -> dict[str, object]:
    pair = edgespec.load(folder, threads=1, allow_inexact=True)  # plainly
    tokens = ANSWER_TOKENS if chat else TRANSLATED_TOKENS
    cases = []
    for prompt in prompts:
        plain = pair.generate(prompt, draft=False, chat=chat, max_new_tokens=tokens)
        cases.append({"prompt": prompt, "tokenIds": plain.token_ids, "text": plain.text})
    return {"chat": chat, "maxNewTokens": tokens, "cases": cases}


def main(en_de: str, smollm2: str, smollm2_fp32: str, output: str) -> None:
    found = {
        "en-de": texts(Path(en_de), sentences(), chat=False),
        "smollm2": texts(Path(smollm2), questions(), chat=True),
        "smollm2-fp32": texts(Path(smollm2_fp32), questions(), chat=True),
    }
    Path(output).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
