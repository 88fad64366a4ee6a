"""Attention: its heads, its cache, and how it is computed."""
