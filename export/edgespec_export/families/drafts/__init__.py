"""Drafts that read what their target computes: its hidden states, or its encoder."""
