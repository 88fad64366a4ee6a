"""edgespec's own operators: ONNX functions, each with a body of standard operators."""
