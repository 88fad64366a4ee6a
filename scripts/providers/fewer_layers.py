"""Writes a checkpoint of a Llama's first layers and tokens: a model for emulated devices.

    .venv/bin/python scripts/providers/fewer_layers.py SOURCE LAYERS TOKENS FOLDER

It is no good model, but one with real weights, and its layers have their real sizes. The tokenizer
is the original's, whose first tokens are those that were merged first.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from edgespec_export.checkpoint import sources
from edgespec_export.checkpoint.checkpoint import open_checkpoint

LAYER = re.compile(r"model\.layers\.(\d+)\.")
BY_TOKEN = ("model.embed_tokens.weight", "lm_head.weight")  # a row for each token


def main(source: str, layers: int, tokens: int, folder: Path) -> None:
    checkpoint = open_checkpoint(sources.resolve(source))
    weights = checkpoint.weights
    folder.mkdir(parents=True, exist_ok=True)
    config = {**checkpoint.config, "num_hidden_layers": layers, "vocab_size": tokens}
    (folder / "config.json").write_text(json.dumps(config))
    first_tokens(checkpoint.tokenizer, tokens).save(str(folder / "tokenizer.json"))
    kept = {}
    for name in weights.names():
        layer = LAYER.match(name)
        if layer is None or int(layer.group(1)) < layers:
            values = weights.read(name)
            kept[name] = np.ascontiguousarray(
                values[:tokens] if name in BY_TOKEN else values, np.float32
            )
    save_file(kept, folder / "model.safetensors")


def first_tokens(tokenizer: Tokenizer, count: int) -> Tokenizer:
    """A byte-level tokenizer with its first tokens only, and the merges that make them."""
    described = json.loads(tokenizer.to_str())
    model = described["model"]
    model["vocab"] = {token: id for token, id in model["vocab"].items() if id < count}
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    model["merges"] = [pair for pair in pairs if "".join(pair) in model["vocab"]]
    return Tokenizer.from_str(json.dumps(described))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
