"""optimum's models on ONNX Runtime as a peer, with transformers' generation.

    python optimum_model.py causal FOLDER --threads 2 [--lookup 5] [--assistant FOLDER]

FOLDER is what optimum_export.py wrote. `causal` continues a prompt (`ORTModelForCausalLM`),
`seq2seq` translates it (`ORTModelForSeq2SeqLM`).
"""

from __future__ import annotations

import argparse
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from protocol import Generate, Generated, serve

PACKAGES = ("optimum-onnx", "transformers", "onnxruntime")


class FirstToken:
    """A streamer of transformers that notes when the first token was there."""

    def __init__(self, before: int) -> None:
        self._calls, self._before = 0, before
        self.at = 0.0

    def put(self, _: Any) -> None:
        self._calls += 1
        if self._calls == self._before + 1:
            self.at = time.perf_counter()

    def end(self) -> None:
        pass


def opened(kind: str, folder: Path, threads: int) -> Any:
    import onnxruntime
    from optimum.onnxruntime import ORTModelForCausalLM, ORTModelForSeq2SeqLM

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    model_class = {"causal": ORTModelForCausalLM, "seq2seq": ORTModelForSeq2SeqLM}[kind]
    return model_class.from_pretrained(folder, session_options=options)


def generator(kind: str, model: Any, extra: dict[str, Any]) -> Generate:
    """Greedy texts; a prompt is also the beginning of a causal model's output."""
    import torch

    torch.set_num_threads(1)

    def generate(prompt: list[int], max_new_tokens: int) -> Generated:
        ids = torch.tensor([prompt])
        first = FirstToken(before=1)  # transformers begins with the prompt
        began = time.perf_counter()
        found = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=max_new_tokens,
            streamer=first,
            **extra,
        )
        total = time.perf_counter() - began
        skipped = len(prompt) if kind == "causal" else 1  # a decoder begins with its start token
        tokens = [int(token) for token in found[0, skipped:]]
        return Generated(tokens, 1, first.at - began, total)

    return generate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("causal", "seq2seq"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    speculation = parser.add_mutually_exclusive_group()
    speculation.add_argument("--lookup", type=int, help="tokens of a draft found in the prompt")
    speculation.add_argument("--assistant", type=Path, help="a draft model, exported as FOLDER")
    options = parser.parse_args()

    def start() -> tuple[dict[str, Any], Generate]:
        model = opened(options.kind, options.folder, options.threads)
        extra: dict[str, Any] = {}
        if options.lookup:
            extra["prompt_lookup_num_tokens"] = options.lookup
        if options.assistant:
            extra["assistant_model"] = opened(options.kind, options.assistant, options.threads)
        graphs = options.folder.glob("*.onnx*")
        ready = {
            "versions": {f"{name} (peer)": metadata.version(name) for name in PACKAGES},
            "weight_bytes": sum(file.stat().st_size for file in graphs),
        }
        return ready, generator(options.kind, model, extra)

    serve(start)


if __name__ == "__main__":
    main()
