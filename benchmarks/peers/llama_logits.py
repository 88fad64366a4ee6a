"""Logits of a GGUF file in llama.cpp, for peer_distance.py; runs in the peers' Python.

    PYTHONPATH=.peers/llama-cpp-python LLAMA_CPP_LIB_PATH=.peers/llama.cpp/bin \
        python llama_logits.py MODEL.gguf TEXTS.json LOGITS.npy --threads 2

TEXTS.json is a list of lists of token ids. Each text is one call. The result is float32
[tokens of all texts, vocabulary].
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from llama_cpp import Llama


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("logits", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    texts: list[list[int]] = json.loads(arguments.texts.read_text())
    threads = arguments.threads
    model = Llama(
        str(arguments.model),
        n_ctx=max(map(len, texts)) + 1,
        n_threads=threads,
        n_threads_batch=threads,
        logits_all=True,
        verbose=False,
    )
    rows = []
    for text in texts:
        model.reset()
        model.eval(text)
        rows.append(model.scores[: len(text)].copy())
    np.save(arguments.logits, np.concatenate(rows))


if __name__ == "__main__":
    main()
