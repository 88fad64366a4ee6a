"""Llamas whose code comes with their checkpoints: transformers has no class of them."""
