"""The target's distributions, from the outputs of its last layer.

A draft that reads the target's states has these outputs at hand. The head's product with the
draft's tokens alone takes a tenth of that with all, and no logits of a whole vocabulary are moved.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from edgespec_distill.data.draft_vocabulary import DraftVocabulary
from edgespec_distill.data.examples import Example, Text
from edgespec_distill.data.text_generation import top_tokens
from edgespec_distill.models.rms_norm import rms_norm

__all__ = ["TargetHead"]


class TargetHead:
    """The target's norm and head, for the tokens of a draft.

    Args:
        model: the target in transformers, or its tables and norm.
        vocabulary: of the draft. Distributions are scaled to sum to 1 over its tokens.
        cap: of the logits' tanh; None: they have no cap.
    """

    def __init__(self, model: Any, vocabulary: DraftVocabulary, cap: float | None) -> None:
        self._norm, self._cap, self._tokens = model.model.norm, cap, vocabulary.outputs
        self._rows = model.lm_head.weight[vocabulary.outputs.to(model.lm_head.weight.device)]

    @torch.no_grad()
    def example(self, text: Text, features: Tensor) -> Example:
        """A text that the target did not write, with its distributions.

        Args:
            features: [n, layers · width] at all positions of the decoder but the last; the last
                layer is the target's last one.
        """
        width = self._rows.shape[1]
        last = features[-len(text.output) :, -width:].to(self._rows)
        logits = functional.linear(rms_norm(self._norm, last), self._rows).float()
        if self._cap is not None:
            logits = self._cap * (logits / self._cap).tanh()
        own, log_probs = top_tokens(logits)
        return Example(text.prompt, text.output, self._tokens[own].int(), log_probs)
