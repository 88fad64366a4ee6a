"""What an export can be made for: one kind of runtime or device, whose graphs differ from others.

An export for none of them runs on any machine, on the processor.
"""

from __future__ import annotations

__all__ = ["GPU", "HOSTS", "NPU", "WEB"]

WEB = "web"  # onnxruntime-web in a browser
GPU = "gpu"  # a provider that keeps tensors in a device's memory: CUDA, WebGPU
NPU = "npu"  # a provider whose compiler takes fixed shapes: Qualcomm's
HOSTS = (WEB, GPU, NPU)
