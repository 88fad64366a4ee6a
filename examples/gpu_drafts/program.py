"""What the programs share: numbers in their ranges, files that can be written, one-line errors."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from edgespec.errors import EdgespecError


def positive(text: str) -> float:
    """A number above 0."""
    return _checked(float(text), lambda value: value > 0, "above 0")


def share(text: str) -> float:
    """A number from 0 to 1."""
    return _checked(float(text), lambda value: 0 <= value <= 1, "from 0 to 1")


def whole(least: int) -> Callable[[str], int]:
    """A whole number of at least `least`."""
    return lambda text: int(_checked(int(text), lambda value: value >= least, f"{least} or more"))


def new_npz(text: str) -> Path:
    """A file NAME.npz in a folder that exists."""
    file = Path(text)
    if file.suffix != ".npz" or not file.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: name a file *.npz in a folder that exists")
    return file


def _checked(value: float, is_right: Callable[[float], bool], wanted: str) -> float:
    if not is_right(value):
        raise argparse.ArgumentTypeError(f"{value} is not {wanted}")
    return value


def device_and_type() -> tuple[str, torch.dtype]:
    """Where the target and the draft are, and their type: bf16 on a GPU, float32 elsewhere."""
    return ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)


def begin_log() -> None:
    """Shows what the program logs, each line with the time since it began."""
    logging.basicConfig(format="[%(relativeCreated)7.0f ms] %(message)s")
    logging.getLogger("gpu_drafts").setLevel(logging.INFO)


def run(main: Callable[[], None]) -> None:
    """Runs a program; an error that the user can mend is one line."""
    try:
        main()
    except (EdgespecError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped before its end; what it writes comes at the end")
