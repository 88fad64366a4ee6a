"""Reading a checkpoint's config: every key is understood, known to change nothing, or refused."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping
from typing import Any

from edgespec.errors import EdgespecError, shortened
from edgespec_export.families.config_keys import class_keys

__all__ = ["ACTIVATIONS", "HARMLESS", "Config", "with_newer_keys"]

# Read by transformers or written by it into any config; none changes what a model computes. (How
# weights are quantized is looked at with the weights.)
HARMLESS = frozenset(
    """
    _attn_implementation _commit_hash _experts_implementation _name_or_path _num_labels
    architectures attention_dropout attn_implementation auto_map bos_token_id
    chunk_size_feed_forward classifier_dropout decoder_start_token_id dropout_rate dtype
    eos_token_id experts_implementation finetuning_task gradient_checkpointing hidden_dropout
    id2label initializer_factor initializer_range label2id model_type name_or_path num_labels
    output_attentions output_hidden_states output_past pad_token_id pretraining_tp problem_type
    quantization quantization_config residual_dropout return_dict task_specific_params
    tokenizer_class torch_dtype transformers_version transformers.js_config unk_token_id
    use_cache
    """.split()
)
BOOKKEEPING = ("unsloth_",)  # of programs that train models
# Activations, and the other names that transformers has for them.
ACTIVATIONS = {
    **{name: name for name in ("silu", "relu", "relu2", "gelu", "gelu_new", "gelu_pytorch_tanh")},
    "swish": "silu",
    "gelu_python": "gelu",
    "gelu_accurate": "gelu_new",
    "gelu_fast": "gelu_new",
}

logger = logging.getLogger("edgespec")


def with_newer_keys(values: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A config whose older keys have the names of today; a key that states both has today's."""
    older = {new: values[old] for old, new in names.items() if old in values}
    return {**older, **{key: value for key, value in values.items() if key not in names}}


class Config:
    """A config that remembers which of its keys were read.

    A missing key has the value that transformers' class gives it, else the caller's default. A
    family calls `refuse_the_rest()` last: a key that was not read might change the numbers.
    """

    def __init__(self, values: dict[str, Any], label: str) -> None:
        self._values = values
        self._label = label
        self._read: set[str] = set()
        self._class = class_keys(values.get("model_type"))

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key; of a missing one the class's default; `default` in place of null."""
        self._read.add(key)
        value = self._values.get(key)
        if key not in self._values and self._class is not None:
            value = self._class.defaults.get(key)
        return default if value is None else value

    def need(self, key: str) -> Any:
        """The value of a key that has no default."""
        value = self.get(key) if self.states(key) else None
        if value is None:
            raise EdgespecError(f"{self._label}: config.json has no {key!r}")
        return value

    def count(self, key: str, default: int | None = None) -> int:
        """A whole number from 1; a key without a default must be there."""
        value = self.need(key) if default is None else self.get(key, default)
        if type(value) is not int or not 0 < value < 2**31:
            raise ValueError(f"{key} is {shortened(value)}")
        return value

    def number(self, key: str, default: float) -> float:
        """A number that is not negative."""
        value = self.get(key, default)
        if type(value) not in (int, float) or not 0 <= value < math.inf:
            raise ValueError(f"{key} is {shortened(value)}")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self.get(key, default)
        if type(value) is not bool:
            raise ValueError(f"{key} is {shortened(value)}")
        return value

    def activation(self, key: str, default: str) -> str:
        """The activation that a key names, by its usual name."""
        name = self.get(key, default)
        if name not in ACTIVATIONS:
            self.must_be(key, *dict.fromkeys(ACTIVATIONS.values()))
        return ACTIVATIONS[name]

    def states(self, key: str) -> bool:
        """Whether the config has the key, even with null: for some keys null is a value."""
        return key in self._values

    def must_be(self, key: str, *allowed: Any) -> None:
        """Refuses any other value; an absent or null key is fine."""
        value = self.get(key)
        if value is not None and value not in allowed:
            expected = " or ".join(shortened(choice) for choice in allowed)
            raise EdgespecError(
                f"{self._label}: config.json says {key} = {shortened(value)}; edgespec exports "
                f"only {expected or 'models without it'}"
            )

    def refuse_the_rest(self, harmless: Collection[str] = ()) -> None:
        """Refuses keys that were not read and that change what transformers computes.

        Of a model type that transformers does not have, all keys that were not read.

        Args:
            harmless: keys of this family that change nothing that its models compute.
        """
        known = HARMLESS.union(self._read, harmless)
        unknown = {
            key: value
            for key, value in self._values.items()
            if key not in known and value is not None and not key.startswith(BOOKKEEPING)
        }
        written_by = self._values.get("transformers_version")
        newer = ""
        if self._class is not None and self._class.is_older_than(written_by):
            newer = f" (transformers {written_by} wrote it; known are the keys of "
            newer += f"{self._class.version})"
        elif self._class is not None:
            passed = [key for key in unknown if self._class.changes_nothing(key, unknown[key])]
            if passed:
                logger.debug("%s: changes nothing: %s", self._label, ", ".join(sorted(passed)))
            unknown = {key: value for key, value in unknown.items() if key not in passed}
        if unknown:
            listed = ", ".join(
                f"{key[:60]} = {shortened(value)}" for key, value in sorted(unknown.items())[:8]
            )
            raise EdgespecError(
                f"{self._label}: config.json has keys that edgespec does not know, and they may "
                f"change what the model computes{newer}: {listed}"
            )
