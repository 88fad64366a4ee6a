"""libedgespec as a peer: in a process of its own, tokens in and out. Needs `make native`.

python libedgespec_pair.py build/smollm2 --format int8 --threads 2 --draft model
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from protocol import Generate, Generated, serve

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
DRAFTS = {"none": 0, "model": 1, "lookup": 2, "both": 3}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair", type=Path)
    parser.add_argument("--format", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--draft", choices=DRAFTS, required=True)
    arguments = parser.parse_args()

    def start() -> tuple[dict[str, Any], Generate]:
        native_library = import_module("native_library")
        model = native_library.NativeModel(
            arguments.pair, threads=arguments.threads, target_format=arguments.format
        )
        session, draft = model.session(), DRAFTS[arguments.draft]

        def generate(prompt: list[int], max_new_tokens: int) -> Generated:
            began = time.perf_counter()
            session.begin(prompt, max_new_tokens=max_new_tokens, draft=draft)
            pieces = session.pieces()
            tokens = next(pieces, [])
            first_tokens, first = len(tokens), time.perf_counter() - began
            tokens += [token for piece in pieces for token in piece]
            return Generated(tokens, first_tokens, first, time.perf_counter() - began)

        weights = arguments.pair / "target" / arguments.format / "weights.data"
        return {"versions": {}, "weight_bytes": weights.stat().st_size}, generate

    serve(start)


if __name__ == "__main__":
    main()
