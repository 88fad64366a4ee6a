"""The files of patterns/: lines, or lines below headings such as [Python]."""

from __future__ import annotations

import re
from pathlib import Path

PATTERNS = Path(__file__).parent / "patterns"


def read_lines(name: str) -> list[str]:
    return _text(name).splitlines()


def read_sections(name: str) -> dict[str, list[str]]:
    """The lines by the heading that they stand below."""
    _, *parts = re.split(r"^\[(.+)\]\n", _text(name), flags=re.MULTILINE)
    return {head: body.splitlines() for head, body in zip(parts[::2], parts[1::2], strict=True)}


def _text(name: str) -> str:
    return (PATTERNS / f"{name}.txt").read_text(encoding="utf-8")
