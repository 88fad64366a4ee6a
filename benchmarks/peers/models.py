"""Makes one peer's model from the GGUF file that edgespec exports from; runs in the peers' Python.

    python models.py llama Q8_0 SOURCE.gguf WORK --llama-bin DIR
    python models.py openvino int8 SOURCE.gguf WORK --llama-bin DIR
    python models.py ort-genai int8 SOURCE.gguf WORK
    python models.py optimum int8 SOURCE.gguf WORK --optimum-python PYTHON

Each uses its vendor's own tools: llama-quantize; OpenVINO GenAI's GGUF reader and NNCF; the builder
of onnxruntime-genai and optimum's exporter and quantizer, on a checkpoint that transformers reads
from the GGUF file. Intermediate models are stored and used again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BUILDER_OPTIONS = {"b128": "block_size=128", "last": "prune_lm_head=true"}


class Maker:
    """Makes models in folders under `work`, which appear only when they are complete."""

    def __init__(
        self, source: Path, work: Path, llama_bin: Path | None, optimum_python: Path | None
    ) -> None:
        self.source = source
        self.work = work
        self.llama_bin = llama_bin
        self.optimum_python = optimum_python

    def checkpoint(self) -> Path:
        """A folder with the dequantized weights, saved by transformers."""

        def make(folder: Path) -> None:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer

            where: dict[str, Any] = {
                "pretrained_model_name_or_path": self.source.parent,
                "gguf_file": self.source.name,
            }
            read = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
            config: Any = read.config
            # transformers refuses to save a model whose configuration names a quantization.
            del config.quantization_config
            model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
            model.load_state_dict(read.state_dict())
            model.save_pretrained(folder)
            AutoTokenizer.from_pretrained(**where).save_pretrained(folder)

        return self._once(self.work / "checkpoint", make)

    def llama(self, weights: str) -> Path:
        """A GGUF file of another type, made from F32, which is exact for dequantized weights."""

        def make(folder: Path) -> None:
            if self.llama_bin is None:
                raise SystemExit("give --llama-bin, the folder of llama-quantize")
            from_ = self.source if weights == "F32" else self.llama("F32") / "model.gguf"
            quantize = [self.llama_bin / "llama-quantize", "--allow-requantize"]
            subprocess.run([*quantize, from_, folder / "model.gguf", weights], check=True)

        return self._once(self.work / "llama" / weights, make)

    def openvino(self, weights: str) -> Path:
        """OpenVINO GenAI's model of a GGUF file; int8 and int4 are its F16, compressed by NNCF."""

        def read_gguf(folder: Path) -> None:
            import openvino_genai

            gguf = folder / "model.gguf"
            # It saves into the folder of the file that it reads.
            os.link(self.llama(weights) / "model.gguf", gguf)
            openvino_genai.LLMPipeline(gguf, "CPU", enable_save_ov_model=True)
            gguf.unlink()

        def compress(folder: Path) -> None:
            import nncf
            import openvino

            half = self.openvino("F16")
            model = openvino.Core().read_model(half / "openvino_model.xml")
            modes: dict[str, dict[str, Any]] = {
                "int8": {"mode": nncf.CompressWeightsMode.INT8_SYM},
                # Groups of 64 divide this model's widths; embedding and head stay at 8 bits.
                "int4": {"mode": nncf.CompressWeightsMode.INT4_SYM, "group_size": 64},
            }
            model = nncf.compress_weights(model, **modes[weights])
            openvino.save_model(model, folder / "openvino_model.xml")
            for path in half.glob("openvino_*tokenizer.*"):
                shutil.copy(path, folder)

        make = compress if weights in ("int8", "int4") else read_gguf
        return self._once(self.work / "openvino" / weights, make)

    def ort_genai(self, weights: str) -> Path:
        """fp32, fp16, int8 or int4, made by its model builder for the CPU.

        4- and 8-bit products have accuracy level 4 (activations of 8 bits), the builder's default
        here, and the head is as narrow as the rest. "int4-b128" has a scale for 128 weights, the
        others for 32. "-last" models compute logits only after the last token of a prompt, so they
        cannot speculate.
        """
        precision, *variants = weights.split("-")
        extra = ["--extra_options", *(BUILDER_OPTIONS[variant] for variant in variants)]

        def make(folder: Path) -> None:
            builder = [sys.executable, "-m", "onnxruntime_genai.models.builder"]
            subprocess.run(
                [
                    *(*builder, "--input", self.checkpoint(), "--output", folder),
                    *("--precision", precision, "--execution_provider", "cpu"),
                    *("--cache_dir", self.work / "cache"),
                    *(extra if variants else ()),
                ],
                check=True,
            )

        return self._once(self.work / "ort-genai" / weights, make)

    def optimum(self, weights: str) -> Path:
        """fp32, or int8 as optimum's own tool quantizes it for this processor."""

        def make(folder: Path) -> None:
            if self.optimum_python is None:
                raise SystemExit("give --optimum-python, of the environment with optimum-onnx")
            export = [self.optimum_python, HERE / "optimum_export.py", "text-generation"]
            extra = ["--int8"] if weights == "int8" else []
            subprocess.run([*export, self.checkpoint(), folder, *extra], check=True)

        return self._once(self.work / "optimum" / weights, make)

    def _once(self, folder: Path, make: Callable[[Path], None]) -> Path:
        if not folder.exists():
            partial = folder.with_name(f"{folder.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            make(partial)
            partial.rename(folder)
        return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=("llama", "openvino", "ort-genai", "optimum"))
    parser.add_argument("weights")
    parser.add_argument("source", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--llama-bin", type=Path)
    parser.add_argument("--optimum-python", type=Path)
    arguments = parser.parse_args()
    maker = Maker(arguments.source, arguments.work, arguments.llama_bin, arguments.optimum_python)
    make = {
        "llama": maker.llama,
        "openvino": maker.openvino,
        "ort-genai": maker.ort_genai,
        "optimum": maker.optimum,
    }
    make[arguments.peer](arguments.weights)


if __name__ == "__main__":
    main()
