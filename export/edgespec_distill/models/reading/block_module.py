"""The block draft in torch, for training; the exporter's `drafts/block_draft.py` is its graph.

It is an EAGLE draft whose later tokens need no later calls. The rows of a block all start from the
block's last known token and the target's state before it; row i adds a learned vector for i
positions ahead. A low-rank table adds what the token drafted before says about the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from edgespec_distill.models import llama_forward as llama
from edgespec_distill.models.reading.eagle_module import Eagle, KeysValues, first_rows
from edgespec_distill.models.rms_norm import rms_norm

__all__ = ["MARKOV_RANK", "BlockDraft", "hidden_states", "initialise_markov"]

MARKOV_RANK = 128  # of the table of transitions


class BlockDraft(Eagle):
    """The parameters of a block draft, by their names in a checkpoint.

    Args:
        block: how many tokens one call drafts.

    Attributes:
        ahead: [block, width], added to a row's start by how many positions it is ahead.
        markov: [own vocabulary, rank] twice: of the token before, and of the next token.
        confidence: from a row's hidden state, whether its token is accepted if those before are.
    """

    model_type = "block"

    def __init__(
        self, body: Any, target_layers: Sequence[int], target_width: int, block: int
    ) -> None:
        super().__init__(body, target_layers, target_width)
        self.block = block
        width, tokens = self.config.hidden_size, self.config.vocab_size
        self.ahead = nn.Embedding(block, width)
        self.markov = _Markov(tokens, min(MARKOV_RANK, width))
        self.confidence = nn.Linear(width, 1)
        for weight in (self.ahead.weight, self.confidence.weight, self.confidence.bias):
            nn.init.zeros_(weight)

    def own_config(self) -> dict[str, Any]:
        return {**super().own_config(), "block_size": self.block}


class _Markov(nn.Module):
    """A low-rank table of transitions: what each token adds to the logits of the next one."""

    def __init__(self, tokens: int, rank: int) -> None:
        super().__init__()
        self.before, self.next = (nn.Embedding(tokens, rank) for _ in range(2))
        nn.init.zeros_(self.next.weight)


@torch.no_grad()
def initialise_markov(draft: BlockDraft) -> None:
    """Starts from tables in which similar tokens have similar rows, and that change no logit yet.

    A token's row is its embedding on the principal axes of all embeddings, of root mean square 1.
    """
    rows = draft.model.embed_tokens.weight.float()
    centred = rows - rows.mean(0)
    axes = torch.linalg.eigh(centred.T @ centred).eigenvectors
    projected = centred @ axes[:, -draft.markov.before.weight.shape[1] :]
    draft.markov.before.weight.copy_(projected / projected.square().mean().sqrt())


def hidden_states(
    draft: BlockDraft, ids: Tensor, features: Tensor, anchors: Tensor
) -> tuple[Tensor, Tensor]:
    """Hidden states of first predictions, and of the later ones of blocks.

    Args:
        ids: [rows, m] the draft's token ids.
        features: [rows, m, F] the target's, at these positions.
        anchors: [a] positions of the last known tokens of blocks.

    Returns:
        [rows, m, width], after each token; [rows, a, block - 1, width], of the tokens 2, 3, … after
        each anchor.
    """
    x = first_rows(draft, ids, features)
    ahead = torch.arange(1, draft.block, device=ids.device)
    y = (x[:, anchors, None] + draft.ahead.weight[1:]).flatten(1, 2)
    x = x + draft.ahead.weight[0]
    positions = torch.arange(ids.shape[1], device=ids.device)
    own_positions = (anchors[:, None] + ahead).flatten()
    angles, own_angles = (
        llama.rotary_angles(draft.model, x, some.expand(len(ids), -1))
        for some in (positions, own_positions)
    )
    seen = positions <= anchors.repeat_interleave(draft.block - 1)[:, None]
    for layer in draft.model.layers:
        known: list[KeysValues] = []
        x = llama.through_layer(layer, x, angles, partial(_attention, known=known))
        of_block = partial(_block_attention, known=known[0], seen=seen, size=draft.block - 1)
        y = llama.through_layer(layer, y, own_angles, of_block)
    first, later = (rms_norm(draft.model.norm, part) for part in (x, y))
    return first, later.view(len(ids), len(anchors), draft.block - 1, -1)


def _attention(q: Tensor, k: Tensor, v: Tensor, *, known: list[KeysValues]) -> Tensor:
    """Causal attention; leaves the keys and values in `known`."""
    known.append(llama.repeated(q, k, v))
    return functional.scaled_dot_product_attention(q, *known[0], is_causal=True)


def _block_attention(
    q: Tensor, k: Tensor, v: Tensor, *, known: KeysValues, seen: Tensor, size: int
) -> Tensor:
    """Attention of the rows of blocks, [rows, heads, a · size, head size]: to the known positions
    that are `seen` ([a · size, m]), and to the rows of their own block up to themselves."""
    scale = q.shape[-1] ** -0.5
    k, v = (_by_block(part, size) for part in llama.repeated(q, k, v))
    scores = (q @ known[0].transpose(-1, -2) * scale).masked_fill(~seen, -torch.inf)
    own = _by_block(q, size) @ k.transpose(-1, -2) * scale
    later = torch.ones(size, size, dtype=torch.bool, device=q.device).triu(1)
    own = own.masked_fill(later, -torch.inf).flatten(2, 3)
    weights = torch.cat([scores, own], -1).softmax(-1)
    count = scores.shape[-1]
    of_block = _by_block(weights[..., count:], size) @ v
    out: Tensor = weights[..., :count] @ known[1] + of_block.flatten(2, 3)
    return out


def _by_block(x: Tensor, size: int) -> Tensor:
    """[rows, heads, a · size, n] to [rows, heads, a, size, n]."""
    return x.reshape(*x.shape[:2], -1, size, x.shape[-1])
