"""Requests about a text: python passages.py MODEL WORDNET COUNT > passages-made.txt

The model writes the texts itself, after sentences of passages.txt that WordNet fills as it does
those of requests.txt; for each, three sentences of tasks.txt say what to do with it. One line each,
no duplicates, fixed seed.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

import torch
from people import Maker, read_wordnet

from edgespec.chat import said
from edgespec_export.checkpoint import Checkpoint, open_checkpoint
from edgespec_export.distill.models import Distilled
from edgespec_export.distill.outputs import Manner, written
from edgespec_export.distill.target import open_target
from edgespec_export.sources import resolve

LONGEST, SHORTEST = 120, 20  # tokens of a text
ROWS = 256
TASKS_FOR_EACH = 3
ASKED, TASKS = (
    Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
    for name in ("passages.txt", "tasks.txt")
)


def passages(
    model: Distilled, checkpoint: Checkpoint, maker: Maker, chance: random.Random
) -> Iterator[str]:
    """Texts without end, a line each."""
    form, tokenizer = checkpoint.chat, checkpoint.tokenizer
    assert form is not None
    manner = Manner(LONGEST, checkpoint.eos_token_ids, temperature=0.8, enough=0.8)
    while True:
        asked = [maker.make(chance.choice(ASKED)) for _ in range(ROWS)]
        turns = [form.text([said(request)])[0] for request in asked]
        begun = tokenizer.encode_batch(turns, add_special_tokens=False)
        for text in written(model, [encoding.ids for encoding in begun], manner):
            if len(text.output) >= SHORTEST:
                sentences = tokenizer.decode(text.output, skip_special_tokens=True)
                yield _whole_sentences(" ".join(sentences.split()))


def _whole_sentences(text: str) -> str:
    """Without what was cut behind the last full stop, if there is one."""
    end = text.rfind(". ") + 1
    return text if text.endswith((".", "!", "?")) or not end else text[:end]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("wordnet", type=Path, help="/usr/share/wordnet")
    parser.add_argument("count", type=int)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    chance = random.Random(0)
    source = resolve(arguments.model)
    model, checkpoint = open_target(source, start_token=None), open_checkpoint(source)
    maker = Maker(read_wordnet(arguments.wordnet), chance)
    made: set[str] = set()
    for passage in passages(model, checkpoint, maker, chance):
        for task in chance.sample(TASKS, TASKS_FOR_EACH):
            # Put in last: what a passage has in braces is its own.
            request = maker.make(task).replace("PASSAGE", passage)
            if request not in made:
                made.add(request)
                print(request, flush=True)
            if len(made) == arguments.count:
                return


if __name__ == "__main__":
    main()
