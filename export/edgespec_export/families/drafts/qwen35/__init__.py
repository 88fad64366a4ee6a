"""Qwen3.5's head for several tokens, a draft that is in the checkpoint of its target."""
