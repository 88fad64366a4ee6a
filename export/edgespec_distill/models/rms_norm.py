"""The RMS norms of transformers' models, in one operation."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn
from torch.nn import functional

__all__ = ["RmsNorm", "rms_norm"]


class RmsNorm(Protocol):
    """A T5 or Llama norm module of transformers."""

    weight: nn.Parameter
    variance_epsilon: float


def rms_norm(norm: RmsNorm, x: Tensor) -> Tensor:
    """The module's result for x [..., width]."""
    return functional.rms_norm(x, (x.shape[-1],), norm.weight, norm.variance_epsilon)
