"""Drafts that read what their target computed."""
