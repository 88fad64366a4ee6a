"""Building ONNX graphs and their external data."""
