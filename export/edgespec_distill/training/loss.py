"""How far a draft's distributions q are from its target's distributions p.

Both losses are of DistillSpec (Zhou et al. 2023, arXiv 2310.08461, Table 1). The total variation is
what rejects a draft's token: the acceptance rate is 1 minus it (Leviathan, Kalman and Matias 2022,
Corollary 3.6). Its gradient vanishes where q is far from p, so the forward KL leads there faster.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["LOSSES", "forward_kl", "overlap", "total_variation"]


def forward_kl(p_logs: Tensor, tokens: Tensor, q_logits: Tensor) -> Tensor:
    """Mean Σ p log(p/q) over those of the target's most probable tokens that the draft has.

    Where they hold little of p, the draft can win little, and the position counts as little.

    Args:
        p_logs: [n, k] log-probabilities of the target; -inf where `tokens` holds no token.
        tokens: [n, k] which tokens they are, in the draft's numbering.
        q_logits: [n, vocabulary] of the draft.
    """
    q_logs = q_logits.gather(1, tokens) - q_logits.logsumexp(1, keepdim=True)
    terms = p_logs.exp() * (p_logs - q_logs)
    return torch.where(p_logs > -torch.inf, terms, 0).sum(1).mean()


def total_variation(p_logs: Tensor, tokens: Tensor, q_logits: Tensor) -> Tensor:
    """Mean 1 - Σ min(p, q) over the target's most probable tokens; arguments as `forward_kl`."""
    q = q_logits.softmax(1).gather(1, tokens)
    return 1 - torch.minimum(p_logs.exp(), q).sum(1).mean()


def overlap(p: Tensor, q_logits: Tensor) -> Tensor:
    """The paper's α at temperature 1, Σ min(p, q): [n].

    Args:
        p: [n, vocabulary] probabilities of the target for the draft's tokens.
        q_logits: [n, vocabulary] of the draft.
    """
    return torch.minimum(p, q_logits.softmax(-1)).sum(-1)


LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "kl": forward_kl,
    "tv": total_variation,
}
