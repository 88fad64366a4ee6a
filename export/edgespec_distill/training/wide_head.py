"""The loss of a head with many tokens, computed a few rows at a time.

The logits of a batch take hundreds of megabytes, and a loss reads them several times. The logits of
a hundred rows stay in the CPU's cache until only their gradient is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["Loss", "head_loss"]

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
ROWS = 128


def head_loss(loss: Loss, p_logs: Tensor, tokens: Tensor, hidden: Tensor, head: Tensor) -> Tensor:
    """The mean of a loss (of `loss.py`) over the logits hidden · headᵀ.

    Args:
        p_logs, tokens: [n, k], the arguments of the loss.
        hidden: [n, width], n at least 1.
        head: [vocabulary, width].
    """
    found: Tensor = _HeadLoss.apply(loss, p_logs, tokens, hidden, head)  # type: ignore[no-untyped-call]
    return found


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, loss: Loss, p_logs: Tensor, tokens: Tensor, hidden: Tensor, head: Tensor
    ) -> Tensor:
        gradient = hidden.new_empty(len(hidden), len(head))
        total = torch.zeros((), device=hidden.device)
        for first in range(0, len(hidden), ROWS):
            rows = slice(first, first + ROWS)
            logits = functional.linear(hidden[rows], head).float().requires_grad_()
            with torch.enable_grad():
                part = loss(p_logs[rows], tokens[rows], logits)
            share = len(logits) / len(hidden)
            (found,) = torch.autograd.grad(part, logits)
            gradient[rows] = found.mul_(share)
            total += share * part.detach()
        ctx.save_for_backward(gradient, hidden, head)
        return total

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[None, None, None, Tensor, Tensor | None]:
        gradient, hidden, head = ctx.saved_tensors
        weight = weight.to(gradient.dtype)
        of_hidden = (gradient @ head).mul_(weight)
        of_head = (gradient.T @ hidden).mul_(weight) if ctx.needs_input_grad[4] else None
        return None, None, None, of_hidden, of_head
