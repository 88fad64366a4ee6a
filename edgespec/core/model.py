"""What the decoding loop asks of a model. A runtime is anything that keeps this promise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

__all__ = [
    "Candidate",
    "CandidateModel",
    "Model",
    "TopTokens",
    "TopTokensModel",
    "candidate_model_of",
]


class Model(Protocol):
    """A model with a cache of fixed capacity that is rewound by giving it a length.

    Attributes:
        vocab_size: width of a row of logits.
        capacity: positions the cache can hold.
        length: positions in the cache now.
        settled: positions in the cache that stay as they are when the text keeps their tokens: all
            of them, but for a draft that had to guess what its target would show it there.
        seconds: time spent computing so far; what is outside it is the loop's own share.
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

    def prefill(self, prompt: Sequence[int], answers: Sequence[range] | None = None) -> int:
        """Starts a new text from a prompt of at least one token.

        Args:
            answers: of a conversation, the positions that were scored while its earlier answers
                were generated. A target scores them so again, and what the cache holds of the
                conversation stays there: the outcome is the same, bit by bit. None starts afresh.

        Returns the *pending* token: the one whose row of logits is the first to be computed (the
        prompt's last token, or the start token of an encoder-decoder). It is not in the cache yet.

        Raises:
            UsageError: the prompt is empty or does not fit the cache.
        """
        ...

    def score(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        """Appends `tokens` to the cache; returns the logits after each: [len(tokens), vocab_size].

        The array is valid until the next call.
        """
        ...

    def rewind(self, length: int) -> None:
        """Forgets every position from `length` on; costs nothing."""
        ...


class Candidate(NamedTuple):
    """Another guess at a place: it stands behind tokens[place] of a call, where tokens[place + 1]
    does, and is no part of the text unless it is taken."""

    place: int
    token: int


@runtime_checkable
class CandidateModel(Model, Protocol):
    """A model that may score candidates of a call's tokens in the same call.

    Attributes:
        branches: it does here, and exactly (`edgespec.artifact.manifest.RowInvariance.candidates`).
    """

    @property
    def scores_candidates(self) -> bool: ...

    def candidate_room(self, count: int) -> int:
        """How many candidates a call of so many tokens may have now; 0 if it does not branch."""
        ...

    def score(
        self, tokens: Sequence[int], candidates: Sequence[Candidate] = ()
    ) -> npt.NDArray[np.float32]:
        """As `Model.score`; the logits behind the candidates come last: [tokens + candidates, vocab].

        The cache grows by the tokens alone.
        """
        ...

    def commit_candidate(self, candidate: int) -> None:
        """Appends a candidate of the latest call, by its number, to a cache that was rewound to the
        tokens before its place."""
        ...


def candidate_model_of(model: Model) -> CandidateModel | None:
    """The model, if it scores candidates here."""
    return model if isinstance(model, CandidateModel) and model.scores_candidates else None


@dataclass(frozen=True)
class TopTokens:
    """The arg-max behind some positions, [positions, best] each; valid until the model's next call.

    Attributes:
        tokens: of each row's largest logits, the largest one's first.
        logits: these.
        probabilities: the tokens' softmax, if asked for.
    """

    tokens: npt.NDArray[np.int64]
    logits: npt.NDArray[np.float32]
    probabilities: npt.NDArray[np.float32] | None


@runtime_checkable
class TopTokensModel(Protocol):
    """A model that need not return the logits where only their arg-max is asked for.

    Attributes:
        chooses: that is faster here.
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
        """Appends `tokens` to the cache; of the logits that `score` would have returned.

        Args:
            candidates: see `CandidateModel.score`.
            skip: leading positions of which nothing is wanted.
            probabilities: name the second and third token, too, and say how probable they are.
        """
        ...
