"""Sequences that share the calls of a table of distributions."""

from __future__ import annotations

import numpy as np

from edgespec.core.requests import Read, Score


class TableSequence:
    """A sequence whose tokens lie in a part of its sequences' buffer."""

    vocab_size = 3
    capacity = 8
    seconds = 0.0
    scores_candidates = False

    def __init__(self, batch, start):
        self.batch = batch
        self.start = start
        self.length = 0
        self.unread = ()

    @property
    def computed_length(self):
        return self.length

    @property
    def valid_length(self):
        return self.length

    def reading(self, prompt, assistant_spans=None):
        self.length = 0
        while self.length < len(prompt) - 1:
            yield Read(self, prompt[self.length : len(prompt) - 1][:1])
        return prompt[-1]

    def position_keys(self, prompt):
        return prompt

    def kept(self, keys):
        return 0

    def promised(self, keys):
        return 0

    def rewind(self, length):
        self.length = length


class TableBatch:
    """Two sequences of a table of distributions; each call's rows read the shared buffer."""

    seconds = 0.0

    def __init__(self, distribution):
        self.buffer = {}
        self.calls = self.rows = 0
        self.together = 0  # calls of several sequences
        self.sequences = [TableSequence(self, start) for start in (0, 100)]
        self._distribution = distribution

    def context(self, start, position):
        return tuple(self.buffer[start + index] for index in range(position + 1))

    def compute(self, requests):
        self.calls += 1
        self.together += len(requests) > 1
        assistant_spans = []
        for request in requests:  # all rows are written before any is read
            for index, token in enumerate(request.tokens):
                self.buffer[request.model.start + request.model.length + index] = token
        for request in requests:
            sequence, count = request.model, len(request.tokens)
            rows = [
                self._distribution(self.context(sequence.start, sequence.length + index))
                for index in range(count)
            ]
            sequence.length += count
            assistant_spans.append(
                np.array(rows, dtype=object) if isinstance(request, Score) else None
            )
        return assistant_spans
