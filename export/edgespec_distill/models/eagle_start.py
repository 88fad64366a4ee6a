"""Where the training of a draft that reads begins: with the best linear guess of the next state.

What a state and the token behind it tell of the target's next state is found by least squares. Its
head, as good as the target's own, makes a token of that; the layers only have to mend it.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from edgespec_distill.models.eagle_student import Eagle, embedded, read
from edgespec_distill.models.student import adds
from edgespec_distill.models.t5_forward import rms_norm

__all__ = ["begin"]

RIDGE = 1e-3  # of the inputs' mean square, which is 1


@torch.no_grad()
def begin(draft: Eagle, texts: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Sets the join to the best guess, and the layers to add no more than they did in the target.

    Args:
        draft: whose layers are the target's last ones.
        texts: the draft's tokens [m] and what the target shows of these positions, [m, F].
    """
    width = draft.config.hidden_size
    squares = torch.zeros(2 * width, 2 * width, device=draft.device)
    products = torch.zeros(2 * width, width, device=draft.device)
    sizes = []
    for ids, features in texts:
        states = rms_norm(draft.join.state_norm, read(draft, features)).float()
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
        if adds(name):
            weight.div_(size.median())  # the states' own size is 1
