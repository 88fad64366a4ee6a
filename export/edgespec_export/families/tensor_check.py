"""Checks that a checkpoint's tensors belong to the model that its config describes."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.checkpoint import Checkpoint
from edgespec_export.checkpoint.json_file import JsonObject
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.families import Family, family_of
from edgespec_export.families.config_keys import class_keys

__all__ = ["fitted"]

ROWS = 4096  # rows of a table that are converted to float32 at once


def fitted(checkpoint: Checkpoint) -> Family:
    """The checkpoint's family. A head that differs from a tied embedding counts as an own head.

    Transformers does the same: it ties two tensors only if they are equal or one is absent.

    Raises:
        EdgespecError: the family is unknown, the weights cannot be read, no token ends a text, a
            tensor is missing or has another shape, or a copy of the embedding differs from it; no
            family here has such a model.
    """
    family = family_of(checkpoint.config, checkpoint.label)
    if checkpoint.refusal is not None:
        raise checkpoint.refusal
    if not checkpoint.eos_token_ids:
        raise EdgespecError(
            f"{checkpoint.label}: names no token that ends a text (eos_token_id in its configs, "
            "eos_token in tokenizer_config.json), so no text would end: add one"
        )
    family = family.with_generation_settings(checkpoint.generation)
    weights = family.view(checkpoint.weights)
    if _lacks_tied_head(family, weights, checkpoint.config):
        family = replace(family, tied_head=True)
    heads = {family.head} if family.tied_head else set()
    differing = _differing(weights, family.table, heads.union(family.copies))
    for copy in sorted(differing - heads):
        raise EdgespecError(
            f"{family.label}: tensor {copy!r} differs from {family.table!r}; edgespec exports only "
            "models that have one embedding"
        )
    if differing:
        family = family.with_own_head()
    _check_shapes(family, weights)
    return family


def _lacks_tied_head(family: Family, weights: Weights, config: JsonObject) -> bool:
    """Whether a head is absent that the model's class ties, whatever its config says."""
    keys = class_keys(config.get("model_type"))
    ties = keys is not None and keys.defaults.get("tie_word_embeddings") is True
    return ties and not family.tied_head and family.head not in weights.names()


def _check_shapes(family: Family, weights: Weights) -> None:
    for name, expected in family.shapes():
        shape = weights.shape(name)
        if shape != expected:
            raise EdgespecError(
                f"{family.label}: tensor {name!r} is {list(shape)}, and config.json asks for "
                f"{list(expected)}; config.json belongs to another model"
            )


def _differing(weights: Weights, table: str, copies: set[str]) -> set[str]:
    """The copies that exist and are not equal to the table."""
    present = copies.intersection(weights.names())
    if not present:
        return set()
    digest = _digest(weights, table)
    return {name for name in present if _digest(weights, name) != digest}


def _digest(weights: Weights, name: str) -> bytes:
    """A digest of a table's numbers as float32, so that two tables are never in memory together."""
    digest = hashlib.sha256(str(weights.shape(name)).encode())
    tensor = weights.read(name)
    for first in range(0, len(tensor), ROWS):
        digest.update(tensor[first : first + ROWS].astype(np.float32).tobytes())
    return digest.digest()
