"""The mathematics of verification: acceptance probability, residual, token rule, block rule.

The draft proposed x_1 … x_γ with x_i ~ q_i. The target gives p_1 … p_{γ+1}, where p_i is its
distribution at the position of x_i. A rule decides how many proposed tokens are accepted and which
distribution the next token is drawn from. With both rules the output has exactly the target's
distribution. They only add, multiply, compare and divide, so they run on floats and on `Fraction`s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from edgespec.core.array_types import Number, Probabilities
from edgespec.core.distribution import Distribution, one_hot
from edgespec.core.draft import Proposal
from edgespec.core.randomness import Randomness
from edgespec.core.vocab_ops import vocab_ops_for
from edgespec.errors import EdgespecError

__all__ = [
    "RULES",
    "Rule",
    "TargetDistributions",
    "VerificationResult",
    "block_rule",
    "coupled_rule",
    "residual",
    "token_rule",
]


@dataclass(frozen=True)
class VerificationResult:
    """How many proposed tokens are accepted, and the distribution of the token after them.

    Attributes:
        accepted: number of accepted tokens.
        evaluated: the accepted tokens and the first rejected one; the acceptance rate is
            accepted / evaluated.
        next: distribution of the correction or of the bonus token.
    """

    accepted: int
    evaluated: int
    next: Distribution


@runtime_checkable
class TargetDistributions(Protocol):
    """p_1 … p_{γ+1}, each computed when it is asked for: after a rejection, no later one is."""

    def __getitem__(self, row: int, /) -> Distribution: ...


Rule = Callable[[Proposal, TargetDistributions, Randomness], VerificationResult]


def residual(p: Distribution, q: Distribution, weight: Number = 1) -> Distribution:
    """Distribution of the token that replaces a rejected one: norm(max(0, weight · p − q)).

    Where p ≤ q everywhere up to rounding, nothing is left. The rejection that asked for it had
    probability zero up to rounding, and p itself is returned. A one-hot p is returned as it is.
    """
    if len(p.tokens) == 1:
        return p
    left = _excess(p, q, weight)
    return Distribution(p.tokens, left) if left.any() else p


def _excess(p: Distribution, q: Distribution, weight: Number) -> Probabilities:
    """max(0, weight · p − q) over the tokens of p: [k]."""
    ops = vocab_ops_for(p.probabilities, q.probabilities)
    return ops.excess(p.probabilities, weight, q.probabilities, p.indices_of(q.tokens))


def _ratio(p: Distribution, q: Distribution, token: int) -> Number:
    """p(token) / q(token)."""
    probability = q.of(token)
    if not probability:
        raise EdgespecError(
            f"the draft proposed token {token}, to which its distribution q gives probability 0; "
            "a drafter must report the distribution that it drew from"
        )
    return p.of(token) / probability


def token_rule(
    proposal: Proposal, p: TargetDistributions, randomness: Randomness
) -> VerificationResult:
    """Leviathan et al. (2022), Algorithm 1: accept x_i with probability min(1, p_i(x_i)/q_i(x_i)).

    The first rejected token is replaced by one from the residual. If none is rejected, the next
    token is a bonus from p_{γ+1}.
    """
    for i, (token, q) in enumerate(zip(proposal.tokens, proposal.q, strict=True)):
        if not randomness.bernoulli(_ratio(p[i], q, token)):
            return VerificationResult(accepted=i, evaluated=i + 1, next=residual(p[i], q))
    drafted = len(proposal.tokens)
    return VerificationResult(accepted=drafted, evaluated=drafted, next=p[drafted])


def block_rule(
    proposal: Proposal, p: TargetDistributions, randomness: Randomness
) -> VerificationResult:
    """Sun et al. (2024, arXiv 2403.10444), block verification: never fewer tokens in expectation.

    w_0 = 1 and w_i = min(w_{i-1} · p_i(x_i)/q_i(x_i), 1). The accepted length is the largest i
    whose own draw η_i is below h_i, where h_γ = w_γ and, for i < γ,
    h_i = Z_i / (Z_i + 1 − w_i) with Z_i = Σ_x max(0, w_i · p_{i+1}(x) − q_{i+1}(x)).
    The draws are independent, so they are made from the last to the first and stop at a success.
    1 − w_i is computed first, so that h_i is exactly 1, and nothing is drawn, where w_i is.
    From a w_i of 0 on all are, and no later row is looked at.
    """
    drafted = len(proposal.tokens)
    w: list[Number] = [1]
    for i, (token, q) in enumerate(zip(proposal.tokens, proposal.q, strict=True)):
        w.append(min(w[i] * _ratio(p[i], q, token), 1))
        if not w[-1]:
            break
    if randomness.bernoulli(w[-1]):
        return VerificationResult(accepted=drafted, evaluated=drafted, next=p[drafted])
    for i in range(len(w) - 2, 0, -1):
        z = _excess(p[i], proposal.q[i], w[i]).sum()
        if z and randomness.bernoulli(z / (z + (1 - w[i]))):
            return VerificationResult(i, i + 1, residual(p[i], proposal.q[i], w[i]))
    return VerificationResult(0, 1, residual(p[0], proposal.q[0]))


def coupled_rule(
    proposal: Proposal, p: TargetDistributions, randomness: Randomness
) -> VerificationResult:
    """Daliri, Musco and Suresh (2024, arXiv 2408.07978): accept what the target chooses, too.

    The target's own choice at each position is made by the noise of that position (`Coupled`), so
    the text is plain decoding's, token by token, whatever was drafted. q is not looked at. The
    first choice that differs is the correction. With a draft that used the same noise, a token is
    accepted with probability at least (1 − TV(p, q)) / (1 + TV(p, q)).
    """
    for i, token in enumerate(proposal.tokens):
        chosen = randomness.categorical(p[i], i)
        if chosen != token:
            return VerificationResult(accepted=i, evaluated=i + 1, next=one_hot(chosen))
    drafted = len(proposal.tokens)
    return VerificationResult(accepted=drafted, evaluated=drafted, next=p[drafted])


RULES: dict[str, Rule] = {"coupled": coupled_rule, "token": token_rule, "block": block_rule}
