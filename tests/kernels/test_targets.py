"""Claim: kernels have the same bits on every instruction set.

A program without ONNX Runtime runs every kernel on stated inputs, NaN and infinities among them,
and prints a digest for each (runtimes/kernels/tests/bits.cpp). It is built for each target. The
digests in bits.txt are those of all of them, so targets that no one machine has are compared too.
Programs for ARM64 are built by a cross compiler and run by qemu.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from depth import DEEP, deep

KERNELS = Path(__file__).parents[2] / "runtimes/kernels"
DIGESTS = Path(__file__).with_name("bits.txt")
CMAKE = shutil.which(
    "cmake", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
)
ON_X86 = sys.platform == "linux" and platform.machine() == "x86_64"
ARM_TOOLS = ("aarch64-linux-gnu-g++", "qemu-aarch64")
ARM_TOOLCHAIN = f"-DCMAKE_TOOLCHAIN_FILE={KERNELS / 'cmake/aarch64-linux-gnu.cmake'}"
# cortex-a76 has the dot product and lacks i8mm.
PROCESSORS = {"neon": "cortex-a76", "i8mm": "max"}


def built(source: Path, build: Path, targets: list[str], *options: str) -> dict[str, Path]:
    """The programs of some targets."""
    configure = [CMAKE, "-S", source, "-B", build, "-DEDGESPEC_KERNELS_TESTS=ON"]
    subprocess.run([*configure, "--log-level=WARNING", *options], check=True)
    names = [f"bits_{target}" for target in targets]
    subprocess.run([CMAKE, "--build", build, "--parallel", "2", "--target", *names], check=True)
    return {target: build / "tests" / f"bits_{target}" for target in targets}


def digests(*command: str | Path) -> dict[str, str]:
    """The digest of each kernel."""
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return by_kernel(text)


def by_kernel(text: str) -> dict[str, str]:
    lines = [line.rsplit(" ", 2) for line in text.splitlines()]
    return {kernel: f"{count} {digest}" for kernel, count, digest in lines}


EXPECTED = by_kernel(DIGESTS.read_text())
needs_x86 = pytest.mark.skipif(not ON_X86 or CMAKE is None, reason="needs Linux on x86-64, CMake")


def native_targets() -> list[str]:
    """Targets of x86-64 that this processor has, the fastest first. By default that one, avx512
    and avx2. EDGESPEC_DEEP=1 adds what is between them, and the kernels of AVX-VNNI with its
    instruction in the encoding that AVX-512 VNNI has too."""
    flags = set(Path("/proc/cpuinfo").read_text().split()) if ON_X86 else set()
    avx512 = {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"}
    bfloat16 = {*avx512, "avx512_bf16"}
    needed = {
        "amx": {*bfloat16, "amx_tile", "amx_int8", "amx_bf16"},
        "avx512bf16": bfloat16,
        "avx512": avx512,
        "avxvnni_evex": avx512,
        "avxvnni": {"avx_vnni"},
        "avx2": {"avx2", "fma", "f16c"},
    }
    have = [target for target, those in needed.items() if those <= flags]
    return have if DEEP else [t for t in have if t in (have[0], "avx512", "avx2")]


@needs_x86
def test_the_targets_of_x86_have_the_same_bits(tmp_path):
    """If bits change on purpose, the package needs a new version: results of row invariance and
    stored digests belong to it. Then write what `bits_avx2` prints to bits.txt."""
    programs = built(KERNELS, tmp_path, native_targets())
    assert {target: digests(program) for target, program in programs.items()} == dict.fromkeys(
        programs, EXPECTED
    )


ASK = """
#include <cstdio>
#include "dispatch/target.h"
int main() {
  const edgespec::Choice choice = edgespec::chosen_target();
  std::printf("%s%s", choice.target.c_str(), choice.problem.c_str());
}
"""


@needs_x86
@pytest.mark.skipif("avx2" not in native_targets(), reason="needs AVX2")
@pytest.mark.parametrize(
    ("compiled", "answers"),
    [
        (
            "avx2",
            {"": "avx2", "avx2": "avx2", "x": "EDGESPEC_KERNELS is 'x'; give avx2, or 0 for"},
        ),
        (
            "neon",
            {
                "": "these kernels were compiled for another processor; compile them here",
                "avx2": "EDGESPEC_KERNELS is avx2, which was not compiled (EDGESPEC_TARGETS=all)",
                "neon": "EDGESPEC_KERNELS is 'neon'; give 0 for no kernels",
            },
        ),
    ],
)
def test_only_a_target_that_was_compiled_is_chosen(tmp_path, compiled, answers):
    (tmp_path / "ask.cpp").write_text(ASK)
    sources = [KERNELS / "src/dispatch/target.cpp", KERNELS / "src/dispatch/shared_library.cpp"]
    names = f'-DEDGESPEC_BUILT_TARGETS=",{compiled},"'
    command = ["c++", "-std=c++20", names, "-I", KERNELS / "src", tmp_path / "ask.cpp", *sources]
    subprocess.run([*command, "-o", tmp_path / "ask", "-ldl"], check=True)
    for switch, answer in answers.items():
        environment = {"EDGESPEC_KERNELS": switch}
        asked = subprocess.run(tmp_path / "ask", env=environment, capture_output=True, text=True)
        assert asked.stdout.startswith(answer)


@needs_x86
@pytest.mark.parametrize("target", ["neon", pytest.param("i8mm", marks=deep)])
def test_the_targets_of_arm_have_the_bits_of_those_of_x86(tmp_path, target):
    missing = [tool for tool in ARM_TOOLS if shutil.which(tool) is None]
    if missing and "CI" not in os.environ:
        pytest.skip(f"without {', '.join(missing)}")
    program = built(KERNELS, tmp_path, [target], ARM_TOOLCHAIN)[target]
    emulator = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-cpu", PROCESSORS[target]]
    assert digests(*emulator, program) == EXPECTED


AVX2 = "src/kernels/lanes/avx2.h"
# What is replaced by what; which kernels' digests change.
MUTANTS = {
    "a multiplication and an addition are not fused": (
        "_mm256_fmadd_ps(a.low, b.low, c.low), ",
        "_mm256_add_ps(_mm256_mul_ps(a.low, b.low), c.low), ",
        {"exp", "rope", "attention", "float16 product"},
    ),
    "neighbours are added first": (
        "const __m256 eight = _mm256_add_ps(x.low, x.high)",
        "const __m256 eight = _mm256_hadd_ps(x.low, x.high)",
        {"norm", "attention"},
    ),
}
CHOSEN = """
#include <cstdlib>
inline const int chosen_mutant = std::atoi(std::getenv("MUTANT"));
"""


@deep
@needs_x86
@pytest.mark.skipif("avx2" not in native_targets(), reason="needs AVX2")
def test_another_order_of_operations_changes_digests(tmp_path, monkeypatch):
    """So digests tell whether a compiler or a target keeps the order. One program has all mutants
    and takes the one that it is told; with none its digests are the usual ones."""
    source = shutil.copytree(KERNELS, tmp_path / "kernels", ignore=shutil.ignore_patterns("build"))
    header = source / AVX2
    text = header.read_text().replace("#pragma once", f"#pragma once\n{CHOSEN}", 1)
    assert CHOSEN in text
    for number, (old, new, _) in enumerate(MUTANTS.values(), 1):
        begin, call = old[: old.index("_mm256")], old[old.index("_mm256") :].rstrip(", ")
        other = new[new.index("_mm256") :].rstrip(", ")
        assert text.count(old) == 1
        text = text.replace(begin + call, f"{begin}chosen_mutant == {number} ? {other} : {call}")
    header.write_text(text)
    program = built(source, tmp_path / "build", ["avx2"])["avx2"]
    monkeypatch.setenv("MUTANT", "0")
    assert digests(program) == EXPECTED
    for number, (name, (*_, kernels)) in enumerate(MUTANTS.items(), 1):
        monkeypatch.setenv("MUTANT", str(number))
        found = digests(program)
        assert found.keys() == EXPECTED.keys()
        assert kernels <= {kernel for kernel in found if found[kernel] != EXPECTED[kernel]}, name
