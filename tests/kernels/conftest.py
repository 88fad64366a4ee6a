"""Calls of single operators, by their kernels and by their bodies."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from edgespec.device.device import Device
from edgespec.device.kernels import SWITCH
from edgespec_runtimes.ort.session import open_session
from operator_calls import one_call


@pytest.fixture(scope="module")
def opened():
    """The sessions of graphs without constants, which the tests of a file share."""
    return {}


@pytest.fixture
def called(opened, tmp_path, monkeypatch):
    """Calls a function on inputs, by its kernel or by its body.

    The arrays in `fixed` are constants of the graph; the kernel packs them when it is loaded.
    """
    own = {}

    def call(function, inputs, fixed, *, kernel=True, threads=2, **attributes):
        sessions = own if fixed else opened
        kinds = tuple((name, value.dtype, value.ndim) for name, value in inputs.items())
        constants = tuple((name, id(value)) for name, value in fixed.items())
        key = (function, kernel, threads, repr(attributes), kinds, constants)
        if key not in sessions:
            path = tmp_path / f"{len(sessions)}.onnx"
            ir.save(one_call(function, inputs, fixed, attributes), path)
            monkeypatch.setenv(SWITCH, "1" if kernel else "0")
            sessions[key] = open_session(path, Device(threads)), fixed
        return sessions[key][0].run(None, inputs)

    return call


@pytest.fixture
def rng():
    return np.random.default_rng(7)
