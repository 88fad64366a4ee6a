"""The RMS norms of transformers' models, in one operation."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional

__all__ = ["rms_norm"]


def rms_norm(norm: Any, x: Tensor) -> Tensor:
    """What a T5 or Llama norm module of transformers computes from x [..., width]."""
    return functional.rms_norm(x, (x.shape[-1],), norm.weight, norm.variance_epsilon)
