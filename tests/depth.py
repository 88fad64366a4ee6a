"""What the default leaves out for its time: EDGESPEC_DEEP=1 runs it."""

from __future__ import annotations

import os

import pytest

__all__ = ["deep"]

deep = pytest.mark.skipif(os.environ.get("EDGESPEC_DEEP") != "1", reason="EDGESPEC_DEEP=1 runs it")
