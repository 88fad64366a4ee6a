"""Claim: the library shows its own interface alone, and holds no code for another processor."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import edgespec
from depth import deep
from native_library import LIBRARY, runtime_library

NATIVE = Path(__file__).parents[2] / "runtimes" / "native"
EXAMPLES = NATIVE / "examples"
HEADER = NATIVE / "include" / "edgespec.h"
COMPILERS = {"c": ("cc", "-std=c99"), "cpp": ("c++", "-std=c++17")}
AVX = re.compile(r"%[yz]mm\d|%k[1-7]\b")
AVX512 = re.compile(r"%zmm\d|%k[1-7]\b|%[xy]mm(1[6-9]|2\d|3[01])\b")
# A target's own functions, and what the compiler made of one object's functions for itself.
OF_A_TARGET = re.compile(r"edgespec_(\w+_)?(amx|avx512|avxvnni|avx2)|\.(isra|part|constprop)\.")
binutils = pytest.mark.skipif(shutil.which("objdump") is None, reason="needs binutils")


def output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def compiled(example: str, language: str, folder: Path, sources: Path = EXAMPLES) -> Path:
    compiler, standard = COMPILERS[language]
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    program, source = folder / example, sources / f"{example}.{language}"
    flags = [standard, "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE / 'include'}"]
    output(compiler, *flags, source, LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-o", program)
    return program


@binutils
def test_it_exports_what_the_header_declares(built):
    declared = set(re.findall(r"\b(edgespec_\w+)\(", HEADER.read_text()))
    exported = {
        line.split()[-1] for line in output("nm", "-D", "--defined-only", LIBRARY).splitlines()
    }
    assert exported == declared


@binutils
def test_its_segments_fit_pages_of_16_kilobytes(built):
    loads = [line for line in output("objdump", "-p", LIBRARY).splitlines() if " LOAD " in line]
    assert loads
    assert {int(line.rsplit("2**", 1)[1]) for line in loads} == {14}


@binutils
def test_its_data_are_constants_but_for_open_handles(built):
    """They are counted; each thread has its message; two values are made once and never change."""
    state = r"Handles<|next_number\b|message_of_thread\b"
    known = re.compile(rf"k[A-Z]\w*$|{state}|composition\(.*::rows$|.*::none$")
    symbols = output("nm", "-C", "--defined-only", LIBRARY)
    data = re.findall(r" [bBdD] edgespec::(?:\(anonymous namespace\)::)?(.+)", symbols)
    assert data
    assert [name for name in data if not known.match(name)] == []


@pytest.mark.parametrize("language", COMPILERS)
def test_the_examples_go_on_as_python_does(built, tiny_folder, tiny, tmp_path, language):
    program = compiled("tokens", language, tmp_path)
    prompt = [5, 60, 7]
    expected = tiny.generate(prompt, max_new_tokens=32, draft=False).token_ids
    found = output(program, tiny_folder, runtime_library(), *map(str, prompt))
    assert list(map(int, found.split())) == expected
    refused = subprocess.run([program, tmp_path, "x", "5"], capture_output=True, check=False)
    assert (refused.returncode, refused.stderr.count(b"\n")) == (1, 1)


@pytest.mark.parametrize("language", COMPILERS)
def test_the_examples_answer_as_python_does(built, chat_folder, tmp_path, language):
    program = compiled("chat", language, tmp_path)
    pair = edgespec.load(chat_folder)  # with as many threads as the program
    expected = pair.generate([{"role": "user", "content": "Hi"}], max_new_tokens=64, draft=False)
    assert output(program, chat_folder, runtime_library(), "Hi") == expected.text


@pytest.mark.parametrize("language", COMPILERS)
def test_the_examples_make_several_texts_as_python_does(
    built, int8_folder, int8_pair, tmp_path, language
):
    program, texts = compiled("together", language, tmp_path), ["Hi", "A few words", "Hi there"]
    options = {"chat": False, "max_new_tokens": 32, "draft": False}
    expected = [int8_pair.generate(text, **options) for text in texts]
    found = output(program, int8_folder, runtime_library(), *texts)
    if language == "cpp":
        assert found == "".join(f"{one.text}\n" for one in expected)
        return
    made = [list(map(int, line.split())) for line in found.splitlines()]
    for number, one in enumerate(expected):
        assert [token for text, token in made if text == number] == one.token_ids
    refused = subprocess.run([program, tmp_path, "x", "5"], capture_output=True, check=False)
    assert (refused.returncode, refused.stderr.count(b"\n")) == (1, 1)


def test_the_example_translates_as_python_does(built, pair_folder, tmp_path):
    text = "the library is new and fast"
    program = compiled("translate", "c", tmp_path)
    expected = edgespec.load(pair_folder).generate(text, max_new_tokens=64, draft=False)
    assert output(program, pair_folder, runtime_library(), text) == expected.text


@pytest.mark.parametrize("language", COMPILERS)
def test_the_examples_transcribe_as_python_does(built, whisper_folder, tmp_path, language):
    program = compiled("transcribe", language, tmp_path)
    sound = (0.1 * np.random.default_rng(6).standard_normal(5 * 16000)).astype("<f4")
    (tmp_path / "sound").write_bytes(sound.tobytes())
    segments = edgespec.load(whisper_folder).transcribe(sound, draft=False).segments
    expected = "".join(f"{one.start:.2f} {one.end:.2f} {one.text}\n" for one in segments)
    assert output(program, whisper_folder, runtime_library(), tmp_path / "sound") == expected
    refused = subprocess.run(
        [program, tmp_path, "x", tmp_path / "sound"], capture_output=True, check=False
    )
    assert (refused.returncode, refused.stderr.count(b"\n")) == (1, 1)


def test_a_dropped_text_is_an_error_in_cpp(built, tiny_folder, tmp_path):
    program = compiled("dropped", "cpp", tmp_path, Path(__file__).parent / "programs")
    lines = output(program, tiny_folder, runtime_library()).splitlines()
    assert lines == ["another text has begun in this session", "2 pieces"]


def test_examples_are_short():
    examples = list(EXAMPLES.iterdir())
    assert len(examples) >= 9
    assert max(len(file.read_text().splitlines()) for file in examples) <= 40


@pytest.mark.skipif(
    shutil.which("cmake") is None or shutil.which("pkg-config") is None,
    reason="needs cmake and pkg-config",
)
def test_what_is_installed_is_found_by_pkg_config(built, tmp_path):
    output("cmake", "--install", LIBRARY.parent, "--prefix", tmp_path / "first", "--strip")
    (tmp_path / "first").rename(tmp_path / "moved")
    (found,) = (tmp_path / "moved").rglob("edgespec.pc")
    flags = output(
        "env", f"PKG_CONFIG_PATH={found.parent}", "pkg-config", "--cflags", "--libs", "edgespec"
    )
    program = tmp_path / "chat"
    output("cc", "-std=c99", NATIVE / "examples" / "chat.c", *flags.split(), "-o", program)
    libraries = {"LD_LIBRARY_PATH": str(found.parents[1])}
    refused = subprocess.run(
        [program], env=os.environ | libraries, capture_output=True, check=False
    )
    assert (refused.returncode, refused.stderr.split()[0]) == (2, b"chat")


@deep
@binutils
def test_shared_functions_run_on_every_processor(built):
    """Of those of the C++ standard library and of JSON, the link keeps one copy. What the library's
    own code uses must need no AVX; what only kernels use, none that the weakest of them lacks."""
    function, wide, widest = "", set(), set()
    for line in output("objdump", "-d", "--no-show-raw-insn", LIBRARY).splitlines():
        if line.endswith(">:"):
            function = line.split("<", 1)[1].removesuffix(">:")
        elif AVX.search(line):
            wide.add(function)
            if AVX512.search(line):
                widest.add(function)
    own = set()
    for file in LIBRARY.parent.glob("CMakeFiles/own.dir/**/*.o"):
        symbols = (line.split() for line in output("nm", "--defined-only", file).splitlines())
        own |= {name for _, kind, name in symbols if kind in "WTt"}
    assert wide, "the kernels' own"
    assert own & wide == set()
    assert {name for name in widest if not OF_A_TARGET.search(name)} == set()
