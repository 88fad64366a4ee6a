"""Checkpoint to ONNX: reads weights tensor by tensor, writes the graphs of `edgespec.artifact`."""

import edgespec_runtimes  # noqa: F401  (before ONNX Runtime, whose reports it switches off)
