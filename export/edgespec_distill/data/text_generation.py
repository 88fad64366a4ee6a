"""Texts that a model generates after prompts, with the target's distributions in them."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from edgespec_distill.data.examples import Example, Text, batches, similar_lengths
from edgespec_distill.models.trainable import DecodeState, GeneratingModel
from edgespec_distill.training.memory import return_freed_memory

__all__ = [
    "GenerationSettings",
    "add_distributions",
    "generate_texts",
    "generate_with_distributions",
    "top_tokens",
]

TOP_TOKENS = 64  # most probable tokens stored for each position; the others have little mass
SCORED_POSITIONS = 2048  # at once: their full distributions must fit in memory
DRAWN_ROWS = 32  # at once: their full distributions must fit in the CPU's cache


@dataclass(frozen=True)
class GenerationSettings:
    """How texts are generated.

    Attributes:
        max_new_tokens: of each output.
        eos_token_ids: token ids that end an output.
        temperature: 0 is greedy.
        finished_share: when this share of the texts generated at once has ended, the others are
            cut. A few texts take as much time as many, and one that repeats itself never ends.
        seed: of the tokens that are drawn.
    """

    max_new_tokens: int
    eos_token_ids: Collection[int]
    temperature: float
    finished_share: float = 1.0
    seed: int = 0


def generate_texts(
    model: GeneratingModel, prompts: Sequence[Sequence[int]], settings: GenerationSettings
) -> list[Text]:
    """An output after each prompt, in the target's token ids, sorted by the prompts' lengths."""
    texts = []
    generator = torch.Generator().manual_seed(settings.seed)
    for group in similar_lengths(prompts, settings.max_new_tokens, model.positions_at_once):
        outputs: list[list[int]] = [[] for _ in group]
        for step in _steps(model, _begun(model, group, settings), len(group), settings, generator):
            for row, token in zip(step.rows.tolist(), step.tokens.tolist(), strict=True):
                outputs[row].append(token)
        return_freed_memory()
        texts += [Text(prompt, output) for prompt, output in zip(group, outputs, strict=True)]
    return texts


def generate_with_distributions(
    target: GeneratingModel, prompts: Sequence[Sequence[int]], settings: GenerationSettings
) -> Iterator[tuple[Example, Tensor | None]]:
    """As `generate_texts` by the target, with its distributions, which cost no second pass.

    Yields:
        Examples with the target's features, as `DecodeState.features` has them.
    """
    generator = torch.Generator().manual_seed(settings.seed)
    for group in similar_lengths(prompts, settings.max_new_tokens, target.positions_at_once):
        state = _begun(target, group, settings)
        steps = [
            (step.rows, step.tokens, *top_tokens(step.logits))
            for step in _steps(target, state, len(group), settings, generator)
        ]
        rows, output, tokens, log_probs = (torch.cat(part) for part in zip(*steps, strict=True))
        for row, prompt in enumerate(group):
            own = rows == row
            example = Example(prompt, output[own].tolist(), tokens[own], log_probs[own])
            yield example, state.features(row, len(example.output))
        del state  # before the next group has its caches
        return_freed_memory()


@torch.no_grad()
def add_distributions(target: GeneratingModel, texts: Sequence[Text]) -> list[Example]:
    """Texts that the draft generated, with the target's distributions."""
    examples = []
    for group in batches(texts, SCORED_POSITIONS, random.Random(0)):
        tokens, log_probs = top_tokens(target.logits(group))
        lengths = [len(text.output) for text in group]
        parts = zip(torch.split(tokens, lengths), torch.split(log_probs, lengths), strict=True)
        for text, (ids, values) in zip(group, parts, strict=True):
            # A copy: a view would keep the distributions of the whole group in memory and on disk.
            examples.append(Example(text.prompt, text.output, ids.clone(), values.clone()))
    return examples


@dataclass(frozen=True)
class _Step:
    """One more token for each text that has not ended.

    Attributes:
        rows: [n] indices of the texts, on the CPU.
        tokens: [n] the target's token ids, on the CPU.
        logits: [n, vocabulary] that they were drawn from, in the model's own token ids.
    """

    rows: Tensor
    tokens: Tensor
    logits: Tensor


@torch.no_grad()
def _begun(
    model: GeneratingModel, prompts: Sequence[Sequence[int]], settings: GenerationSettings
) -> DecodeState:
    return model.begin(prompts, settings.max_new_tokens)


@torch.no_grad()
def _steps(
    model: GeneratingModel,
    state: DecodeState,
    count: int,
    settings: GenerationSettings,
    generator: torch.Generator,
) -> Iterator[_Step]:
    """Generates an output of each of `count` texts that are begun, one token of all at a time."""
    rows = torch.arange(count)
    ends = torch.tensor(sorted(settings.eos_token_ids))
    unfinished = torch.ones(len(rows), dtype=torch.bool)
    for _ in range(settings.max_new_tokens):
        own = _draw(state.logits, settings.temperature, generator)
        tokens = model.vocabulary.outputs[own.cpu()]
        logits = state.logits[unfinished.to(state.logits.device)]
        yield _Step(rows[unfinished], tokens[unfinished], logits)
        unfinished &= ~torch.isin(tokens, ends)
        left = int(unfinished.sum())
        if left <= (1 - settings.finished_share) * count:
            return
        if left < 0.75 * len(rows):  # not at every end of a text: it copies the caches
            remaining = unfinished.nonzero()[:, 0]
            on_device = remaining.to(own.device)
            state.keep_rows(on_device)
            rows, own, unfinished = rows[remaining], own[on_device], unfinished[remaining]
        state.add(own)


def _draw(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """[rows] token ids: the most probable ones at temperature 0, otherwise drawn.

    Args:
        generator: on the CPU, so that a GPU draws the same numbers.
    """
    if temperature == 0:
        return logits.argmax(-1)
    drawn = []
    for part in torch.split(logits, DRAWN_ROWS):
        # By the inverse of the distribution function: multinomial draws a number for every token.
        sums = (part.float() / temperature).softmax(-1).cumsum(-1)
        draw = torch.rand(len(part), 1, generator=generator).to(part.device) * sums[:, -1:]
        drawn.append(torch.searchsorted(sums, draw, right=True)[:, 0])
    return torch.cat(drawn).clamp(max=logits.shape[1] - 1)


def top_tokens(logits: Tensor) -> tuple[Tensor, Tensor]:
    """`Example.tokens` and `.log_probs`: the most probable tokens of each row."""
    logits = logits.float()
    best, tokens = logits.topk(min(TOP_TOKENS, logits.shape[1]))
    return tokens.int().cpu(), (best - logits.logsumexp(-1, keepdim=True)).half().cpu()
