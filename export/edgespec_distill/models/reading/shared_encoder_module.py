"""A T5 draft that reads its target's encoder, in torch; `drafts/shared_encoder.py` is its graph.

It is a decoder whose cross-attention projects the target's encoder states, so the source is encoded
once, and by the better encoder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from transformers.models.t5.modeling_t5 import T5LayerNorm

from edgespec_distill.models.untrained_draft import spread_layers

__all__ = ["SharedEncoder"]


class SharedEncoder(nn.Module):
    """The parameters of such a draft, by their names in a checkpoint.

    Before training, its cross-attention has the first heads of the target's.

    Args:
        body: a transformers T5 with the draft's decoder; its encoder is left out.
        target: the transformers model whose encoder it reads.
    """

    model_type = "t5_shared_encoder"

    def __init__(self, body: Any, target: Any) -> None:
        super().__init__()
        self.config = body.config
        self.shared, self.decoder, self.lm_head = body.shared, body.decoder, body.lm_head
        self.target_width = int(target.config.d_model)
        norm = target.encoder.final_layer_norm
        self.source_norm = T5LayerNorm(  # type: ignore[no-untyped-call]
            self.target_width, norm.variance_epsilon
        )
        blocks, origins = self.decoder.block, target.decoder.block
        with torch.no_grad():
            self.source_norm.weight.copy_(norm.weight)
            for block, index in zip(blocks, spread_layers(len(blocks), len(origins)), strict=True):
                self._read_target(block.layer[1].EncDecAttention, origins[index].layer[1])

    def _read_target(self, attention: Any, origin: Any) -> None:
        for name in "kv":
            rows = getattr(attention, name).out_features
            linear = nn.Linear(self.target_width, rows, bias=False)
            linear.weight.copy_(getattr(origin.EncDecAttention, name).weight[:rows])
            setattr(attention, name, linear)

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.shared.weight.dtype
        return dtype

    @property
    def device(self) -> torch.device:
        device: torch.device = self.shared.weight.device
        return device

    def save_pretrained(self, folder: Path) -> None:
        """Writes a checkpoint that the exporter reads."""
        config = self.config.to_diff_dict() | {
            "architectures": [type(self).__name__],
            "model_type": self.model_type,
            "layers_of": self.config.model_type,
            "num_layers": 0,
            "encoder_width": self.target_width,
        }
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        save_file(
            {name: weight.detach().cpu().contiguous() for name, weight in self.named_parameters()},
            folder / "model.safetensors",
        )
