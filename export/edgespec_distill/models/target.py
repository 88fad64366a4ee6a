"""The target of a distillation, loaded by transformers."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

from edgespec.errors import EdgespecError, one_line
from edgespec_distill.data.draft_vocabulary import full_vocabulary
from edgespec_distill.models.causal import Causal
from edgespec_distill.models.seq2seq import Seq2Seq
from edgespec_distill.models.target_ends import training_dtype
from edgespec_distill.models.trainable import GeneratingModel
from edgespec_export.checkpoint.sources import Source
from edgespec_export.checkpoint.transformers_config import load_original

__all__ = ["open_target"]


def open_target(source: Source, start_token: int | None) -> GeneratingModel:
    """Loads a model that is not trained, on the GPU if there is one.

    Args:
        start_token: of its family: the token id that the decoder of an encoder-decoder starts
            with; None for decoder-only models.

    Raises:
        EdgespecError: transformers cannot load it.
    """
    kind: Any = AutoModelForCausalLM if start_token is None else AutoModelForSeq2SeqLM
    device = "cuda" if torch.cuda.device_count() else "cpu"
    try:
        model = load_original(kind, source, training_dtype(device)).to(device)
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise EdgespecError(
            f"transformers cannot load {source.path} to train against it: "
            f"{type(error).__name__}: {one_line(error)}"
        ) from None
    model.eval().requires_grad_(requires_grad=False)
    vocabulary = full_vocabulary(model.config.vocab_size)
    if start_token is None:
        return Causal(model, vocabulary)
    return Seq2Seq(model, vocabulary, start_token)
