"""The weights that the training of an EAGLE draft starts from: a linear prediction.

Least squares finds how a hidden state and the next token predict the target's next hidden state.
The draft's head, which is the target's or with `read_by_head` says nearly the same, turns that into
a token. The layers only have to correct the prediction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from edgespec_distill.models.reading.eagle_module import Eagle, embedded, fused
from edgespec_distill.models.rms_norm import rms_norm
from edgespec_distill.models.untrained_draft import writes_residual

__all__ = ["initialise", "read_by_head"]

RIDGE = 1e-3  # of the inputs' mean square, which is 1


@torch.no_grad()
def initialise(draft: Eagle, texts: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Sets the join to the best prediction, and scales the layers' outputs to fit it.

    Args:
        draft: its layers are the target's last ones.
        texts: the draft's token ids [m] and the target's features at these positions, [m, F].
    """
    width = draft.config.hidden_size
    squares = torch.zeros(2 * width, 2 * width, device=draft.device)
    products = torch.zeros(2 * width, width, device=draft.device)
    sizes = []
    for ids, features in texts:
        states = rms_norm(draft.join.state_norm, fused(draft, features)).float()
        tokens = rms_norm(draft.join.token_norm, embedded(draft, ids)).float()
        known = torch.cat([tokens[1:], states[:-1]], 1)
        squares += known.T @ known
        products += known.T @ states[1:]
        sizes.append(features[:, -draft.target_width :].float().square().mean(1).sqrt())
    size = torch.cat(sizes)
    ridge = RIDGE * len(size) * torch.eye(2 * width, device=draft.device)
    token, state = torch.linalg.solve(squares + ridge, products).T.split(width, 1)
    draft.join.token.weight.copy_(token)
    draft.join.state.weight.copy_(state)
    for name, weight in draft.named_parameters():
        if writes_residual(name):
            weight.div_(size.median())  # because the predicted states have size 1


@torch.no_grad()
def read_by_head(draft: Eagle, target_head: Tensor, features: Tensor) -> None:
    """Makes the head of a narrow draft say of a state nearly what the target's head says of it.

    The map of the states is the least-squares solution. The last norm takes their size away, which
    makes distributions as sharp as the target's; its weights give it back.

    Args:
        target_head: [draft's tokens, target's width], times the weights of the norm before it.
        features: [n, F] the target's, at some positions.
    """
    head = draft.lm_head.weight.float()
    head = head - head.mean(0)  # what a state adds to all logits alike changes no distribution
    inverse = torch.linalg.pinv(head.T @ head, hermitian=True)
    last_map = cast("nn.Linear", draft.reader.maps[-1])
    last_map.weight.copy_(inverse @ (head.T @ target_head))
    sizes = fused(draft, features).float().square().mean(1).sqrt()
    draft.model.norm.weight.fill_(sizes.median())
