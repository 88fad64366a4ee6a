"""Exports tiny random pairs for a GPU: `make test-providers`.

PYTHONPATH=tests .venv/bin/python scripts/providers/tiny_pairs.py FOLDER
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from checkpoints import byte_tokenizer, write_noisy, write_small_llama, write_t5
from edgespec_export.export_pair import export_pair


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        llama = write_small_llama(Path(scratch) / "llama", max_position_embeddings=96)
        sizes = {"vocab_size": 320, "head_size": 16, "heads": 2, "width": 32, "gated": True}
        t5 = write_t5(Path(scratch) / "t5", tokenizer=byte_tokenizer(), **sizes)
        for name, target in (("tiny-llama", llama), ("tiny-t5", t5)):
            draft = write_noisy(target, Path(scratch) / f"{name}-draft", noise=0.05)
            shutil.rmtree(folder / name, ignore_errors=True)
            export_pair(str(target), str(draft), folder / name, host="gpu", threads=1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
