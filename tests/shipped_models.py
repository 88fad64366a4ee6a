"""Where the checkpoints of the shipped pairs are."""

from __future__ import annotations

from pathlib import Path

__all__ = ["MODELS"]

MODELS = Path(__file__).parents[1] / "models"
