"""Word alignment: the source tokens that a target token translates, by IBM Model 1.

A small model trained on a small corpus learns German before it learns to attend to the source.
Guiding one attention head with a word alignment corrects that (guided alignment, Chen et al. 2016,
arXiv 1607.01628).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["embeddings", "lexicon"]

Ids = list[int]
Table = npt.NDArray[np.float16]


def lexicon(pairs: list[tuple[Ids, Ids]], vocabulary: int, *, rounds: int = 4) -> Table:
    """t(target token | source token), [vocabulary + 1, vocabulary]; the last row is "no source".

    IBM Model 1 (Brown et al. 1993), expectation maximisation from a uniform start.
    """
    none = vocabulary
    codes, sizes = _pair_codes(pairs, vocabulary, none)
    known, slot = np.unique(codes, return_inverse=True)
    del codes
    source = (known // vocabulary).astype(np.int32)
    probability = np.full(len(known), 1.0 / vocabulary, np.float32)
    for _ in range(rounds):
        joint = probability[slot]
        # The mass of each target token is divided among the source tokens of its sentence.
        total = np.add.reduceat(joint, np.concatenate([[0], np.cumsum(sizes)[:-1]]))
        share = joint / np.repeat(total, sizes)
        count = np.bincount(slot, share, minlength=len(known))
        probability = (count / np.bincount(source, count, vocabulary + 1)[source]).astype(
            np.float32
        )
    table = np.zeros((vocabulary + 1) * vocabulary, np.float16)
    table[known] = probability
    return table.reshape(vocabulary + 1, vocabulary)


def _pair_codes(
    pairs: list[tuple[Ids, Ids]], vocabulary: int, none: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Codes source · vocabulary + target for each target token, and the number of codes of each."""
    codes, sizes = [], []
    for source, target in pairs:
        sources = np.array([*source, none], np.int32)
        codes.append((sources[None, :] * vocabulary + np.array(target, np.int32)[:, None]).ravel())
        sizes.append(np.full(len(target), len(sources)))
    return np.concatenate(codes), np.concatenate(sizes)


def embeddings(table: Table, width: int, seed: int = 0) -> Tensor:
    """[vocabulary, width] of unit length, in which translations are close to each other.

    The largest factors of t(e|f) + t(f|e) + 1, by a randomised singular value decomposition. With
    them the model has to learn one linear map from words to translations, not one per word.
    """
    torch.manual_seed(seed)
    translation = torch.from_numpy(table[:-1]).float()
    similarity = translation + translation.T + torch.eye(len(translation))
    left, sizes, _ = torch.svd_lowrank(similarity, q=width, niter=2)
    return torch.nn.functional.normalize(left * sizes.sqrt(), dim=1)
