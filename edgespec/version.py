"""The version of edgespec and of what belongs to it."""

__all__ = ["VERSION"]

VERSION = "0.2.0"
