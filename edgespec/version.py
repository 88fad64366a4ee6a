"""The version of edgespec and of what belongs to it."""

__all__ = ["__version__"]

__version__ = "0.2.0"
