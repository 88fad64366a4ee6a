"""libedgespec, if `make native` has built it."""

from __future__ import annotations

import ctypes

import pytest

from native_library import HOOKS, LIBRARY, NativeModel, opened


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    """Skips these tests where there is no library."""
    if not (LIBRARY.exists() and HOOKS.exists()):
        pytest.skip("libedgespec is not built: make native")


@pytest.fixture(scope="session")
def hooks(built) -> ctypes.CDLL:
    """The library with the functions that only tests call."""
    return opened(HOOKS)


@pytest.fixture(scope="session")
def native_tiny(built, tiny_folder) -> NativeModel:
    """The tiny pair, loaded."""
    return NativeModel(tiny_folder, threads=1)
