"""Anthropic's Messages: requests as those of a pair, and its answers."""
