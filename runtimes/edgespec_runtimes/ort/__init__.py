"""ONNX Runtime: sessions, providers, models over exported graphs."""
