"""Claim: on ARM64 sessions are made without flash attention, unless the user says otherwise.

That results of one setting do not count for another. What it changes on ARM64 is checked there:
scripts/arm64.
"""

from __future__ import annotations

import os
from pathlib import Path

import onnxruntime as ort
import pytest

from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import Device
from edgespec.pair.opening.runtime import machine_of, open_model
from edgespec_runtimes.ort.processor.flash_attention import SWITCH

ARM64 = ["aarch64", "arm64", "ARM64"]


@pytest.fixture
def machine_named(monkeypatch):
    monkeypatch.delenv(SWITCH, raising=False)

    def named(name):
        monkeypatch.setattr("platform.machine", lambda: name)

    return named


@pytest.fixture
def seen(monkeypatch, tiny_folder):
    """The variable's values while sessions of a model are made."""
    session = ort.InferenceSession
    values = []

    def recorded(*arguments, **options):
        values.append(os.environ.get(SWITCH))
        return session(*arguments, **options)

    monkeypatch.setattr(ort, "InferenceSession", recorded)

    def opened():
        values.clear()
        open_model(Path(tiny_folder), read_manifest(tiny_folder).target, "fp32", device=Device(1))
        return set(values)

    return opened


@pytest.mark.parametrize("name", ARM64)
def test_on_arm64_sessions_are_made_without_it(seen, machine_named, name):
    machine_named(name)
    assert seen() == {"1"}
    assert SWITCH not in os.environ


@pytest.mark.parametrize("value", ["0", "1"])
@pytest.mark.parametrize("name", ["aarch64", "x86_64"])
def test_a_value_that_the_user_has_set_stays(seen, machine_named, monkeypatch, name, value):
    machine_named(name)
    monkeypatch.setenv(SWITCH, value)
    assert seen() == {value}
    assert os.environ[SWITCH] == value


def test_elsewhere_nothing_is_set(seen, machine_named):
    machine_named("x86_64")
    assert seen() == {None}


def test_after_a_failed_session_the_variable_is_gone(machine_named, tiny_folder, tmp_path):
    machine_named("aarch64")
    manifest = read_manifest(tiny_folder)
    with pytest.raises(Exception, match="cannot be loaded"):
        open_model(tmp_path, manifest.target, "fp32", device=Device(1))
    assert SWITCH not in os.environ


def test_each_setting_is_a_machine_of_its_own(machine_named, monkeypatch):
    machine_named("x86_64")
    assert SWITCH not in str(machine_of(Device(1)))
    machine_named("aarch64")
    off = machine_of(Device(1))
    assert f"{SWITCH}=1" in str(off)
    monkeypatch.setenv(SWITCH, "1")
    assert machine_of(Device(1)) == off
    monkeypatch.setenv(SWITCH, "0")
    assert machine_of(Device(1)).digest != off.digest
