"""ONNX Runtime: execution providers, sessions, and models that run exported graphs."""
