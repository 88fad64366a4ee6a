"""The two kinds of models that are distilled, as the training sees them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional
from transformers import EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from edgespec_distill.data.draft_vocabulary import Vocabulary
from edgespec_distill.data.examples import Text, padded
from edgespec_distill.models import (
    eagle_start,
)
from edgespec_distill.models import (
    eagle_student as eagle,
)
from edgespec_distill.models import (
    llama_forward as llama,
)
from edgespec_distill.models import (
    t5_forward as t5,
)

__all__ = ["Causal", "Distilled", "EagleStudent", "Growing", "Seq2Seq", "Student"]

PROMPTS = 4096  # padded positions read at once, before texts begin

Rows = Sequence[Sequence[int]]


class Features(Protocol):
    """What a target shows of texts: see `features.Features`."""

    def __getitem__(self, text: Text, /) -> Tensor: ...


class Growing(Protocol):
    """Texts that a model is writing, a row each.

    Attributes:
        logits: [rows, own vocabulary] of the next token.
        shown: [rows] of [tokens, size]: what the model shows of the tokens that it read last, the
            prompt or one more.
    """

    logits: Tensor
    shown: Sequence[Tensor]

    def add(self, tokens: Tensor) -> None:
        """Goes on with these tokens [rows], in the model's own numbering."""
        ...

    def keep(self, rows: Tensor) -> None:
        """Forgets all but these rows."""
        ...


class Student(ABC):
    """A model that is trained or compared, and the tokens it shares with its partner."""

    def __init__(self, model: Any, vocabulary: Vocabulary) -> None:
        self.model = model
        self.vocabulary = vocabulary

    @abstractmethod
    def guesses(self, texts: Sequence[Text]) -> Iterator[Tensor]:
        """Hidden states in front of the head: [tokens of all outputs, width], one row for each
        token, of what precedes it. Of a model that also guesses on from its guesses, these follow,
        as many as are asked for: the n-th (from 0) lack the first n tokens of each output."""

    def logits(self, texts: Sequence[Text]) -> Tensor:
        """[tokens of all outputs, own vocabulary] of the first guesses."""
        return functional.linear(next(self.guesses(texts)), self.head)

    @property
    def head(self) -> Tensor:
        """[own vocabulary, width]."""
        weight: Tensor = self.model.lm_head.weight
        return weight

    def _inputs(self, rows: Rows) -> tuple[Tensor, Tensor]:
        ids, real = padded(rows)
        return self.vocabulary.inputs[ids].to(self.model.device), real.to(self.model.device)


class Distilled(Student):
    """A target or a draft that writes by itself: a transformers model."""

    @abstractmethod
    def begin(self, prompts: Rows, length: int) -> Growing:
        """Starts an output of at most `length` tokens after each prompt."""

    @abstractmethod
    def draft(self, model: Any, vocabulary: Vocabulary) -> Distilled:
        """A model of its own kind with some of its tokens."""


class Seq2Seq(Distilled):
    """T5: the encoder reads the prompt.

    Args:
        start_token: what the decoder reads first, in the model's own numbering; a config need not
            name it.
    """

    def __init__(self, model: Any, vocabulary: Vocabulary, start_token: int) -> None:
        super().__init__(model, vocabulary)
        self._start = start_token

    def draft(self, model: Any, vocabulary: Vocabulary) -> Seq2Seq:
        return Seq2Seq(model, vocabulary, int(vocabulary.inputs[self._start]))

    def guesses(self, texts: Sequence[Text]) -> Iterator[Tensor]:
        source, read = self._inputs([text.prompt for text in texts])
        outputs, real = self._inputs([text.output for text in texts])
        mask = torch.zeros(read.shape, dtype=self.model.dtype, device=source.device)
        mask = mask.masked_fill(~read, torch.finfo(self.model.dtype).min / 2)[:, None, None]
        start = torch.full_like(outputs[:, :1], self._start)
        previous = torch.cat([start, outputs[:, :-1]], 1)
        hidden = t5.decode(self.model, t5.encode(self.model, source, mask), mask, previous)
        yield t5.scaled(self.model, hidden[real])

    def begin(self, prompts: Rows, length: int) -> Growing:
        return _GrowingTranslation(self.model, *self._inputs(prompts), self._start)


class _GrowingTranslation:
    def __init__(self, model: Any, source: Tensor, read: Tensor, start: int) -> None:
        self._model, self._read = model, read
        self._encoded = model.encoder(input_ids=source, attention_mask=read).last_hidden_state
        self._cache: EncoderDecoderCache | None = None
        self.add(torch.full((len(source),), start).to(source))

    def add(self, tokens: Tensor) -> None:
        found = self._model(
            encoder_outputs=BaseModelOutput(last_hidden_state=self._encoded),
            attention_mask=self._read,
            decoder_input_ids=tokens[:, None],
            past_key_values=self._cache,
            use_cache=True,
        )
        self.logits, self._cache = found.logits[:, -1], found.past_key_values
        self.shown = self.logits.new_empty(len(tokens), 0, 0).unbind()

    def keep(self, rows: Tensor) -> None:
        assert self._cache is not None
        self._cache.batch_select_indices(rows)
        self._encoded, self._read = self._encoded[rows], self._read[rows]


