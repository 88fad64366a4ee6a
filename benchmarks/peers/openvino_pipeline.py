"""OpenVINO GenAI as a peer.

    python openvino_pipeline.py FOLDER --threads 2 [--lookup 5 3]

All other settings are its defaults: paged attention, an 8-bit cache, the arithmetic that is fastest
on this processor.
"""

from __future__ import annotations

import argparse
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from protocol import Generate, Generated, serve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--lookup", type=int, nargs=2, metavar=("TOKENS", "NGRAM"))
    parser.add_argument("--end", type=int, required=True, help="the end-of-text token")
    arguments = parser.parse_args()

    def start() -> tuple[dict[str, Any], Generate]:
        import numpy as np
        import openvino
        import openvino_genai

        scheduler = openvino_genai.SchedulerConfig()
        # The default would not compute a repeated prompt again.
        scheduler.enable_prefix_caching = False
        pipeline = openvino_genai.LLMPipeline(
            arguments.folder,
            "CPU",
            INFERENCE_NUM_THREADS=arguments.threads,
            scheduler_config=scheduler,
            **({"prompt_lookup": True} if arguments.lookup else {}),
        )

        def generate(prompt: list[int], max_new_tokens: int) -> Generated:
            config = openvino_genai.GenerationConfig(
                max_new_tokens=max_new_tokens, do_sample=False, eos_token_id=arguments.end
            )
            if arguments.lookup:
                config.num_assistant_tokens, config.max_ngram_size = arguments.lookup
            began = time.perf_counter()
            inputs = openvino_genai.TokenizedInputs(
                openvino.Tensor(np.array([prompt], np.int64)),
                openvino.Tensor(np.ones((1, len(prompt)), np.int64)),
            )
            result = pipeline.generate(inputs, config)
            tokens = [int(token) for token in result.tokens[0]]
            seconds = time.perf_counter() - began
            return Generated(tokens, 1, result.perf_metrics.get_ttft().mean / 1000, seconds)

        names = ("openvino", "openvino-genai")
        ready = {
            "versions": {name: metadata.version(name) for name in names},
            "weight_bytes": (arguments.folder / "openvino_model.bin").stat().st_size,
        }
        return ready, generate

    serve(start)


if __name__ == "__main__":
    main()
