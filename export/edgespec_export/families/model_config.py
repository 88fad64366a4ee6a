"""Reading a checkpoint's config: every key is understood, known to be harmless, or refused."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from edgespec.errors import EdgespecError, shortened

__all__ = ["Config"]

# Written by transformers into any config; none of these changes what a model computes.
HARMLESS = frozenset(
    """
    _attn_implementation _name_or_path architectures attention_dropout auto_map bos_token_id
    chunk_size_feed_forward classifier_dropout decoder_start_token_id dropout_rate dtype
    eos_token_id finetuning_task gradient_checkpointing id2label initializer_factor
    initializer_range label2id model_type output_attentions output_hidden_states
    output_past pad_token_id pretraining_tp problem_type return_dict task_specific_params
    tokenizer_class torch_dtype transformers_version transformers.js_config unk_token_id use_cache
    """.split()
)


class Config:
    """A config that remembers which of its keys were read.

    A family calls `refuse_the_rest()` last: a key that was not read might change the numbers.
    """

    def __init__(self, values: dict[str, Any], label: str) -> None:
        self._values = values
        self._label = label
        self._read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, `default` if it is absent or null."""
        self._read.add(key)
        value = self._values.get(key)
        return default if value is None else value

    def need(self, key: str) -> Any:
        """The value of a key that has no default."""
        value = self.get(key)
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
        """Refuses keys that were not read.

        Args:
            harmless: keys of this family that change nothing that its models compute.
        """
        known = HARMLESS.union(self._read, harmless)
        unknown = {
            key: value
            for key, value in self._values.items()
            if key not in known and value is not None
        }
        if unknown:
            listed = ", ".join(
                f"{key[:60]} = {shortened(value)}" for key, value in sorted(unknown.items())[:8]
            )
            raise EdgespecError(
                f"{self._label}: config.json has keys that edgespec does not know, and they may "
                f"change what the model computes: {listed}"
            )
