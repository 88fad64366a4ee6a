"""Exports a tiny random pair of five tokens for NPUs, whose sampled distribution can be counted.

python scripts/npu/export_tiny.py FOLDER
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from checkpoints import write_llama, write_noisy
from edgespec_export.export_pair import export_pair


def main(folder: str) -> None:
    with tempfile.TemporaryDirectory() as made:
        target = write_llama(
            Path(made) / "target", vocab_size=5, heads=2, head_size=16, layers=2, spread=1.0
        )
        draft = write_noisy(target, Path(made) / "draft", noise=0.5)
        export_pair(
            str(target),
            str(draft),
            folder,
            target_formats=["fp16"],
            draft_formats=["fp16"],
            host="npu",
            capacity=64,
            measure=False,
            replace=True,
        )


if __name__ == "__main__":
    main(sys.argv[1])
