"""Lets a target write texts on a GPU: python examples/gpu_drafts/write.py TARGET PROMPTS TEXTS.npz

TARGET is packed by pack.py, PROMPTS written by prompts.py. TEXTS has what a draft is trained on and
what judges it: greedy texts after prompts like the training's, held out, and by other kinds.
"""

from __future__ import annotations

import argparse
import logging
import random
from pathlib import Path

from packed_target import digest_of, open_target
from program import begin_log, device_and_type, new_npz, positive, run, whole
from token_files import TRAINED_ON, Prompts, save_texts
from writing import greedy_texts, own_prompts, write_texts

HELD_OUT = 512  # prompts, an eighth of them at most
JUDGED_TOKENS = 96

logger = logging.getLogger("gpu_drafts")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("target", "prompts"):
        parser.add_argument(name, type=Path)
    parser.add_argument("texts", type=new_npz)
    add = parser.add_argument
    add("--seconds", type=positive, default=80, help="that the target writes")
    add("--own", type=whole(0), default=8192, help="prompts that the target begins itself")
    add("--positions", type=whole(1), default=1_400_000, help="of texts that are written at once")
    return parser.parse_args()


def main() -> None:
    arguments = read_arguments()
    begin_log()
    rng = random.Random(0)
    given = Prompts.load(arguments.prompts)
    model = open_target(arguments.target, *device_and_type())

    rng.shuffle(given.trained_on)
    count = min(HELD_OUT, len(given.trained_on) // 8)
    held_out, prompts = given.trained_on[:count], given.trained_on[count:]
    logger.info(f"greedy texts that judge: {len(held_out)} held out, {len(given.judges)} others")
    kinds = {"held out": greedy_texts(model, held_out)} if held_out else {}
    names, judges = zip(*given.judges, strict=True)
    for name, text in zip(names, greedy_texts(model, judges, JUDGED_TOKENS), strict=True):
        kinds.setdefault(name, []).append(text)
    around = given.before_message, given.after_message
    prompts += own_prompts(model, *around, arguments.own)
    texts = write_texts(model, prompts, arguments.seconds, arguments.positions, rng)
    if not texts:
        raise SystemExit("every text repeats itself or has fewer than 4 tokens; give other prompts")
    kinds[TRAINED_ON] = texts
    save_texts(arguments.texts, digest_of(arguments.target), kinds)
    logger.info(f"{len(texts)} texts to train on are in {arguments.texts}")


if __name__ == "__main__":
    run(main)
