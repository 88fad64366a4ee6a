"""What a model writes after prompts, and the distributions the target would have drawn each token from."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path

import torch
from torch import Tensor

from edgespec.artifact.atomic_file import whole_file
from edgespec_distill.data.draft_vocabulary import Vocabulary
from edgespec_distill.data.examples import Example, Text, batches
from edgespec_distill.models.trainable import Distilled

__all__ = [
    "SamplingPlan",
    "cut",
    "generate_with_distributions",
    "read_examples",
    "with_distributions",
    "write_examples",
    "written",
]

KEPT = 64  # of the most probable tokens at each position; the rest has little mass
WRITTEN = 49152  # positions of the texts written at once
POSITIONS = 2048  # scored at once: their distributions over a whole vocabulary must fit in memory
DRAWN = 32  # rows whose distributions over a whole vocabulary stay in a CPU's cache


@dataclass(frozen=True)
class SamplingPlan:
    """How texts are written.

    Attributes:
        length: most tokens of an output.
        ends: tokens that end one.
        temperature: 0 is greedy.
        enough: when this share of the texts written at once has ended, the others are cut: few
            texts cost as much time as many, and one that repeats itself never ends.
    """

    length: int
    ends: Collection[int]
    temperature: float
    enough: float = 1.0


def written(
    writer: Distilled, prompts: Sequence[Sequence[int]], manner: SamplingPlan
) -> list[Text]:
    """An output after each prompt, in the target's tokens, prompts of similar length together."""
    texts = []
    for group in _groups(prompts, manner.length):
        outputs: list[list[int]] = [[] for _ in group]
        for step in _steps(writer, group, manner):
            for row, token in zip(step.rows.tolist(), step.tokens.tolist(), strict=True):
                outputs[row].append(token)
        texts += [Text(prompt, output) for prompt, output in zip(group, outputs, strict=True)]
    return texts


def generate_with_distributions(
    target: Distilled, prompts: Sequence[Sequence[int]], manner: SamplingPlan
) -> tuple[list[Example], list[Tensor]]:
    """As `written` by the target, with the distributions; no second reading.

    Returns:
        Examples, and what the target shows at every position of each but the last: [n, size].
    """
    examples, features = [], []
    for group in _groups(prompts, manner.length):
        steps = []
        shown: list[list[Tensor]] = [[] for _ in group]
        for step in _steps(target, group, manner):
            steps.append((step.rows, step.tokens, *_distribution(step.logits)))
            for row, part in zip(step.rows.tolist(), step.shown, strict=True):
                shown[row].append(part)
        rows, output, tokens, logs = (torch.cat(part) for part in zip(*steps, strict=True))
        for row, prompt in enumerate(group):
            own = rows == row
            examples.append(Example(prompt, output[own].tolist(), tokens[own], logs[own]))
        features += [torch.cat(parts) for parts in shown]
    return examples, features


@torch.no_grad()
def with_distributions(target: Distilled, texts: Sequence[Text]) -> list[Example]:
    """Texts that the draft wrote, with the target's distributions."""
    examples = []
    for group in batches(texts, POSITIONS, random.Random(0)):
        tokens, logs = _distribution(target.logits(group))
        lengths = [len(text.output) for text in group]
        distributions = zip(torch.split(tokens, lengths), torch.split(logs, lengths), strict=True)
        for text, (known, values) in zip(group, distributions, strict=True):
            # A copy: a view would keep the distributions of its whole group in memory and on disk.
            examples.append(Example(text.prompt, text.output, known.clone(), values.clone()))
    return examples


def cut(examples: Iterable[Example], vocabulary: Vocabulary) -> Iterator[Example]:
    """The distributions in the draft's numbering; -inf for tokens that it lacks."""
    inputs = vocabulary.inputs.int()
    for example in examples:
        lacking = ~vocabulary.known(example.tokens)
        logs = example.logs.masked_fill(lacking, -torch.inf)
        yield replace(example, tokens=inputs[example.tokens], logs=logs)


def write_examples(examples: Sequence[Example], file: Path) -> None:
    """Writes a file that appears whole or not at all."""
    rows = [(list(e.prompt), list(e.output), e.tokens, e.logs) for e in examples]
    with whole_file(file) as aside:
        torch.save(rows, aside)


def read_examples(file: Path) -> list[Example]:
    return [Example(*row) for row in torch.load(file, weights_only=True)]


def _groups(prompts: Sequence[Sequence[int]], length: int) -> Iterator[list[Sequence[int]]]:
    """Prompts of similar length, as many as are written at once."""
    order = sorted(prompts, key=len)
    while order:
        count = max(1, WRITTEN // (len(order[-1]) + length))
        yield order[-count:]
        del order[-count:]


@dataclass(frozen=True)
class _Step:
    """One more token of texts that go on.

    Attributes:
        rows: [n] which texts, on the CPU.
        tokens: [n] the target's, on the CPU.
        logits: [n, vocabulary] that they were drawn from, in the writer's numbering.
        shown: [n] what the writer shows of the tokens that it read for them.
    """

    rows: Tensor
    tokens: Tensor
    logits: Tensor
    shown: Sequence[Tensor]


@torch.no_grad()
def _steps(
    writer: Distilled, prompts: Sequence[Sequence[int]], manner: SamplingPlan
) -> Iterator[_Step]:
    """Writes an output after each prompt, a token of each at a time."""
    text = writer.begin(prompts, manner.length)
    rows = torch.arange(len(prompts))
    ends = torch.tensor(sorted(manner.ends))
    should_continue = torch.ones(len(rows), dtype=torch.bool)
    for _ in range(manner.length):
        own = _drawn(text.logits, manner.temperature)
        tokens = writer.vocabulary.outputs[own.cpu()]
        logits = text.logits[should_continue.to(text.logits.device)]
        yield _Step(
            rows[should_continue],
            tokens[should_continue],
            logits,
            list(compress(text.shown, should_continue)),
        )
        should_continue &= ~torch.isin(tokens, ends)
        left = int(should_continue.sum())
        if left <= (1 - manner.enough) * len(prompts):
            return
        if left < 0.75 * len(rows):  # each time, the caches of those left are copied
            kept = should_continue.nonzero()[:, 0]
            text.keep(kept.to(own.device))
            rows, own, should_continue = rows[kept], own[kept.to(own.device)], should_continue[kept]
        text.add(own)


def _drawn(logits: Tensor, temperature: float) -> Tensor:
    """[rows]: the most probable tokens, or drawn ones."""
    if temperature == 0:
        return logits.argmax(-1)
    drawn = []
    for part in torch.split(logits, DRAWN):
        # By the inverse of the distribution function: multinomial draws a number for every token.
        sums = (part.float() / temperature).softmax(-1).cumsum(-1)
        draw = torch.rand(len(part), 1, device=part.device) * sums[:, -1:]
        drawn.append(torch.searchsorted(sums, draw, right=True)[:, 0])
    return torch.cat(drawn).clamp(max=logits.shape[1] - 1)


def _distribution(logits: Tensor) -> tuple[Tensor, Tensor]:
    """`Example.tokens` and `.logs`: the most probable tokens of each row."""
    logits = logits.float()
    best, tokens = logits.topk(min(KEPT, logits.shape[1]))
    return tokens.int().cpu(), (best - logits.logsumexp(-1, keepdim=True)).half().cpu()
