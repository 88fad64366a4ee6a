"""Exports small random Llamas that an NPU must refuse: `make test-npu`.

python scripts/npu/export_refused.py FOLDER

"products", "stream" and "logits" have numbers there that fp16 has not, which the emulator replaces
by finite ones; "wide" has more positions than the NPU compiles.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from safetensors.numpy import load_file, save_file

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from checkpoints import write_small_llama
from edgespec_export.export_pair import export_pair

# Part of the tensors' names that are multiplied, the factor, and positions.
CASES = {
    "products": ("up_proj", 10_000, 64),
    "stream": ("down_proj", 90_000, 64),
    "logits": ("lm_head", 10_000, 64),
    "wide": ("lm_head", 1, 65_536),
}


def main(folder: Path) -> None:
    for name, (part, factor, positions) in CASES.items():
        with tempfile.TemporaryDirectory() as made:
            checkpoint = write_small_llama(Path(made) / name, max_position_embeddings=positions)
            weights = checkpoint / "model.safetensors"
            tensors = load_file(weights)
            save_file({n: t * factor if part in n else t for n, t in tensors.items()}, weights)
            export_pair(
                str(checkpoint),
                None,
                folder / name,
                target_formats=["fp16"],
                host="npu",
                gammas=(1,),
                capacity=positions,
                measure=False,
                replace=True,
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
