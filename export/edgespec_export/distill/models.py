"""The two kinds of models that are distilled, as the training sees them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from edgespec_export.distill.examples import Text, padded
from edgespec_export.distill.t5 import decode, encode, head
from edgespec_export.distill.vocabulary import Vocabulary

__all__ = ["Causal", "Distilled", "Seq2Seq"]

Rows = Sequence[Sequence[int]]


class Distilled(Protocol):
    """A target or a draft: a transformers model, and the tokens it shares with its partner."""

    model: Any
    vocabulary: Vocabulary

    def logits(self, texts: Sequence[Text]) -> Tensor:
        """[tokens of all outputs, own vocabulary]: one row for each token, of what precedes it."""
        ...

    def generate(
        self,
        prompts: Rows,
        length: int,
        temperature: float,
        ends: Collection[int],
        enough: float = 1.0,
    ) -> list[list[int]]:
        """One output for each prompt, in the target's tokens; temperature 0 is greedy.

        When this share of them (`enough`) has ended, the others are cut: a batch takes as long as
        its longest text, and one that repeats itself never ends.
        """
        ...


class Seq2Seq:
    """T5: the encoder reads the prompt."""

    def __init__(self, model: Any, vocabulary: Vocabulary) -> None:
        self.model = model
        self.vocabulary = vocabulary

    def logits(self, texts: Sequence[Text]) -> Tensor:
        source, read = self._inputs([text.prompt for text in texts])
        outputs, real = self._inputs([text.output for text in texts])
        mask = torch.zeros(read.shape, dtype=self.model.dtype, device=source.device)
        mask = mask.masked_fill(~read, torch.finfo(self.model.dtype).min / 2)[:, None, None]
        start = torch.full_like(outputs[:, :1], self.model.config.decoder_start_token_id)
        previous = torch.cat([start, outputs[:, :-1]], 1)
        hidden = decode(self.model, encode(self.model, source, mask), mask, previous)
        return head(self.model, hidden[real])

    def generate(
        self,
        prompts: Rows,
        length: int,
        temperature: float,
        ends: Collection[int],
        enough: float = 1.0,
    ) -> list[list[int]]:
        ids, real = self._inputs(prompts)
        made = _generate(self, ids, real, length, temperature, ends, enough)
        return [_until_end(row[1:], ends) for row in made]  # behind the start token

    def _inputs(self, rows: Rows) -> tuple[Tensor, Tensor]:
        ids, real = padded(rows)
        return self.vocabulary.inputs[ids].to(self.model.device), real.to(self.model.device)


class Causal:
    """Llama and its kin: prompt and output are one text."""

    def __init__(self, model: Any, vocabulary: Vocabulary) -> None:
        self.model = model
        self.vocabulary = vocabulary

    def logits(self, texts: Sequence[Text]) -> Tensor:
        rows = [[*text.prompt, *text.output[:-1]] for text in texts]
        ids, real = padded(rows)
        wanted = torch.zeros_like(real)
        for row, text in zip(wanted, texts, strict=True):
            first = len(text.prompt) - 1  # the prompt's last token predicts the output's first
            row[first : first + len(text.output)] = True
        device = self.model.device
        # Padding stands behind every text, so a causal model needs no mask.
        hidden = self.model.model(self.vocabulary.inputs[ids].to(device), use_cache=False)
        logits: Tensor = self.model.lm_head(hidden.last_hidden_state[wanted.to(device)])
        return logits

    def generate(
        self,
        prompts: Rows,
        length: int,
        temperature: float,
        ends: Collection[int],
        enough: float = 1.0,
    ) -> list[list[int]]:
        ids, real = padded(prompts, left=True)
        ids, real = (part.to(self.model.device) for part in (self.vocabulary.inputs[ids], real))
        made = _generate(self, ids, real, length, temperature, ends, enough)
        return [_until_end(row[ids.shape[1] :], ends) for row in made]


@torch.no_grad()
def _generate(
    learner: Distilled,
    ids: Tensor,
    real: Tensor,
    length: int,
    temperature: float,
    ends: Collection[int],
    enough: float,
) -> list[list[int]]:
    inputs = learner.vocabulary.inputs
    stops = [int(inputs[end]) for end in ends]

    def most_have_ended(made: Tensor, _scores: Any) -> Tensor:
        ended = torch.isin(made[:, -1], torch.tensor(stops, device=made.device))
        return ended.float().mean().ge(enough).expand(len(made))

    made = learner.model.generate(
        input_ids=ids,
        attention_mask=real.long(),
        max_new_tokens=length,
        do_sample=temperature > 0,
        temperature=temperature or None,
        top_k=0 if temperature > 0 else None,
        top_p=None,
        num_beams=1,
        pad_token_id=stops[0],  # stands behind the end, so that an ended text goes on ending
        eos_token_id=stops,
        stopping_criteria=[most_have_ended],
    )
    rows: list[list[int]] = learner.vocabulary.outputs[made.cpu()].tolist()
    return rows


def _until_end(row: list[int], ends: Collection[int]) -> list[int]:
    for place, token in enumerate(row):
        if token in ends:
            return row[: place + 1]
    return row
