"""Llama, and models whose blocks are a Llama's with a few differences."""
