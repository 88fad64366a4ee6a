"""Checkpoint to ONNX: reads weights tensor by tensor and writes the graphs of `edgespec.contract`."""
