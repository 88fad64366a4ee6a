"""The config of a LoRA: by how much each of its changes counts, and what cannot be merged."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.json_file import JsonObject

__all__ = ["LoraConfig", "lora_config"]

# Keys that say how an adapter was trained or begun, what it is, or what its tensors say, too.
PASSED_OVER = frozenset(
    """
    auto_mapping base_model_name_or_path bias corda_config ensure_weight_tying eva_config
    exclude_modules inference_mode init_lora_weights layers_pattern layers_to_transform loftq_config
    lora_bias lora_dropout lora_ga_config megatron_core modules_to_save peft_type peft_version
    qalora_group_size revision runtime_config target_modules task_type use_dora velora_config
    """.split()
)
READ = frozenset(
    {"r", "lora_alpha", "rank_pattern", "alpha_pattern", "use_rslora", "fan_in_fan_out"}
)
# Ways to begin that leave the model's own weights as they are; others change them as well.
BEGINNINGS = (True, False, None, "gaussian", "eva", "orthogonal")
WAY_OUT = "merge the two with peft (merge_and_unload), save the result and export that folder"


@dataclass(frozen=True)
class LoraConfig:
    """By how much the products of an adapter's matrices count.

    Attributes:
        alphas: by patterns of modules' names.
        root: whether alpha is divided by the root of the rank (rsLoRA) and not by the rank.
        fan_in_fan_out: the model stores its matrices as [in, out] (`Conv1D` of GPT-2).
    """

    alpha: float
    alphas: Mapping[str, float]
    root: bool
    fan_in_fan_out: bool

    def scale(self, module: str, rank: int) -> float:
        """What B · A of a module is multiplied by."""
        matching = (key for key in self.alphas if re.match(rf"(.*\.)?({key})$", module))
        alpha = self.alphas.get(next(matching, ""), self.alpha)
        return alpha / (math.sqrt(rank) if self.root else rank)


def lora_config(settings: JsonObject, label: str) -> LoraConfig:
    """Reads an `adapter_config.json`.

    Raises:
        EdgespecError: it is of another kind of adapter, or has a key that changes what the adapter
            computes and is not read.
    """
    kind = settings.get("peft_type", "LORA")
    if kind != "LORA":
        raise EdgespecError(f"{label}: its peft_type is {shortened(kind)}, only LORA is merged")
    beginning = settings.get("init_lora_weights", True)
    if beginning not in BEGINNINGS:
        raise EdgespecError(
            f"{label}: init_lora_weights = {shortened(beginning)} changed its model's own weights; "
            f"{WAY_OUT}"
        )
    for key, value in settings.items():
        if key not in PASSED_OVER | READ and value not in (None, False, [], {}):
            raise EdgespecError(
                f"{label}: adapter_config.json says {key} = {shortened(value)}, which is not read; "
                f"{WAY_OUT}"
            )
    try:
        values: Any = settings
        alphas = {str(k): float(v) for k, v in (values.get("alpha_pattern") or {}).items()}
        for pattern in alphas:
            re.compile(pattern)
        return LoraConfig(
            alpha=float(values.get("lora_alpha", 8)),
            alphas=alphas,
            root=bool(values.get("use_rslora")),
            fan_in_fan_out=bool(values.get("fan_in_fan_out")),
        )
    except (TypeError, ValueError, AttributeError, re.error) as error:
        raise EdgespecError(
            f"{label}: adapter_config.json has a value of the wrong kind ({error})"
        ) from None
