"""Claim: an error message never repeats a long value."""

from __future__ import annotations

import pytest

from edgespec.errors import shortened


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("short", "'short'"),
        (5, "5"),
        ("x" * 9, "'xxxxxx…"),
        (b"x" * 9, "b'xxxxx…"),
        ([1] * 9, "[1, 1, …"),
        (10**5000, "int too long to show"),
    ],
    ids=["text", "number", "long text", "bytes", "list", "number of 5001 digits"],
)
def test_a_value_is_cut_to_the_limit(value, text):
    assert shortened(value, 8) == text
