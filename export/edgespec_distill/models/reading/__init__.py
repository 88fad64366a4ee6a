"""Drafts that read their target: its hidden states, or its encoder."""
