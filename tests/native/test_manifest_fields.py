"""Claim: a manifest with a field of another type, out of its range, missing or unknown is refused
by libedgespec with Python's sentence. The types are those of Python's own dataclasses."""

from __future__ import annotations

import copy
import json
from importlib import util
from pathlib import Path

import pytest

from depth import by_turns, one_in
from edgespec.artifact.manifest import manifest_digest, read_manifest
from edgespec.errors import EdgespecError
from native_library import NativeError

SCRIPTS = Path(__file__).parents[2] / "runtimes" / "native" / "scripts"
NOT_READ = ("generation", "languages")  # but for their types
MISSING, UNKNOWN = object(), object()
VALUES = (None, True, 1.5, -1.5, -1, 0, 2**40, "x", "", [], {}, ["it's"], {"x": 1})
CHANGES = (*VALUES, MISSING, UNKNOWN)
CHECKS = 5  # tests, which share the fields


def test_the_types_are_those_of_pythons_classes():
    spec = util.spec_from_file_location("types", SCRIPTS / "make_manifest_types.py")
    script = util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.TYPES.read_text(encoding="utf-8") == script.types_text()


def places(data, path=()):
    """The keys that lead to each value."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def changed(manifest, place, value):
    """A manifest with another value, or None where that cannot be."""
    data = copy.deepcopy(manifest)
    part = data
    for key in place[:-1]:
        part = part[key]
    if value is MISSING:
        del part[place[-1]]
    elif value is UNKNOWN and isinstance(part[place[-1]], dict):
        part[place[-1]]["more"] = 1
    elif value is UNKNOWN:
        return None
    else:
        part[place[-1]] = value
    data["digest"] = manifest_digest(data)
    return data


def pythons(folder):
    """What a folder is refused with; None if it is not."""
    try:
        read_manifest(folder)
    except EdgespecError as error:
        return str(error)
    return None


def librarys(model, folder):
    try:
        model.estimate(folder)
    except NativeError as error:
        return str(error)
    return None


@one_in(3)
@pytest.mark.parametrize("turn", range(CHECKS))
def test_damaged_fields_are_refused_with_pythons_sentences(native_tiny, own_pair, turn):
    path = own_pair / "edgespec.json"
    manifest = json.loads(path.read_text())
    cases = [(place, value) for place in places(manifest) for value in CHANGES]
    refused = 0
    for place, value in by_turns(cases, turn, CHECKS):
        data = changed(manifest, place, value)
        if data is None or (place[0] in NOT_READ and len(place) > 1):
            continue
        path.write_text(json.dumps(data))
        expected = pythons(own_pair)
        assert librarys(native_tiny, own_pair) == expected, (place, value)
        refused += expected is not None
    assert refused > 100


def test_a_folder_that_is_not_there_is_told_from_one_that_is_no_pair(native_tiny, tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        assert librarys(native_tiny, folder) == pythons(folder)
