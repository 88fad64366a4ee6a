"""Times Python and libedgespec at the same texts, in turns: drift of the machine affects both."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median, quantiles
from typing import Any

__all__ = ["Texts", "compared"]

Texts = list[list[int]]


def compared(
    python: Callable[[], Texts], native: Callable[[], Texts], rounds: int
) -> dict[str, Any]:
    """Tokens a second of both, prompts included, and the median of their ratio.

    Where the machine is not quiet, times of the processor say more, with one thread. Exits where
    the texts differ.
    """
    texts = python()
    if native() != texts:
        sys.exit("the texts differ: nothing to compare")
    tokens = sum(map(len, texts))
    sides = {"python": python, "native": native}
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    cpu: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds):
        for side in sorted(sides, reverse=bool(number % 2)):
            began, spent = time.perf_counter(), time.process_time()
            sides[side]()
            seconds[side].append(time.perf_counter() - began)
            cpu[side].append(time.process_time() - spent)
    ratios = [old / new for old, new in zip(seconds["python"], seconds["native"], strict=True)]
    low, _, high = quantiles(ratios, n=4)
    return {
        "python_tokens_per_second": round(tokens / median(seconds["python"]), 1),
        "native_tokens_per_second": round(tokens / median(seconds["native"]), 1),
        "ratio": round(median(ratios), 3),
        "quartiles": [round(low, 3), round(high, 3)],
        "ratio_of_fastest": round(min(seconds["python"]) / min(seconds["native"]), 3),
        "ratio_of_processor_time": round(min(cpu["python"]) / min(cpu["native"]), 3),
    }
