"""What the decoding loop asks of a model: protocols that any runtime can implement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple, Protocol, cast, runtime_checkable

from edgespec.core.array_types import LogitRows, TopRows, TopTokenIds

__all__ = [
    "BlockModel",
    "Candidate",
    "CandidateModel",
    "Model",
    "TopTokens",
    "TopTokensModel",
    "block_model_of",
    "candidate_model_of",
    "common_length",
]


@runtime_checkable
class Model(Protocol):
    """A model with a cache of fixed capacity, rewound by setting its length.

    Attributes:
        vocab_size: width of a row of logits.
        capacity: positions that the cache can hold.
        length: positions in the cache now.
        valid_length: prefix of the cache that is final as long as the text keeps its tokens. Equal
            to `length`, but for EAGLE heads: they recompute positions that they drafted from
            their own hidden states.
        seconds: time spent computing so far. The rest of a generation's time is the loop's.
    """

    @property
    def vocab_size(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def valid_length(self) -> int: ...
    @property
    def seconds(self) -> float: ...

    def prefill(self, prompt: Sequence[int], assistant_spans: Sequence[range] | None = None) -> int:
        """Starts a new text.

        Args:
            prompt: at least one token id.
            assistant_spans: positions of a conversation's earlier answers, which were scored while
                they were generated. A target scores them the same way again, so what its cache
                holds of the conversation is reused and the result is bitwise the same. None: no
                reuse.

        Returns the *pending* token: its row of logits is the first that the loop needs. It is the
        prompt's last token, or the start token of an encoder-decoder, and not in the cache yet.

        Raises:
            UsageError: the prompt is empty or does not fit the cache.
        """
        ...

    def score(self, tokens: Sequence[int]) -> LogitRows:
        """Appends `tokens` to the cache and returns the logits after each: [tokens, vocab_size].

        The array is valid until the next call.
        """
        ...

    def rewind(self, length: int) -> None:
        """Drops all positions from `length` on. Costs nothing."""
        ...


@runtime_checkable
class BlockModel(Model, Protocol):
    """A draft that computes what it needs for several tokens with one call.

    Attributes:
        block: how many tokens it can draft in a row.
    """

    @property
    def block(self) -> int: ...
    def confidence_after(self, token: int) -> float:
        """The probability that the token after the next, which is `token`, is accepted if that one
        is; 0 where the block ends.

        It does not depend on the token after, so a draft may end by it without changing the text.
        """
        ...


class Candidate(NamedTuple):
    """An alternative to tokens[parent + 1] of a call; it follows tokens[parent].

    It is scored in the same call and becomes part of the text only when it is committed.
    """

    parent: int
    token: int


@runtime_checkable
class CandidateModel(Model, Protocol):
    """A model that can score candidates together with a call's tokens.

    Attributes:
        scores_candidates: whether it does so here, exactly (`RowInvariance.candidates`).
    """

    @property
    def scores_candidates(self) -> bool: ...

    def candidate_room(self, count: int) -> int:
        """How many candidates fit into a call of `count` tokens now; 0 if none can be scored."""
        ...

    def score(self, tokens: Sequence[int], candidates: Sequence[Candidate] = ()) -> LogitRows:
        """As `Model.score`. Logits after the candidates come last: [tokens + candidates, vocab].

        The cache grows by `tokens` only.
        """
        ...

    def commit_candidate(self, number: int) -> None:
        """Appends candidate `number` of the latest call to the cache.

        The cache must have been rewound to end with the candidate's parent.
        """
        ...


def common_length(first: Iterable[object], second: Iterable[object]) -> int:
    """How many leading entries two texts have in common: what a cache of one holds of the other."""
    equal = takewhile(lambda both: both[0] == both[1], zip(first, second, strict=False))
    return sum(1 for _ in equal)


def candidate_model_of(model: Model) -> CandidateModel | None:
    """The model, if it scores candidates here. Asked for every text, so it looks at one attribute:
    checking a protocol takes as long as a tenth of a small model's call."""
    return cast(CandidateModel, model) if getattr(model, "scores_candidates", False) else None


def block_model_of(model: Model) -> BlockModel | None:
    """The model, if it computes several tokens with one call; asked as above."""
    return cast(BlockModel, model) if hasattr(model, "block") else None


@dataclass(frozen=True)
class TopTokens:
    """The best tokens of each row of logits; valid until the model's next call.

    Attributes:
        tokens: [rows, k] token ids, the arg-max first; k is 1 or `TOP_K`.
        logits: [rows, k].
        probabilities: [rows, k], softmax over the whole vocabulary; None unless asked for.
    """

    tokens: TopTokenIds
    logits: TopRows
    probabilities: TopRows | None


@runtime_checkable
class TopTokensModel(Protocol):
    """A model that can return the best tokens of each row instead of all logits.

    Attributes:
        returns_top_tokens: whether that is faster here.
    """

    @property
    def returns_top_tokens(self) -> bool: ...

    def top_tokens(
        self,
        tokens: Sequence[int],
        candidates: Sequence[Candidate] = (),
        *,
        skip: int = 0,
        probabilities: bool = False,
    ) -> TopTokens:
        """Appends `tokens` to the cache and returns the best tokens of the logits after each.

        Args:
            candidates: as in `CandidateModel.score`.
            skip: leading rows that are not needed.
            probabilities: return `TOP_K` tokens and their probabilities, not the arg-max alone.
        """
        ...
