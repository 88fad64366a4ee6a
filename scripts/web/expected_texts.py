"""Writes Python's greedy texts, which browsers must give as well: `make test-web`.

    python scripts/web/expected_texts.py EN_DE SMOLLM2 SMOLLM2_FP32 OUTPUT

Without kernels: browsers have none.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ["EDGESPEC_KERNELS"] = "0"

import edgespec

MAX_NEW_TOKENS = 24
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
QUESTIONS = (
    "The capital of France is",
    "What is two plus two?",
    "Name three colours.",
    "Why is the sky blue?",
    "Write a sentence about a cat.",
)


def texts(folder: Path, prompts: tuple[str, ...], chat: bool) -> dict[str, object]:
    pair = edgespec.load(folder, threads=1, allow_inexact=True)  # plainly
    cases = []
    for prompt in prompts:
        plain = pair.generate(prompt, draft=False, chat=chat, max_new_tokens=MAX_NEW_TOKENS)
        cases.append({"prompt": prompt, "tokenIds": plain.token_ids, "text": plain.text})
    return {"chat": chat, "maxNewTokens": MAX_NEW_TOKENS, "cases": cases}


def main(en_de: str, smollm2: str, smollm2_fp32: str, output: str) -> None:
    found = {
        "en-de": texts(Path(en_de), SENTENCES, chat=False),
        "smollm2": texts(Path(smollm2), QUESTIONS, chat=True),
        "smollm2-fp32": texts(Path(smollm2_fp32), QUESTIONS, chat=True),
    }
    Path(output).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
