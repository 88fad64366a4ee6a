"""The mathematics and the decoding loop: no files, no ONNX Runtime, numpy only."""
