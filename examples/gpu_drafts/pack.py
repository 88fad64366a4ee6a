"""Packs a target for another machine: python examples/gpu_drafts/pack.py TARGET PAIR OUT

The file OUT (.safetensors) is all that the machine with the GPU needs of the target: its config,
its matrices in 4 bits and its tables in 8, as PAIR has them. The draft learns from the weights that
will run. Only activations differ, which int4 rounds to 8 bits and a GPU does not.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import onnx_ir
from program import run
from safetensors.numpy import save_file

from edgespec.artifact.atomic_file import whole_file
from edgespec_distill.models.untrained_draft import GGUF_ENTRIES
from edgespec_distill.plan import is_known_llama
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import resolve
from edgespec_export.families.tensor_check import fitted

GRAPH = Path("target", "int4", "decoder.onnx")  # in a pair


def exported_weights(graph: Path) -> dict[str, np.ndarray]:
    """The tensors of an exported int4 target by their names there.

    Matrices are named by what is one below the other, as "a.weight+b.weight.int4": uint8
    [out, groups, 16], two codes in a byte, with ".scale" and ".minimum" float16 [out, groups].
    Embedding and head are "a.weight.int8", int8 [vocabulary, width], with "a.weight.scale" float32
    [vocabulary]. Norms and biases are float32.
    """
    stored = onnx_ir.load(graph).graph.initializers
    values = {name: value.const_value for name, value in stored.items()}
    return {
        name: value.numpy()
        for name, value in values.items()
        if value is not None and name.startswith(("model.", "lm_head."))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", help="folder, GGUF file, hub id or short name")
    parser.add_argument("pair", type=Path, help="its export with --target-format int4")
    parser.add_argument("out", type=Path, help="NAME.safetensors")
    arguments = parser.parse_args()
    checkpoint = open_checkpoint(resolve(arguments.target))
    family = fitted(checkpoint)
    if not is_known_llama(family):
        raise SystemExit(f"{checkpoint.label} is not like a Llama; edgespec distill may train it")
    config = {key: value for key, value in checkpoint.config.items() if key not in GGUF_ENTRIES}
    config |= {
        "eos_token_id": list(checkpoint.eos_token_ids),
        "pad_token_id": None,
        "tie_word_embeddings": family.tied_head,
    }
    tensors = exported_weights(arguments.pair / GRAPH)
    with whole_file(arguments.out) as aside:
        save_file(tensors, aside, metadata={"config": json.dumps(config)})
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    run(main)
