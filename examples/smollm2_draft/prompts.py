"""Chat prompts that a chat model generates: python prompts.py MODEL COUNT > prompts.txt

A chat model has also learned the users' turns. After the text that starts one, it generates a
user's message (Magpie, Xu et al. 2024, arXiv 2406.08464). Nine in ten begin with a line of
openings.txt, so all common kinds of requests are included. One line each, no duplicates, none of
held_out.txt, fixed seed.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer

from edgespec_distill.data.text_generation import GenerationSettings, generate_texts
from edgespec_distill.models.target import open_target
from edgespec_distill.models.trainable import GeneratingModel
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import resolve

USER_TURN = "<|im_start|>user\n"
END = "<|im_end|>"
MAX_TOKENS, MIN_TOKENS = 48, 4
ROWS = 256
OPENINGS, HELD_OUT = (
    Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
    for name in ("openings.txt", "held_out.txt")
)


def messages(model: GeneratingModel, tokenizer: Tokenizer, rng: random.Random) -> Iterator[str]:
    """Endless users' messages."""
    end = tokenizer.token_to_id(END)
    settings = GenerationSettings(MAX_TOKENS, [end], temperature=0.9, finished_share=0.8)
    while True:
        openings = [rng.choice(OPENINGS) if rng.random() < 0.9 else "" for _ in range(ROWS)]
        turns = [USER_TURN + opening for opening in openings]
        begun = tokenizer.encode_batch(turns, add_special_tokens=False)
        for text in generate_texts(model, [encoding.ids for encoding in begun], settings):
            if len(text.output) >= MIN_TOKENS and text.output[-1] == end:
                message = tokenizer.decode([*text.prompt, *text.output], skip_special_tokens=True)
                yield " ".join(message.removeprefix("user\n").split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("count", type=int)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    source = resolve(arguments.model)
    model, tokenizer = open_target(source, start_token=None), open_checkpoint(source).tokenizer
    seen = set(HELD_OUT)
    left = arguments.count
    for message in messages(model, tokenizer, random.Random(0)):
        if message and message not in seen:
            seen.add(message)
            print(message, flush=True)
            left -= 1
            if left % 500 == 0:
                print(f"{left} of {arguments.count} left", file=sys.stderr, flush=True)
        if not left:
            return


if __name__ == "__main__":
    main()
