"""The GPU, or the processor where there is none, and the log of a program that runs on it."""

from __future__ import annotations

import logging

import torch


def device_and_type() -> tuple[str, torch.dtype]:
    """Where the target and the draft are, and their type: bf16 on a GPU, float32 elsewhere."""
    return ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)


def begin_log() -> None:
    """Lines of this program, after the milliseconds since it began."""
    logging.basicConfig(format="[%(relativeCreated)7.0f ms] %(message)s")
    logging.getLogger("gpu_drafts").setLevel(logging.INFO)
