"""Muon for matrices and AdamW for the rest, on fp32 copies of parameters that may be bf16."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["MasterWeights"]

_BIAS = "relative_attention_bias"


class MasterWeights:
    """Fp32 master copies of a model's parameters, which are optimised and rounded into them.

    A bf16 parameter has eight significant bits, so rounding would lose a step of a thousandth of
    its size. Muon (orthogonalised momentum) optimises the matrices inside the layers. AdamW
    optimises embeddings, heads, norms and position biases. Position biases are added to scores,
    where useful values differ by whole numbers, so their rate is ten times higher.
    """

    def __init__(self, model: nn.Module, *, rate: float, decay: float = 0.0) -> None:
        self._live = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self._masters = {n: p.detach().float().clone() for n, p in self._live.items()}
        matrices = [w for n, w in self._masters.items() if _is_matrix(n, w)]
        biases = [w for n, w in self._masters.items() if _BIAS in n]
        tables = [w for n, w in self._masters.items() if not _is_matrix(n, w) and _BIAS not in n]
        groups = [{"params": tables, "share": 1.0}, {"params": biases, "share": 10.0}]
        self._optimizers: list[torch.optim.Optimizer] = [
            torch.optim.AdamW(
                [group for group in groups if group["params"]],
                lr=rate,
                betas=(0.9, 0.98),
                weight_decay=0.0,
            ),
        ]
        if matrices:
            muon = torch.optim.Muon(
                matrices, lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw"
            )
            self._optimizers.append(muon)

    def step(self, rate: float, *, clip: float = 1.0) -> float:
        """One step at learning rate `rate`; returns the norm of the gradient before clipping."""
        for name, live in self._live.items():
            grad = live.grad
            self._masters[name].grad = None if grad is None else grad.float()
            live.grad = None
        norm = float(nn.utils.clip_grad_norm_(self._masters.values(), clip))
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * group.get("share", 1.0)
            optimizer.step()
        with torch.no_grad():
            for name, live in self._live.items():
                live.copy_(self._masters[name])
        return norm

    def weights(self) -> dict[str, Tensor]:
        """The fp32 masters by parameter name."""
        return self._masters

    def state_dict(self) -> dict[str, Any]:
        return {
            "masters": self._masters,
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        with torch.no_grad():
            for name, live in self._live.items():
                self._masters[name].copy_(state["masters"][name])
                live.copy_(self._masters[name])
        for optimizer, saved in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)


def _is_matrix(name: str, weight: Tensor) -> bool:
    """Whether Muon optimises this weight: a linear map, not a lookup table or the head."""
    tables = ("shared", "embed", "lm_head", "markov", "ahead", "confidence", _BIAS)
    return weight.ndim == 2 and not any(table in name for table in tables)
