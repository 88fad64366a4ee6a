"""Exports a checkpoint with optimum's own ONNX exporter; runs in optimum's Python.

    python optimum_export.py TASK CHECKPOINT FOLDER [--int8]

TASK is one of optimum's: text-generation, text2text-generation, automatic-speech-recognition.
`--int8` quantizes weights and activations by optimum's own tool, for this processor.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
from pathlib import Path


def export(task: str, checkpoint: Path, folder: Path, *, merged: bool) -> None:
    """One graph for a first and for later calls of a decoder, or two: the quantizer passes over
    the branches of a merged one."""
    from optimum.exporters.onnx import main_export

    main_export(
        str(checkpoint),
        output=folder,
        task=f"{task}-with-past",
        do_validation=False,
        no_post_process=not merged,
    )


def quantized(source: Path, folder: Path) -> None:
    """Each graph with integer products; activations are quantized as they come."""
    from optimum.onnxruntime import AutoQuantizationConfig, ORTQuantizer

    kinds = AutoQuantizationConfig
    arm = platform.machine() in ("aarch64", "arm64")
    config = (kinds.arm64 if arm else kinds.avx2)(is_static=False, per_channel=True)
    for graph in sorted(source.glob("*.onnx")):
        quantizer = ORTQuantizer.from_pretrained(source, file_name=graph.name)
        quantizer.quantize(save_dir=folder, quantization_config=config, file_suffix="")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--int8", action="store_true")
    options = parser.parse_args()
    if not options.int8:
        export(options.task, options.checkpoint, options.folder, merged=True)
        return
    with tempfile.TemporaryDirectory() as scratch:
        export(options.task, options.checkpoint, Path(scratch), merged=False)
        quantized(Path(scratch), options.folder)


if __name__ == "__main__":
    main()
