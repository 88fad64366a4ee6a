"""Prompts as token ids: python examples/gpu_drafts/prompts.py TARGET OUT.npz FILE...

Each FILE has a prompt on each line (.jsonl: a JSON string). OUT also has prompts to judge the
draft by, with their kinds, and the tokens around a user's message, so that the target can write
prompts itself. What judges is left out of what is trained on.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from program import new_npz, run
from token_files import Prompts

from edgespec.artifact.chat_format import user_message
from edgespec.chat.chat_writer import ChatWriter
from edgespec_distill.data.training_prompts import encoded_prompts, read_prompts
from edgespec_export.checkpoint.checkpoint import Checkpoint, open_checkpoint
from edgespec_export.checkpoint.sources import resolve

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "prompts"
MOST_TOKENS = 700  # of a prompt; longer ones are left out


def judges() -> list[tuple[str, str]]:
    """The kinds and the prompts of the benchmarks of chat models."""
    six, code = (
        json.loads((BENCHMARKS / name).read_text(encoding="utf-8"))
        for name in ("six_kinds.json", "coding.json")
    )
    return [(one["kind"], one["prompt"]) for one in six] + [("code", one["prompt"]) for one in code]


def around_a_message(checkpoint: Checkpoint) -> tuple[list[int], list[int]]:
    """The tokens before a user's message, and those from its end to the answer."""
    shown = ChatWriter(checkpoint.template, checkpoint.chat)([user_message("x")])
    at = shown.contents[0].start
    before, after = checkpoint.tokenizer.encode_batch(
        [shown.text[:at], shown.text[at + 1 :]], add_special_tokens=False
    )
    return before.ids, after.ids


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", help="folder, GGUF file, hub id or short name")
    parser.add_argument("out", type=new_npz)
    parser.add_argument("files", type=Path, nargs="+")
    arguments = parser.parse_args()
    checkpoint = open_checkpoint(resolve(arguments.target))
    kinds, texts = zip(*judges(), strict=True)
    judged = encoded_prompts(texts, checkpoint, chat=True)
    known = set(map(tuple, judged))
    read = (read_prompts(file, checkpoint, chat=True, own=0) for file in arguments.files)
    distinct = dict.fromkeys(tuple(prompt) for file in read for prompt in file)
    prompts = [p for p in distinct if p not in known and len(p) <= MOST_TOKENS]
    if not prompts:
        raise SystemExit(f"every prompt has more than {MOST_TOKENS} tokens; give shorter ones")
    judging = list(zip(kinds, map(list, judged), strict=True))
    Prompts(prompts, judging, *around_a_message(checkpoint)).save(arguments.out)
    mean = sum(map(len, prompts)) / len(prompts)
    left_out = len(distinct) - len(prompts)
    print(f"{len(prompts)} prompts of {mean:.0f} tokens; {left_out} left out: too long, or judging")


if __name__ == "__main__":
    run(main)
