"""What the target writes, and the laws it would have drawn each token from."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import torch

from edgespec_export.distill.examples import Example, Text, batches
from edgespec_export.distill.models import Distilled
from edgespec_export.distill.vocabulary import Vocabulary

__all__ = ["generated", "read_examples", "with_laws", "write_examples"]

KEPT = 64  # of the most probable tokens at each position; the rest has little mass
WRITTEN = 12288  # positions of the texts generated at once
POSITIONS = 2048  # scored at once: their laws over a whole vocabulary must fit in memory


def generated(
    writer: Distilled,
    prompts: Sequence[Sequence[int]],
    *,
    length: int,
    temperature: float,
    ends: Collection[int],
    enough: float = 1.0,
) -> Iterator[list[Text]]:
    """Outputs of the target or of the draft, some prompts of similar length at a time."""
    order = sorted(prompts, key=len)
    while order:
        rows = max(1, WRITTEN // (len(order[0]) + length))
        group, order = order[:rows], order[rows:]
        outputs = writer.generate(group, length, temperature, ends, enough)
        yield [Text(prompt, output) for prompt, output in zip(group, outputs, strict=True)]


@torch.no_grad()
def with_laws(target: Distilled, texts: Sequence[Text], vocabulary: Vocabulary) -> list[Example]:
    """The texts with the target's laws, cut to the draft's tokens."""
    device = target.model.device
    absent = torch.ones(len(vocabulary.inputs), dtype=torch.bool, device=device)
    absent[vocabulary.outputs.to(device)] = False
    examples = []
    for group in batches(texts, POSITIONS, random.Random(0)):
        logs = target.logits(group).float().log_softmax(-1)
        logs = logs.masked_fill(absent, -torch.inf)
        best, tokens = logs.topk(min(KEPT, len(vocabulary.outputs)))
        numbers = vocabulary.inputs[tokens.cpu()].to(torch.int32)
        lengths = [len(text.output) for text in group]
        laws = zip(
            torch.split(numbers, lengths), torch.split(best.cpu().half(), lengths), strict=True
        )
        for text, (known, values) in zip(group, laws, strict=True):
            # A copy: a view would keep the laws of its whole group in memory and on disk.
            examples.append(Example(text.prompt, text.output, known.clone(), values.clone()))
    return examples


def write_examples(examples: Sequence[Example], file: Path) -> None:
    """Writes a file that appears whole or not at all."""
    rows = [(list(e.prompt), list(e.output), e.tokens, e.logs) for e in examples]
    aside = file.with_suffix(".partial")
    torch.save(rows, aside)
    aside.replace(file)


def read_examples(file: Path) -> list[Example]:
    return [Example(*row) for row in torch.load(file, weights_only=True)]
