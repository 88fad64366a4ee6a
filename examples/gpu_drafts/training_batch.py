"""A batch of a training: what the draft reads of some texts, and what it learns there.

Only tokens are kept. The target's states and distributions are computed for each batch again: that
takes less time than to fetch them would, as one position of Qwen2.5-Coder-1.5B has 9 kB of states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from compiled import compiled_on_gpu
from torch import Tensor

from edgespec_distill.data.draft_vocabulary import DraftVocabulary
from edgespec_distill.data.examples import Text, input_rows, padded
from edgespec_distill.models import llama_forward as llama

ROWS = 8192  # of the target's logits at once


@dataclass(frozen=True)
class Batch:
    """Texts as a draft reads them; n is the number of tokens of all outputs.

    Attributes:
        ids: [rows, m] the draft's token ids of all tokens but the last.
        features: [rows, m, layers · width] of the target.
        at: [n] where a token of an output is predicted: row · m + position.
        since: [n] how many tokens of its output are before that token.
        tokens: [n] the target's ids of these tokens.
        p: [n, draft's tokens] the target's probabilities, float32.
    """

    ids: Tensor
    features: Tensor
    at: Tensor
    since: Tensor
    tokens: Tensor
    p: Tensor


@torch.no_grad()
def batch_of(
    model: Any,
    texts: Sequence[Text],
    vocabulary: DraftVocabulary,
    layers: Sequence[int],
    temperature: float = 1.0,
) -> Batch:
    """What the target says of some texts.

    Args:
        model: the target.
        vocabulary: of the draft, on the target's device.
        layers: of the target, counted from 1, whose outputs the draft reads.
        temperature: of the probabilities.
    """
    ids, _ = padded(input_rows(texts))
    counts = [torch.arange(len(text.output)) for text in texts]
    firsts = [row * ids.shape[1] + len(text.prompt) - 1 for row, text in enumerate(texts)]
    at = torch.cat([first + count for first, count in zip(firsts, counts, strict=True)])
    tokens = torch.tensor([token for text in texts for token in text.output])
    ids, at, since, tokens = (x.to(model.device) for x in (ids, at, torch.cat(counts), tokens))
    hidden, features = llama.hidden_states(model, ids, feature_layers=layers)
    rows = hidden.flatten(0, 1).index_select(0, at) / temperature
    p = probabilities(model.lm_head, rows, vocabulary.outputs)
    return Batch(vocabulary.inputs[ids], features, at, since, tokens, p)


def probabilities(head: Callable[[Tensor], Tensor], rows: Tensor, tokens: Tensor) -> Tensor:
    """[n, tokens] of the target for some of its tokens, from its last states [n, width]."""
    return torch.cat([_shares(head(part), tokens) for part in torch.split(rows, ROWS)])


@compiled_on_gpu
def _shares(logits: Tensor, tokens: Tensor) -> Tensor:
    logits = logits.float()
    return (logits[:, tokens] - logits.logsumexp(1, keepdim=True)).exp()
