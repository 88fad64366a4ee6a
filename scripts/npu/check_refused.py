"""Checks that Qualcomm's NPU refuses what it computes wrongly or cannot compile, in one line.

python scripts/npu/check_refused.py FOLDER      (from `export_refused.py`)
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import edgespec
from edgespec.errors import EdgespecError
from edgespec.pair.opening.invariance_cache import INVARIANCE_FILE

FAR = (
    r"another model than on the processor: logits differ by [\d.]+% of the largest, KL [\d.]+ nats"
)
SAID = {
    "products": FAR,
    "stream": FAR,
    "logits": FAR,
    "wide": r"cannot be loaded on qnn \(.+\); export it with less --capacity or --gamma",
}


def main(folder: Path) -> None:
    for name, words in SAID.items():
        said = refusal(folder / name)
        if (
            re.search(words, said) is None
            or "\n" in said
            or (folder / name / INVARIANCE_FILE).exists()
        ):
            sys.exit(f"FAILED: {name} should be refused with {words!r}: {said}")
        print(f"{name}: {said}", flush=True)


def refusal(folder: Path) -> str:
    try:
        edgespec.load(folder, threads=1, provider="qnn")
    except EdgespecError as error:
        return str(error)
    return "it was not refused"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
