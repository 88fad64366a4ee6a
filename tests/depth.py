"""What the default leaves out for its time: EDGESPEC_DEEP=1 runs it."""

from __future__ import annotations

import os

import pytest

__all__ = ["DEEP", "deep"]

DEEP = os.environ.get("EDGESPEC_DEEP") == "1"
deep = pytest.mark.skipif(not DEEP, reason="EDGESPEC_DEEP=1 runs it")
