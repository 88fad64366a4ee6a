"""edgespec as a peer: in a process of its own, tokens in and out.

python edgespec_pair.py build/smollm2 --format int8 --threads 2 --draft model
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from protocol import Generate, Generated, serve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair")
    parser.add_argument("--format", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--draft", choices=("model", "lookup", "both", "none"), required=True)
    arguments = parser.parse_args()

    def start() -> tuple[dict[str, Any], Generate]:
        import edgespec

        pair = edgespec.load(
            arguments.pair, threads=arguments.threads, target_format=arguments.format
        )
        draft = False if arguments.draft == "none" else arguments.draft

        def generate(prompt: list[int], max_new_tokens: int) -> Generated:
            began = time.perf_counter()
            result = pair.generate(prompt, max_new_tokens=max_new_tokens, draft=draft)
            seconds = time.perf_counter() - began
            stats = result.stats
            return Generated(
                result.token_ids, stats.first_tokens, stats.first_token_seconds, seconds
            )

        weight_bytes = pair.manifest.bytes("target", arguments.format)
        if draft in ("model", "both"):
            if pair.manifest.draft is None:
                raise ValueError(f"{arguments.pair} has no draft model; give --drafts lookup none")
            weight_bytes += pair.manifest.bytes("draft", next(iter(pair.manifest.draft.variants)))
        return {"versions": {}, "weight_bytes": weight_bytes}, generate

    serve(start)


if __name__ == "__main__":
    main()
