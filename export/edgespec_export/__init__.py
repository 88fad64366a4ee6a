"""Checkpoint to ONNX: reads weights tensor by tensor, writes the graphs of `edgespec.artifact`."""
