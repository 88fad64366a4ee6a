"""Ollama's API: requests as those of a pair, and its answers."""
