"""Claim: edgespec.h's structures and functions are those that its bindings have."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

import native_library

NATIVE = Path(__file__).parents[2] / "runtimes" / "native"
HEADER = re.sub(r"/\*.*?\*/", "", (NATIVE / "include" / "edgespec.h").read_text(), flags=re.S)
TYPES = {
    "size_t": ctypes.c_size_t,
    "double": ctypes.c_double,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
}
BINDINGS = {
    "edgespec_load_options": native_library.LoadOptions,
    "edgespec_bias": native_library.Bias,
    "edgespec_options": native_library.Options,
    "edgespec_turn": native_library.Turn,
    "edgespec_piece": native_library.Piece,
}


def declared(name: str) -> list[tuple[str, str, bool]]:
    """Name, type and whether it is a pointer, of each field of a structure."""
    body = re.search(rf"typedef struct {name} {{(.*?)}} {name};", HEADER, re.S)[1]
    fields = []
    for declaration in filter(None, map(str.strip, body.split(";"))):
        kind, names = re.fullmatch(r"(?:const )?(\w+)(.*)", declaration, re.S).groups()
        split = names.replace("const", "").split(",")
        fields += [(one.strip(" *"), kind, "*" in names) for one in split]
    return fields


def test_all_structures_are_compared():
    assert set(re.findall(r"typedef struct (\w+) {", HEADER)) == set(BINDINGS)


@pytest.mark.parametrize("name", BINDINGS)
def test_structures_have_the_headers_fields(name):
    fields = declared(name)
    bound = BINDINGS[name]._fields_
    assert [field for field, *_ in bound] == [field for field, *_ in fields]
    for (field, kind), (_, written, is_pointer) in zip(bound, fields, strict=True):
        if is_pointer:
            assert ctypes.sizeof(kind) == ctypes.sizeof(ctypes.c_void_p), field
        else:
            assert kind is TYPES[written], field


def test_the_cpp_header_calls_every_function():
    functions = set(re.findall(r"\b(edgespec_\w+)\(", HEADER))
    called = set(re.findall(r"\b(edgespec_\w+)\b", (NATIVE / "include/edgespec.hpp").read_text()))
    assert functions - called == {"edgespec_abi", "edgespec_version"}


def test_the_library_exports_what_the_header_declares():
    functions = set(re.findall(r"\b(edgespec_\w+)\(", HEADER))
    exported = set(re.findall(r"(edgespec_\w+);", (NATIVE / "exported.map").read_text()))
    assert exported - {"edgespec_hook_"} == functions