class Causal(Distilled):
    """Llama and its kin: prompt and output are one text.

    Attributes:
        shows: the layers, counted from 1, whose outputs a draft reads.
    """

    shows: Sequence[int] = ()

    def guesses(self, texts: Sequence[Text]) -> Iterator[Tensor]:
        ids, _ = self._inputs(_read(texts))
        hidden, _ = llama.hidden_states(self.model, ids)
        yield hidden[_predicting(texts, ids)]

    def begin(self, prompts: Rows, length: int) -> Growing:
        return _GrowingText(self.model, *self._inputs(prompts), length, self.shows)

    def draft(self, model: Any, vocabulary: Vocabulary) -> Causal:
        return Causal(model, vocabulary)

    @torch.no_grad()
    def features(self, texts: Sequence[Text]) -> list[Tensor]:
        """What it shows at every position of each text but the last: [n, layers · width]."""
        ids, real = self._inputs(_read(texts))
        _, shown = llama.hidden_states(self.model, ids, shows=self.shows)
        return list(torch.split(shown[real], [len(text) - 1 for text in texts]))


class EagleStudent(Student):
    """A draft that reads its target.

    Args:
        features: what the target shows of the texts that the draft is trained on and compared on.
    """

    def __init__(self, model: Any, vocabulary: Vocabulary, features: Features) -> None:
        super().__init__(model, vocabulary)
        self._features = features

    def begin(self, texts: Sequence[Text]) -> None:
        """Takes from these texts where its training starts: see `eagle_start`."""
        device, inputs = self.model.device, self.vocabulary.inputs
        ids = (inputs[torch.tensor(row)].to(device) for row in _read(texts))
        shown = (self._features[text].to(device) for text in texts)
        eagle_start.begin(self.model, zip(ids, shown, strict=True))

    def guesses(self, texts: Sequence[Text]) -> Iterator[Tensor]:
        ids, real = self._inputs(_read(texts))
        shown = torch.cat([self._features[text] for text in texts]).to(ids.device)
        features = torch.zeros(*ids.shape, shown.shape[1], dtype=shown.dtype, device=ids.device)
        features[real] = shown
        found = eagle.hidden_states(self.model, ids, features)
        for known, hidden in enumerate(found):
            yield hidden[_predicting(texts, ids, known)]


def _read(texts: Sequence[Text]) -> list[list[int]]:
    """What a decoder-only model reads of texts: all but their last tokens."""
    return [[*text.prompt, *text.output[:-1]] for text in texts]


def _predicting(texts: Sequence[Text], ids: Tensor, known: int = 0) -> Tensor:
    """The places in `ids` that predict the outputs, without their first `known` tokens."""
    wanted = torch.zeros(ids.shape, dtype=torch.bool)
    for row, text in zip(wanted, texts, strict=True):
        first = len(text.prompt) - 1  # the prompt's last token predicts the output's first
        row[first + known : first + len(text.output)] = True
    return wanted.to(ids.device)


class _GrowingText:
    def __init__(
        self, model: Any, ids: Tensor, real: Tensor, length: int, shows: Sequence[int]
    ) -> None:
        self._model, self._lengths, self._shows = model, real.sum(1), shows
        self._cache = llama.Cache.empty(model, len(ids), ids.shape[1] + length)
        logits, prompts = [], []
        at_once = max(1, PROMPTS // ids.shape[1])
        for first in range(0, len(ids), at_once):
            rows = slice(first, first + at_once)
            found, shown = self._read(ids[rows], self._lengths[rows], self._cache[rows])
            logits.append(found)
            prompts += shown
        self.logits: Tensor = torch.cat(logits)
        self.shown: Sequence[Tensor] = prompts

    def _read(
        self, ids: Tensor, lengths: Tensor, cache: llama.Cache
    ) -> tuple[Tensor, list[Tensor]]:
        """The logits behind some prompts and what is shown of them."""
        ids = ids[:, : lengths.max()]
        hidden, shown = llama.hidden_states(self._model, ids, cache=cache, shows=self._shows)
        last = hidden[torch.arange(len(ids), device=ids.device), lengths - 1]
        parts = zip(shown.cpu(), lengths.tolist(), strict=True)
        return self._model.lm_head(last), [part[:length] for part, length in parts]

    def add(self, tokens: Tensor) -> None:
        hidden, shown = llama.hidden_states(
            self._model, tokens[:, None], self._lengths, self._cache, self._shows
        )
        self._lengths = self._lengths + 1
        self.logits = self._model.lm_head(hidden[:, 0])
        self.shown = list(shown.cpu())

    def keep(self, rows: Tensor) -> None:
        self._cache = self._cache[rows]
        self._lengths = self._lengths[rows]
