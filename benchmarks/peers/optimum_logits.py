"""Logits of optimum's models: a first call of several tokens, then one token a call.

    python optimum_logits.py FOLDER INPUTS.npz LOGITS.npz

FOLDER is what optimum_export.py wrote. INPUTS has `text`, the decoder's tokens, `first`, how many
of them the first call has, and for encoder-decoders `source` (tokens) or `sound` [mel_bins,
frames]. LOGITS has `logits` [tokens of the text, vocabulary].
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def model_of(inputs: Mapping[str, Any], folder: Path) -> Any:
    import optimum.onnxruntime as ort

    kinds = {"sound": ort.ORTModelForSpeechSeq2Seq, "source": ort.ORTModelForSeq2SeqLM}
    kind = next((kinds[name] for name in kinds if name in inputs), ort.ORTModelForCausalLM)
    return kind.from_pretrained(folder)


def logits(model: Any, inputs: Mapping[str, Any]) -> np.ndarray:
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    text = torch.tensor(inputs["text"])[None]
    first = int(inputs["first"])
    cuts = [0, *range(first, text.shape[1] + 1)]
    encoded: dict[str, Any] = {}
    if "source" in inputs:
        encoded["input_ids"] = torch.tensor(inputs["source"])[None]
        encoded["attention_mask"] = torch.ones_like(encoded["input_ids"])
    if "sound" in inputs:
        encoded["input_features"] = torch.tensor(inputs["sound"])[None]
    rows, past = [], None
    for start, stop in itertools.pairwise(cuts):
        tokens = text[:, start:stop]
        given = {"decoder_input_ids": tokens, **encoded} if encoded else {"input_ids": tokens}
        if not encoded:
            given["attention_mask"] = torch.ones((1, stop), dtype=torch.int64)
        output = model(**given, past_key_values=past, use_cache=True)
        past = output.past_key_values
        if encoded:
            states = BaseModelOutput(last_hidden_state=output.encoder_last_hidden_state)
            encoded = {**encoded, "encoder_outputs": states}
        rows.append(output.logits[0].numpy())
    return np.concatenate(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("inputs", type=Path)
    parser.add_argument("logits", type=Path)
    options = parser.parse_args()
    inputs = dict(np.load(options.inputs))
    np.savez(options.logits, logits=logits(model_of(inputs, options.folder), inputs))


if __name__ == "__main__":
    main()
