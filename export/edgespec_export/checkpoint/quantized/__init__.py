"""Matrices that other programs quantized, as float32."""
