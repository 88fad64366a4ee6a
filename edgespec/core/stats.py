"""Counts and times of generations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from edgespec.core.decode import Round

__all__ = ["Rate", "RoundTime", "Stats", "counted"]


class RoundTime(NamedTuple):
    """The time of one round: `seconds` in all, `draft_seconds` of them in the draft."""

    drafted: int
    seconds: float
    draft_seconds: float


@dataclass
class Stats:
    """Counts and times of one generation.

    Attributes:
        tokens: emitted tokens.
        target_calls: verifications (or plain steps); the prompt is not counted.
        drafted, accepted: proposed tokens, and those that were emitted.
        evaluated: proposed tokens that the rule looked at; it looks at none after a rejection.
        evaluated_at, accepted_at: the same counts for each index in the draft.
        accepted_runs: accepted_runs[n] rounds had n accepted tokens.
        candidates, committed: alternatives to drafted tokens that were scored, and those that were
            emitted as corrections.
        seconds: of the whole generation, prompt included.
        first_token_seconds: up to the first emitted token, prompt included.
        first_tokens: number of tokens that the first round emitted.
        target_seconds, draft_seconds: inside the models, prompt included.
        rounds: time of each round; the first includes the prompt.
    """

    tokens: int = 0
    target_calls: int = 0
    drafted: int = 0
    evaluated: int = 0
    accepted: int = 0
    evaluated_at: list[int] = field(default_factory=list)
    accepted_at: list[int] = field(default_factory=list)
    accepted_runs: list[int] = field(default_factory=list)
    candidates: int = 0
    committed: int = 0
    seconds: float = 0.0
    first_token_seconds: float = 0.0
    first_tokens: int = 0
    target_seconds: float = 0.0
    draft_seconds: float = 0.0
    rounds: list[RoundTime] = field(default_factory=list)

    def count(self, round_: Round, seconds: float, in_target: float, in_draft: float) -> None:
        """Adds one round and its times: in all, in the target and in the draft."""
        self.rounds.append(RoundTime(round_.drafted, seconds, in_draft))
        self.seconds += seconds
        self.target_seconds += in_target
        self.draft_seconds += in_draft
        self.tokens += len(round_.tokens)
        self.target_calls += 1
        self.drafted += round_.drafted
        self.evaluated += round_.evaluated
        self.accepted += round_.accepted
        self.candidates += round_.candidates
        self.committed += round_.committed
        _count_up_to(self.evaluated_at, round_.evaluated)
        _count_up_to(self.accepted_at, round_.accepted)
        self.accepted_runs += [0] * (round_.accepted + 1 - len(self.accepted_runs))
        self.accepted_runs[round_.accepted] += 1

    @property
    def acceptance_rate(self) -> float:
        """α: accepted among evaluated tokens; 0 when nothing was drafted."""
        return self.accepted / self.evaluated if self.evaluated else 0.0

    @property
    def acceptance_by_position(self) -> list[float]:
        """α of the first, second, … token of a draft."""
        accepted = self.accepted_at + [0] * (len(self.evaluated_at) - len(self.accepted_at))
        return [a / e for a, e in zip(accepted, self.evaluated_at, strict=True)]

    @property
    def tokens_per_target_call(self) -> float:
        return self.tokens / self.target_calls if self.target_calls else 0.0

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def decode_tokens_per_second(self) -> float:
        """Tokens per second after the first round, so without the prompt."""
        seconds = self.seconds - self.first_token_seconds
        return (self.tokens - self.first_tokens) / seconds if seconds > 0 else 0.0

    @property
    def loop_share(self) -> float:
        """Share of the time that is spent outside the two models."""
        inside = self.target_seconds + self.draft_seconds
        return max(0.0, 1 - inside / self.seconds) if self.seconds else 0.0

    def to_dict(self) -> dict[str, object]:
        """All counts, times and rates but the single rounds, for JSON."""
        derived = (
            "acceptance_rate",
            "acceptance_by_position",
            "tokens_per_target_call",
            "tokens_per_second",
            "decode_tokens_per_second",
            "loop_share",
        )
        own = {name: value for name, value in vars(self).items() if name != "rounds"}
        return {**own, **{name: getattr(self, name) for name in derived}}


def counted(
    rounds: Iterator[Round],
    stats: Stats,
    model_seconds: Callable[[], tuple[float, float]],
    shared_since: float | None = None,
) -> Iterator[Round]:
    """Passes rounds on and adds each to `stats`; the consumer's own time is not counted.

    Args:
        model_seconds: returns the time spent so far in the target and in the draft.
        shared_since: when the sequence began (`time.perf_counter`), if it shares calls with others:
            its rounds are computed while the consumer has its turn, whose time is counted then.
    """
    target, draft = model_seconds()
    began = time.perf_counter() if shared_since is None else shared_since
    for round_ in rounds:
        ended = time.perf_counter()
        now = model_seconds()
        stats.count(round_, ended - began, now[0] - target, now[1] - draft)
        target, draft = now
        if not stats.first_tokens:
            stats.first_tokens, stats.first_token_seconds = stats.tokens, stats.seconds
        yield round_
        began = time.perf_counter() if shared_since is None else ended


@dataclass
class Rate:
    """Speed of several generations together, each without its prompt and first round."""

    tokens: int = 0
    seconds: float = 0.0
    all_tokens: int = 0
    all_seconds: float = 0.0
    model_seconds: float = 0.0
    target_calls: int = 0
    evaluated: int = 0
    accepted: int = 0

    def add(self, stats: Stats) -> None:
        self.tokens += stats.tokens - stats.first_tokens
        self.seconds += stats.seconds - stats.first_token_seconds
        self.all_tokens += stats.tokens
        self.all_seconds += stats.seconds
        self.model_seconds += stats.target_seconds + stats.draft_seconds
        self.target_calls += stats.target_calls
        self.evaluated += stats.evaluated
        self.accepted += stats.accepted

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0

    def over(self, other: Rate) -> float:
        """Ratio of speeds; 1 if all texts have a single round: there is nothing to compare."""
        if not (self.tokens_per_second and other.tokens_per_second):
            return 1.0
        return self.tokens_per_second / other.tokens_per_second

    @property
    def tokens_per_target_call(self) -> float:
        return self.all_tokens / self.target_calls if self.target_calls else 0.0

    @property
    def acceptance_rate(self) -> float:
        return self.accepted / self.evaluated if self.evaluated else 0.0

    @property
    def loop_share(self) -> float:
        return 1 - self.model_seconds / self.all_seconds if self.all_seconds else 0.0


def _count_up_to(counts: list[int], length: int) -> None:
    counts += [0] * (length - len(counts))
    for index in range(length):
        counts[index] += 1
