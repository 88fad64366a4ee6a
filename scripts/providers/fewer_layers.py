"""Writes a checkpoint of a Llama's first layers: a model for emulated devices.

    .venv/bin/python scripts/providers/fewer_layers.py SOURCE LAYERS FOLDER

It is no good model, but one with real weights and the real sizes of its parts.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from edgespec_export.checkpoint import sources
from edgespec_export.checkpoint.checkpoint import open_checkpoint

LAYER = re.compile(r"model\.layers\.(\d+)\.")


def main(source: str, layers: int, folder: Path) -> None:
    checkpoint = open_checkpoint(sources.resolve(source))
    weights = checkpoint.weights
    folder.mkdir(parents=True, exist_ok=True)
    config = {**checkpoint.config, "num_hidden_layers": layers}
    (folder / "config.json").write_text(json.dumps(config))
    checkpoint.tokenizer.save(str(folder / "tokenizer.json"))
    kept = {}
    for name in weights.names():
        layer = LAYER.match(name)
        if layer is None or int(layer.group(1)) < layers:
            kept[name] = np.ascontiguousarray(weights.read(name), np.float32)
    save_file(kept, folder / "model.safetensors")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
