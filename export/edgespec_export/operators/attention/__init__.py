"""Attention as ONNX functions: without a cache, and over each format of one."""
