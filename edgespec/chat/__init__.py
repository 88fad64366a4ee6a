"""Conversations as a model's chat template writes them."""
