"""Gemma: windowed and global layers, norms before and after each block."""
