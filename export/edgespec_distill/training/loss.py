"""Losses: distances of the draft's distributions q from the target's distributions p.

Both are in DistillSpec (Zhou et al. 2023, arXiv 2310.08461, Table 1). The acceptance rate is 1
minus the total variation (Leviathan, Kalman and Matias 2022, Corollary 3.6). But the gradient of
the total variation vanishes where q is far from p, and there the forward KL trains faster.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["LOSSES", "forward_kl", "mixed", "overlap", "shared_mass", "total_variation"]


def forward_kl(p_logs: Tensor, tokens: Tensor, q_logits: Tensor) -> Tensor:
    """Mean Σ p log(p/q), over those of the target's most probable tokens that the draft has.

    A position where these tokens have little of p's mass has little weight.

    Args:
        p_logs: [n, k] log-probabilities of the target; -inf for tokens that the draft lacks.
        tokens: [n, k] their token ids in the draft's vocabulary.
        q_logits: [n, vocabulary] of the draft.
    """
    q_logs = q_logits.gather(1, tokens) - q_logits.logsumexp(1, keepdim=True)
    terms = p_logs.exp() * (p_logs - q_logs)
    return torch.where(p_logs > -torch.inf, terms, 0).sum(1).mean()


def total_variation(p_logs: Tensor, tokens: Tensor, q_logits: Tensor) -> Tensor:
    """Mean 1 - Σ min(p, q), over the target's most probable tokens; arguments as `forward_kl`."""
    return 1 - shared_mass(p_logs, tokens, q_logits).mean()


def shared_mass(p_logs: Tensor, tokens: Tensor, q_logits: Tensor) -> Tensor:
    """Σ min(p, q) over the target's most probable tokens, [n]; arguments as `forward_kl`."""
    q = q_logits.softmax(1).gather(1, tokens)
    return torch.minimum(p_logs.exp(), q).sum(1)


def mixed(p_logs: Tensor, tokens: Tensor, q_logits: Tensor) -> Tensor:
    """.9 of the total variation and .1 of the forward KL, which moves q where it is far from p."""
    far, near = (loss(p_logs, tokens, q_logits) for loss in (forward_kl, total_variation))
    return 0.1 * far + 0.9 * near


def overlap(p: Tensor, q_logits: Tensor) -> Tensor:
    """The paper's α at temperature 1, Σ min(p, q): [n].

    Args:
        p: [n, vocabulary] probabilities of the target for the draft's tokens.
        q_logits: [n, vocabulary] of the draft.
    """
    return torch.minimum(p, q_logits.softmax(-1)).sum(-1)


# The keys are those of `edgespec_distill.plan.LOSS_NAMES`.
LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "kl": forward_kl,
    "tv": total_variation,
    "mixed": mixed,
}
