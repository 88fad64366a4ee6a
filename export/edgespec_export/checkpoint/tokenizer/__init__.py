"""Tokenizers of checkpoints: read from their formats, and compared."""
