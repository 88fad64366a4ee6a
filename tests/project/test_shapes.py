"""Shapes with random weights have the sizes of the models that they are named after."""

from __future__ import annotations

from math import prod

import pytest

from benchmarks.shape_configs import SHAPES, config, tensors


@pytest.mark.parametrize(
    ("shape", "billions"),
    [
        ("t5-xxl", 11.1),
        ("t5-small", 0.077),
        ("madlad-3b", 2.94),
        ("qwen3-4b", 4.02),
        ("qwen3-1.7b", 1.72),
        ("gemma3-4b", 3.88),
        ("gemma3-1b", 1.0),
        ("gemma3-270m", 0.268),
        ("gemma4-e2b", 4.63),
        ("qwen3.5-2b", 1.88),
        ("qwen3.5-0.8b", 0.75),
    ],
)
def test_a_shape_has_as_many_parameters_as_its_model(shape: str, billions: float) -> None:
    count = sum(prod(size) for _, size in tensors(config(shape, 1)))
    assert count / 1e9 == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_divided_shape_has_the_same_tensors(shape: str) -> None:
    names = [name for name, _ in tensors(config(shape, 1))]
    assert [name for name, _ in tensors(config(shape, 4))] == names
