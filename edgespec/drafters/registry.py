"""Drafters by the names that users give."""

__all__ = ["KINDS"]

KINDS = ("model", "lookup", "both")
