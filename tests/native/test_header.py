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
    "edgespec_memory": native_library.Memory,
    "edgespec_bias": native_library.Bias,
    "edgespec_options": native_library.Options,
    "edgespec_range": native_library.Range,
    "edgespec_turn": native_library.Turn,
    "edgespec_transcript_options": native_library.TranscriptOptions,
    "edgespec_segment": native_library.Segment,
    "edgespec_piece": native_library.Piece,
}


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    """These compare sources, also where the library was not built."""


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


FUNCTIONS = set(re.findall(r"\b(edgespec_\w+)\(", HEADER))
SOURCES = {
    "C++": (NATIVE / "include", "*.hpp"),
    "Java": (NATIVE / "java" / "jni", "*"),
    "C#": (NATIVE / "csharp", "*.cs"),
    "Swift": (NATIVE / "swift" / "Sources" / "Edgespec", "*.swift"),
}


def source(language: str) -> str:
    folder, files = SOURCES[language]
    return "\n".join(file.read_text() for file in sorted(folder.glob(files)))


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


@pytest.mark.parametrize("language", SOURCES)
def test_every_binding_calls_every_function(language):
    called = set(re.findall(r"\b(edgespec_\w+)\(", source(language)))
    closing = {"edgespec_close", "edgespec_close_session", "edgespec_close_batch"}
    assert FUNCTIONS - called - closing == set()
    assert set(re.findall(r"\bedgespec_close\w*", source(language))) >= closing


def arguments(text: str) -> dict[str, set[int]]:
    """How many arguments each function is declared or called with."""
    counts: dict[str, set[int]] = {}
    for found in re.finditer(r"\b(edgespec_\w+)\(", text):
        depth, commas, start = 1, 0, found.end()
        for end in range(start, len(text)):
            depth += (text[end] in "([{") - (text[end] in ")]}")
            commas += depth == 1 and text[end] == ","
            if not depth:
                break
        is_empty = text[start:end].strip() in ("", "void")
        counts.setdefault(found[1], set()).add(0 if is_empty else commas + 1)
    return counts


@pytest.mark.parametrize("language", SOURCES)
def test_bindings_call_with_the_headers_arguments(language):
    declared_with = {name: count for name, count in arguments(HEADER).items() if name in FUNCTIONS}
    called_with = arguments(source(language))
    assert len(declared_with) > 25
    for name, counts in declared_with.items():
        assert called_with.get(name, counts) == counts, name


def test_swift_sets_and_reads_the_headers_fields():
    """Numbers of options are the header's structure itself; lists and the seed are set."""
    swift = source("Swift")
    listed = {
        field
        for field, _, is_pointer in declared("edgespec_options")
        if is_pointer or field.endswith("_count") or field in ("has_seed", "seed")
    }
    assert set(re.findall(r"\ball\.(\w+)", swift)) == listed
    fields = {field for field, *_ in declared("edgespec_piece")}
    assert set(re.findall(r"\bmade\.(\w+)", swift)) == fields
    assert set(re.findall(r"\bmemory\.(\w+)", swift)) == {"size", "weights", "caches"}
    transcripts = declared("edgespec_transcript_options")
    listed = {name for name, _, is_pointer in transcripts if is_pointer} | {"temperatures_count"}
    assert set(re.findall(r"\bwhole\.(\w+)", swift)) == listed
    fields = {field for field, *_ in declared("edgespec_segment")}
    assert set(re.findall(r"\bfound\.(\w+)", swift)) == fields


@pytest.mark.parametrize("name", BINDINGS)
def test_csharp_has_the_headers_structures(name):
    kinds = {"size_t": "UIntPtr", "int32_t": "int", "int64_t": "long", "uint64_t": "ulong"}
    structure = camel(name.removeprefix("edgespec_"))
    structure = structure[0].upper() + structure[1:]
    body = re.search(rf"internal struct {structure}\s+{{(.*?)}}", source("C#"), re.S)[1]
    assert re.findall(r"public (\w+) (\w+);", body) == [
        ("IntPtr" if is_pointer else kinds.get(kind, kind), field)
        for field, kind, is_pointer in declared(name)
    ]


@pytest.mark.parametrize(
    "name", ["edgespec_load_options", "edgespec_options", "edgespec_transcript_options"]
)
@pytest.mark.parametrize("language", ["Java", "C#"])
def test_bindings_set_every_option(language, name):
    structure = source(language)
    missing = {field for field, *_ in declared(name) if f"options_.{field} = " not in structure}
    if language == "C#":
        missing = {field for field in missing if f"options.{field} = " not in structure}
    assert missing == {"size"}


@pytest.mark.skipif(not native_library.LIBRARY.exists(), reason="make native builds the library")
@pytest.mark.parametrize("kind", ["load_options", "options", "transcript_options"])
def test_defaults_of_bindings_are_the_librarys(kind):
    given = BINDINGS[f"edgespec_{kind}"]
    library, defaults = native_library.opened(native_library.LIBRARY), given()
    getattr(library, f"edgespec_{kind}_defaults")(ctypes.byref(defaults))
    classes = NATIVE / "java" / "src" / "main" / "java" / "edgespec"
    java = (classes / f"{given.__name__}.java").read_text()
    file = "TranscriptOptions.cs" if kind == "transcript_options" else "Options.cs"
    csharp = (NATIVE / "csharp" / file).read_text()
    compared = 0
    for field, _, is_pointer in declared(f"edgespec_{kind}"):
        if is_pointer or field == "size" or field.endswith("_count"):
            continue
        if field in ("draft", "rule", "has_seed", "seed"):
            continue  # enumerations and null: test_java_and_csharp.py has texts with them
        value = getattr(defaults, field)
        name = camel(field)
        for text, one in ((java, name), (csharp, name[0].upper() + name[1:])):
            (written,) = re.findall(rf"public \w+ {one} = (.+);", text)
            assert {"true": 1, "false": 0}.get(written, written) in (value, f"{value:g}"), field
            compared += 1
    assert compared >= 6


def test_numbers_of_enumerations_are_the_headers():
    """Java's are in the header's order; C#'s are written."""
    for name, first in [("Rule", "RULE_"), ("Draft", "DRAFT_"), ("Ending", ""), ("Status", "")]:
        body = re.search(rf"typedef enum edgespec_{name.lower()} {{(.*?)}}", HEADER, re.S)[1]
        numbers = re.findall(r"EDGESPEC_(\w+) = (\d+)", body)
        expected = [one.removeprefix(first) for one, _ in numbers]
        assert [int(number) for _, number in numbers] == list(range(len(numbers)))
        csharp = re.search(rf"public enum {name}\s+{{(.*?)}}", source("C#"), re.S)[1]
        assert re.findall(r"(\w+) = (\d+),", csharp) == [
            ("".join(map(str.capitalize, one.split("_"))), str(number))
            for number, one in enumerate(expected)
        ]
        classes = NATIVE / "java" / "src" / "main" / "java" / "edgespec"
        file = "EdgespecException" if name == "Status" else name
        java = re.search(
            rf"enum {name} {{(.*?)\n *}}", (classes / f"{file}.java").read_text(), re.S
        )[1]
        assert re.findall(r"^ *([A-Z_]+),", java, re.M) == expected


def test_bindings_know_the_headers_abi():
    abi = re.search(r"#define EDGESPEC_ABI (\d+)", HEADER)[1]
    assert f"const uint Abi = {abi};" in source("C#")


def test_the_library_exports_what_the_header_declares():
    exported = set(re.findall(r"(edgespec_\w+);", (NATIVE / "exported.map").read_text()))
    assert exported - {"edgespec_hook_"} == FUNCTIONS
