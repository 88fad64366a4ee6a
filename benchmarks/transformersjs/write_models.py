"""Writes a GGUF file's weights as transformers.js's own users have them, in 8 bits.

Two folders: OUT/tied as its conversion makes it, where the head is the 8-bit embedding, a float32
product; and OUT/untied, where the head is an 8-bit product like all others.

    python -m venv VENV
    VENV/bin/pip install torch==2.13.0 optimum-onnx==0.1.0 onnxruntime==1.32.0 gguf accelerate
    VENV/bin/python benchmarks/transformersjs/write_models.py FILE.gguf TOKENIZER.json OUT
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from optimum.exporters.onnx import main_export
from transformers import AutoModelForCausalLM


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("gguf", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        checkpoint = Path(name) / "checkpoint"
        model = AutoModelForCausalLM.from_pretrained(
            options.gguf.parent, gguf_file=options.gguf.name, dtype=torch.float32
        )
        model.save_pretrained(checkpoint)
        shutil.copy(options.tokenizer, checkpoint / "tokenizer.json")
        for kind in ("tied", "untied"):
            _write(checkpoint, Path(name) / kind, options.out / kind, tied=kind == "tied")


def _write(checkpoint: Path, graphs: Path, out: Path, *, tied: bool) -> None:
    how = {"task": "text-generation-with-past", "library_name": "transformers"}
    main_export(checkpoint, output=graphs, do_validation=False, no_post_process=not tied, **how)
    (out / "onnx").mkdir(parents=True, exist_ok=True)
    # As in scripts/quantize.py of transformers.js for "q8".
    quantize_dynamic(
        graphs / "model.onnx",
        out / "onnx" / "model_quantized.onnx",
        weight_type=QuantType.QInt8,
        extra_options={"EnableSubgraph": True, "MatMulConstBOnly": True},
    )
    for file in graphs.glob("*.json"):
        shutil.copy(file, out / file.name)


if __name__ == "__main__":
    main()
