"""onnxruntime-genai as a peer.

python ort_genai.py FOLDER --threads 2 [--speculative '{"ngram_size": 3}']
"""

from __future__ import annotations

import argparse
import json
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from protocol import Generate, Generated, serve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--speculative", type=json.loads, help="options, as JSON")
    arguments = parser.parse_args()

    def start() -> tuple[dict[str, Any], Generate]:
        import onnxruntime_genai

        config = onnxruntime_genai.Config(str(arguments.folder))
        session = {"intra_op_num_threads": arguments.threads}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": session}}}))
        model = onnxruntime_genai.Model(config)

        def generate(prompt: list[int], max_new_tokens: int) -> Generated:
            began = time.perf_counter()
            parameters = onnxruntime_genai.GeneratorParams(model)
            parameters.set_search_options(do_sample=False, max_length=len(prompt) + max_new_tokens)
            if arguments.speculative:
                parameters.set_speculative_options(**arguments.speculative)
            generator = onnxruntime_genai.Generator(model, parameters)
            generator.append_tokens(prompt)
            generator.generate_next_token()
            prefill = time.perf_counter() - began
            while not generator.is_done():
                generator.generate_next_token()
            tokens = [int(token) for token in generator.get_sequence(0)[len(prompt) :]]
            return Generated(tokens, 1, prefill, time.perf_counter() - began)

        names = ("onnxruntime-genai", "onnxruntime")
        ready = {
            # Its onnxruntime may have another version than edgespec's.
            "versions": {f"{name} (peer)": metadata.version(name) for name in names},
            "weight_bytes": (arguments.folder / "model.onnx.data").stat().st_size,
        }
        return ready, generate

    serve(start)


if __name__ == "__main__":
    main()
