"""Drafts from a smaller model q, sampled one token at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np

from edgespec.artifact.graph_io import TOP_K
from edgespec.core.array_types import LegalRow, Logits
from edgespec.core.distribution import (
    Distribution,
    Processor,
    RefusedLogitsError,
    arg_max_distribution,
)
from edgespec.core.draft import Proposal
from edgespec.core.model import Candidate, Model, TopTokensModel, block_model_of
from edgespec.core.randomness import Coupled, Randomness
from edgespec.core.requests import Requests, request_logits, request_prefill, request_top_tokens
from edgespec.core.scoring import top_tokens_model_of
from edgespec.core.vocab_ops import vocab_ops_for
from edgespec.drafters.vocabulary_map import Vocabulary
from edgespec.grammar.legal_tokens import LegalTokens

__all__ = ["Decision", "ModelDrafter"]

# Says yes or no, given a probability and the number of positions in the verification.
Decision = Callable[[float, int], bool]
# Tokens, each with a guess of the probability that the target takes it.
Guesses = list[tuple[int, float]]


class ModelDrafter:
    """Drafts from a smaller model q, sampled one token at a time.

    It reads a prompt when it is first asked to draft: where drafting does not pay, it never does.

    Args:
        model: the draft model.
        process: turns the draft's logits into q, by the same options as the target's into p.
        vocabulary: maps token ids between target and draft.
        last_tokens: token ids after which no token is drafted (end of text).
        should_continue: given the probability that all tokens drafted so far in this round are
            accepted (of a block draft: and the next one, too), and the number of positions in their
            verification, says whether to draft one more. It does not see the token that comes next,
            so stopping does not change the distribution of the text. None: drafts γ tokens.
        worth_candidate: given the probability that a candidate (an alternative to a drafted token)
            will be the correction, and the same number, says whether to propose it. None: no
            candidates.
        assistant_spans: a conversation's earlier answers, as in `Model.prefill`.
        legal: which tokens may come next; q is masked as p is. In greedy decoding, the draft's top
            tokens are asked about one by one, and it stops where none of them is legal.
    """

    def __init__(
        self,
        model: Model,
        process: Processor,
        vocabulary: Vocabulary,
        last_tokens: Collection[int] = (),
        should_continue: Decision | None = None,
        worth_candidate: Decision | None = None,
        assistant_spans: Sequence[range] | None = None,
        legal: LegalTokens | None = None,
    ) -> None:
        self._model = model
        self._block_model = block_model_of(model)
        self._longest = self._block_model.block if self._block_model else sys.maxsize
        self._needs_probability = should_continue is not None or worth_candidate is not None
        self._top_model = top_tokens_model_of(model, process)
        if not vocabulary.covers(model.vocab_size):
            self._top_model = None  # its best token may be none of the target's
        self._process = process
        self._legal = legal
        self._vocabulary = vocabulary
        self._last_tokens = frozenset(last_tokens)
        self._should_continue = should_continue
        self._worth_candidate = worth_candidate
        self._assistant_spans = assistant_spans
        self._unread_prompt: Sequence[int] | None = None
        # All token ids from here on are the draft's, and after the prompt.
        self._start = 0  # number of the prompt's positions in the cache
        self._sequence: list[int] = []
        self._read = 0  # how many of the target's tokens are in `_sequence`
        self._cached: list[int] = []
        self._confirmed = 0  # how many of `_cached` are known to be in the text

    @property
    def seconds(self) -> float:
        return self._model.seconds

    def begin(self, prompt: Sequence[int]) -> None:
        self._unread_prompt = prompt
        self._sequence, self._read = [], 0
        self._cached, self._confirmed = [], 0

    def propose(
        self, sequence: Sequence[int], gamma: int, randomness: Randomness
    ) -> Requests[Proposal]:
        if self._unread_prompt is not None:
            prompt = self._vocabulary.prompt(self._unread_prompt, self._assistant_spans)
            yield from request_prefill(self._model, *prompt)
            self._start = self._model.length
            self._unread_prompt = None
        self._sequence += self._vocabulary.to_draft_ids(sequence[self._read :])
        self._read = len(sequence)
        self._rewind_to_common_prefix()
        unread = self._sequence[self._confirmed :]
        room = self._model.capacity - self._model.length - len(unread) + 1
        most = min(gamma, room, self._longest)
        tokens: list[int] = []
        q: list[Distribution] = []
        candidates: list[Candidate] = []
        probability = 1.0  # that all of `tokens` are accepted, as the draft sees it
        while len(tokens) < most:
            generated = [*sequence[1:], *tokens] if self._legal is not None else []
            allowed = self._allowed(generated)
            if allowed is not None and not allowed.any():
                break  # the draft has none of the legal tokens, whatever it would predict
            try:
                prediction = yield from self._predict(unread, allowed, generated)
            except RefusedLogitsError:
                prediction = None  # the draft's, on which no text depends
            self._cached += unread
            if prediction is None:
                break
            (token, chosen), *others = self._guesses(prediction, randomness, len(tokens))
            tokens.append(token)
            q.append(prediction.q)
            rows = 1 + len(tokens) + len(candidates)
            if self._worth_candidate is not None:
                for other, chosen_instead in others:
                    if not self._worth_candidate(probability * chosen_instead, rows):
                        break  # the others are less probable still
                    if self._legal and not self._legal.allows(other, [*sequence[1:], *tokens[:-1]]):
                        continue
                    candidates.append(Candidate(len(tokens) - 1, other))
                    rows += 1
            if token in self._last_tokens:
                break
            probability *= chosen
            unread = self._vocabulary.to_draft_ids([token])
            if self._should_continue is not None:
                likely = probability * self._confidence_after(unread[-1])
                if not self._should_continue(likely, rows):
                    break
        return Proposal(tokens, q, candidates)

    def _confidence_after(self, token: int) -> float:
        """What a block draft says of the token after this one; 1 of others."""
        return 1.0 if self._block_model is None else self._block_model.confidence_after(token)

    def _allowed(self, generated: Sequence[int]) -> LegalRow | None:
        """Which of the draft's tokens ([draft vocabulary]) may follow these of the target; None if
        all may, or if its top tokens are asked about one by one."""
        if self._legal is None or self._top_model is not None:
            return None
        allowed = self._legal.legal(generated)
        return None if allowed is None else self._vocabulary.legal(allowed, self._model.vocab_size)

    def _predict(
        self, ids: Sequence[int], allowed: LegalRow | None, generated: Sequence[int]
    ) -> Requests[_Prediction | None]:
        """Asks for tokens of the draft to be scored, and predicts what follows. None: nothing that
        is legal after the generated tokens."""
        if self._top_model is None:
            return (yield from self._from_logits(ids, allowed))
        return (yield from self._from_top_tokens(self._top_model, ids, generated))

    def _from_logits(self, ids: Sequence[int], allowed: LegalRow | None) -> Requests[_Prediction]:
        logits = (yield from request_logits(self._model, ids))[-1]
        if allowed is not None:
            logits = np.where(allowed, logits, logits.dtype.type(-np.inf))
        q = self._vocabulary.distribution(self._process, logits)

        def best() -> Guesses:
            (_, probability), *others = _best(logits)
            if not self._vocabulary.covers(self._model.vocab_size):
                others = []
            shares = [share for _, share in others]
            ids = self._vocabulary.to_target_ids([token for token, _ in others]) if others else []
            return [(int(q.tokens[0]), probability), *zip(ids, shares, strict=True)]

        return _Prediction(q, best)

    def _from_top_tokens(
        self, model: TopTokensModel, ids: Sequence[int], generated: Sequence[int]
    ) -> Requests[_Prediction | None]:
        several = self._needs_probability or self._legal is not None
        top = yield from request_top_tokens(model, ids, skip=len(ids) - 1, probabilities=several)
        tokens = self._vocabulary.to_target_ids(top.tokens[0].tolist())
        probabilities = [1.0] if top.probabilities is None else top.probabilities[0].tolist()
        guesses = list(zip(tokens, probabilities, strict=True))
        if self._legal is not None:
            guesses = _from_first_legal(guesses, self._legal, generated)
        if not guesses:
            return None
        best = guesses[0][0]
        logit = top.logits.item(list(tokens).index(best))
        return _Prediction(arg_max_distribution(best, logit), lambda: guesses)

    def _guesses(self, prediction: _Prediction, randomness: Randomness, ahead: int) -> Guesses:
        """The drafted token, drawn from q, then alternatives to it, the most probable first."""
        q = prediction.q
        if not self._needs_probability:
            return [(randomness.categorical(q, ahead), 1.0)]
        if len(q.tokens) == 1:
            return prediction.best()
        if isinstance(randomness, Coupled):
            return randomness.ranked(q, ahead)[:TOP_K]
        token = randomness.categorical(q, ahead)
        return [(token, float(q.of(token)))]

    def _rewind_to_common_prefix(self) -> None:
        """Drops rejected tokens from the cache.

        After full acceptance the cache lacks the draft's own last token. Scoring everything after
        the common prefix covers both cases.
        """
        valid_length = self._model.valid_length - self._start
        # The last token is scored anew.
        most = min(len(self._cached), len(self._sequence) - 1, valid_length)
        while (
            self._confirmed < most
            and self._cached[self._confirmed] == self._sequence[self._confirmed]
        ):
            self._confirmed += 1
        del self._cached[self._confirmed :]
        self._model.rewind(self._start + self._confirmed)


class _Prediction(NamedTuple):
    """The draft's prediction of the next token, in token ids of the target.

    Attributes:
        q: distribution of the next token.
        best: where q leaves one token, that token and the next best ones, with the draft's
            probabilities at temperature 1.
    """

    q: Distribution
    best: Callable[[], Guesses]


def _from_first_legal(guesses: Guesses, legal: LegalTokens, generated: Sequence[int]) -> Guesses:
    """The guesses from the first legal one on; their probabilities without what those before it
    had."""
    illegal = 0.0
    for first, (token, share) in enumerate(guesses):
        if legal.allows(token, generated):
            left = max(1.0 - illegal, share, sys.float_info.min)
            return [(other, chosen / left) for other, chosen in guesses[first:]]
        illegal += share
    return []


def _best(logits: Logits) -> Guesses:
    """The `TOP_K` most probable tokens (ids of the draft) at temperature 1, with probabilities."""
    weights = np.empty_like(logits)
    ops = vocab_ops_for(logits)
    total = ops.exp_weights(logits, float(logits.max()), 1.0, weights)
    best = []
    for _ in range(min(TOP_K, len(weights))):
        token = ops.arg_max(weights)
        best.append((token, float(weights[token]) / total))
        weights[token] = -1
    return best
