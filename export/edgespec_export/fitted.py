"""Whether a checkpoint's tensors are those of the model that its config describes."""

from __future__ import annotations

import hashlib

import numpy as np

from edgespec.errors import EdgespecError
from edgespec_export.families import Family
from edgespec_export.weights import Weights

__all__ = ["fitted"]


def fitted(family: Family, weights: Weights) -> Family:
    """The family as the tensors have it: a head that differs from a tied embedding is its own.

    So transformers sees it, which ties two tensors only if they are equal or one is absent.

    Raises:
        EdgespecError: a tensor is missing or of another shape, or another copy of the embedding
            differs from it, which would be a model that no family here has.
    """
    names = set(weights.names())
    for copy in names.intersection(family.copies):
        if not _equal(weights, copy, family.table):
            raise EdgespecError(
                f"{family.label}: tensor {copy!r} differs from {family.table!r}; edgespec exports "
                "only models that have one embedding"
            )
    if family.tied_head and family.head in names and not _equal(weights, family.head, family.table):
        family = family.with_own_head()
    _check_shapes(family, weights)
    return family


def _check_shapes(family: Family, weights: Weights) -> None:
    for name, expected in family.shapes():
        shape = weights.shape(name)
        if shape != expected:
            raise EdgespecError(
                f"{family.label}: tensor {name!r} is {list(shape)}, and config.json asks for "
                f"{list(expected)}; config.json belongs to another model"
            )


def _equal(weights: Weights, *names: str) -> bool:
    return len({_digest(weights, name) for name in names}) == 1


def _digest(weights: Weights, name: str) -> bytes:
    """Of a table's numbers as float32: two tables are never in memory together."""
    digest = hashlib.sha256(str(weights.shape(name)).encode())
    for row in np.atleast_2d(weights.read(name)):
        digest.update(row.astype(np.float32))
    return digest.digest()
