"""Functions that are compiled for a GPU: one pass over the memory of all rows, where each operation
would take one of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def compiled_on_gpu(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function, compiled for any number of rows where there is a GPU."""
    return torch.compile(function, dynamic=True) if torch.cuda.is_available() else function
