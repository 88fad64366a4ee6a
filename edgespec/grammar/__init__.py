"""Grammars that a text must fit: what they are, and which tokens they allow."""
