"""What people call a model."""

from __future__ import annotations

import re

__all__ = ["model_name"]


def model_name(source: str) -> str:
    """The name in `Exported.source`: of "smollm2-1.7b → HuggingFaceTB/SmolLM2-1.7B-Instruct" and of
    "/models/SmolLM2-1.7B-Instruct" it is "SmolLM2-1.7B-Instruct"."""
    meant = source.rpartition("→")[2].strip()
    last = re.split(r"[/\\]", meant.rstrip("/\\"))[-1]
    return re.sub(r"\.gguf$", "", last, flags=re.IGNORECASE) or source
