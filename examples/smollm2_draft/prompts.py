"""Chat prompts that a chat model writes itself: python prompts.py MODEL COUNT > prompts.txt

A chat model has learned users' turns too. Given the text in front of one, it writes a user's
message (Magpie, Xu et al. 2024, arXiv 2406.08464); half of them begin with a line of openings.txt,
so that common kinds of requests are all there. One line each, no duplicates, fixed seed.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

USER_TURN = "<|im_start|>user\n"
END = "<|im_end|>"
LONGEST, SHORTEST = 64, 4  # tokens
ROWS = 64
OPENINGS = Path(__file__).with_name("openings.txt").read_text(encoding="utf-8").splitlines()


def load(path: Path) -> tuple[Any, Any]:
    torch.manual_seed(0)
    where, options = (path, {}) if path.is_dir() else (path.parent, {"gguf_file": path.name})
    tokenizer = AutoTokenizer.from_pretrained(where, **options)
    model = AutoModelForCausalLM.from_pretrained(where, dtype=torch.bfloat16, **options)
    return model.eval(), tokenizer


@torch.no_grad()
def messages(model: Any, tokenizer: Any, chance: random.Random) -> Iterator[str]:
    """Users' messages without end, in batches that share an opening's length."""
    end = tokenizer.convert_tokens_to_ids(END)
    while True:
        opening = chance.choice(OPENINGS) if chance.random() < 0.5 else ""
        ids = tokenizer(
            USER_TURN + opening, return_tensors="pt", add_special_tokens=False
        ).input_ids
        made = model.generate(
            input_ids=ids.expand(ROWS, -1),
            attention_mask=torch.ones(ROWS, ids.shape[1], dtype=torch.long),
            max_new_tokens=LONGEST,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=0.95,
            pad_token_id=end,
            eos_token_id=end,
        )
        for row in made[:, ids.shape[1] :].tolist():
            if len(row) >= SHORTEST and end in row:
                text = tokenizer.decode(row[: row.index(end)], skip_special_tokens=True)
                yield " ".join((opening + text).split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("count", type=int)
    arguments = parser.parse_args()
    model, tokenizer = load(arguments.model)
    seen: set[str] = set()
    for message in messages(model, tokenizer, random.Random(0)):
        if message and message not in seen:
            seen.add(message)
            print(message, flush=True)
            if len(seen) % 500 == 0:
                print(f"{len(seen)} of {arguments.count}", file=sys.stderr, flush=True)
        if len(seen) >= arguments.count:
            return


if __name__ == "__main__":
    main()
