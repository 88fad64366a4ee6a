"""Logits of OpenVINO GenAI's model, for peer_distance.py; runs in the peers' Python.

    python openvino_logits.py MODEL.xml TEXTS.json LOGITS.npy --threads 2

TEXTS.json is a list of lists of token ids. Each text is one call. The result is float32
[tokens of all texts, vocabulary].
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import openvino


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("logits", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    texts: list[list[int]] = json.loads(arguments.texts.read_text())
    settings = {"INFERENCE_NUM_THREADS": arguments.threads}
    model = openvino.Core().read_model(arguments.model)
    # GenAI asks for the last row only; the model itself computes all.
    compiled = openvino.compile_model(model, "CPU", settings)
    rows = []
    for text in texts:
        request = compiled.create_infer_request()
        ids = np.array([text], np.int64)
        given = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "position_ids": np.arange(ids.shape[1])[None],
            "beam_idx": np.zeros(1, np.int32),
        }
        result = request.infer({i.any_name: given[i.any_name] for i in compiled.inputs})
        rows.append(result[compiled.outputs[0]][0])
    np.save(arguments.logits, np.concatenate(rows).astype(np.float32))


if __name__ == "__main__":
    main()
