"""Claim: whoever runs without kernels on a processor that has some is told why, and how to get
them, in one line; whoever has them, or cannot have them, or does not want them, is told nothing.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import sys
from pathlib import Path

import pytest

from command import run
from edgespec import errors
from edgespec.cli.progress_lines import say_missing_kernels
from edgespec.device import kernels, processor
from edgespec.device.kernels import OFF, SWITCH, installed_kernels, missing_kernels
from edgespec.errors import in_checkout

GETTING = r"to decode faster: pip install \S+/runtimes/kernels"
SOURCE = Path(__file__).parents[2] / "runtimes" / "kernels" / "edgespec_kernels"
NOT_COMPILED = "0.12.0+not.compiled.needs.a.cpp.compiler"


@pytest.fixture(autouse=True)
def looks_again():
    kernels._installed.cache_clear()
    yield
    kernels._installed.cache_clear()


@pytest.fixture
def not_installed(monkeypatch):
    """This processor has kernels and the package is not there."""
    monkeypatch.setattr(kernels, "has_kernels", lambda: True)
    monkeypatch.setitem(sys.modules, "edgespec_kernels", None)


def one_line(why: str) -> str:
    assert "\n" not in why
    return why


def test_kernels_that_are_not_installed_are_named_with_the_command(not_installed):
    assert installed_kernels() is None
    why = one_line(missing_kernels())
    assert re.fullmatch(f"edgespec-kernels are not installed; {GETTING}", why)


def test_kernels_installed_later_are_found_in_the_same_process(monkeypatch):
    pytest.importorskip("edgespec_kernels")
    with monkeypatch.context() as before:
        before.setitem(sys.modules, "edgespec_kernels", None)
        assert installed_kernels() is None
    assert (installed_kernels() is None) == (missing_kernels() is not None)
    assert installed_kernels() is not None or not processor.has_kernels()


@pytest.mark.parametrize(
    ("version", "why"),
    [
        (NOT_COMPILED, r"edgespec-kernels were installed without a C\+\+ compiler.*"),
        ("0.1.0", "edgespec-kernels 0.1.0 are too old"),
    ],
)
def test_kernels_that_cannot_be_used_say_why(version, why, monkeypatch, tmp_path, caplog):
    shutil.copytree(SOURCE, tmp_path / SOURCE.name)
    record = tmp_path / f"edgespec_kernels-{version}.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: edgespec-kernels\nVersion: {version}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "edgespec_kernels", raising=False)
    monkeypatch.setattr(kernels, "has_kernels", lambda: True)
    assert installed_kernels() is None
    assert re.fullmatch(f"{why}; {GETTING}", one_line(missing_kernels()))
    assert ("is older than" in caplog.text) == (version == "0.1.0")
    assert "install them again" not in caplog.text


def test_a_damaged_package_is_one_line(monkeypatch):
    package = pytest.importorskip("edgespec_kernels")
    monkeypatch.setattr(kernels, "has_kernels", lambda: True)

    def damaged() -> Path:
        raise OSError("wrong ELF class\nand more")

    monkeypatch.setattr(package, "library", damaged)
    assert re.fullmatch(f"edgespec-kernels are damaged; {GETTING}", one_line(missing_kernels()))


def test_nothing_is_said_where_they_run_are_off_or_cannot_run(not_installed, monkeypatch, capsys):
    with monkeypatch.context() as off:
        off.setenv(SWITCH, OFF)
        assert missing_kernels() is None
    monkeypatch.setattr(kernels, "has_kernels", lambda: False)
    assert missing_kernels() is None
    say_missing_kernels()
    assert capsys.readouterr().err == ""


def test_where_the_package_is_no_checkout_the_command_says_that_it_needs_one(monkeypatch, tmp_path):
    monkeypatch.setattr(errors, "CHECKOUT", tmp_path)
    assert in_checkout("export") == "pip install ./export in a checkout of edgespec"
    assert in_checkout(".[server]") == "pip install '.[server]' in a checkout of edgespec"


def test_an_editable_install_stays_one(monkeypatch, tmp_path):
    folder = tmp_path / "with space"
    (folder / "runtimes" / "kernels").mkdir(parents=True)
    (folder / "runtimes" / "kernels" / "pyproject.toml").touch()
    monkeypatch.setattr(errors, "CHECKOUT", folder)
    assert in_checkout(".[server]") == f"pip install -e '{folder}[server]'"
    assert in_checkout("runtimes/kernels") == f"pip install '{folder}/runtimes/kernels'"


# --- the command line ----------------------------------------------------------------------------


def test_stats_and_inspect_say_it(tiny_folder, not_installed):
    said = run("generate", tiny_folder, "a", "-n", 1, "--stats").stderr
    line = f"kernels: none, ONNX Runtime runs the operators: edgespec-kernels are not .*; {GETTING}"
    assert re.search(f"^{line}$", said, re.MULTILINE)
    assert re.search(f"^{line}$", run("inspect", tiny_folder).stdout, re.MULTILINE)


@pytest.mark.parametrize("command", [("generate", "a", "-n", "1"), ("inspect",)], ids=str)
def test_programs_read_it_in_a_field(command, tiny_folder, not_installed):
    name, *options = command
    data = json.loads(run(name, tiny_folder, *options, "--json").stdout)
    assert data["kernels"] is None
    assert re.search(GETTING, data["kernels_missing"])


def test_a_switch_that_is_off_is_named(tiny_folder, monkeypatch):
    monkeypatch.setenv(SWITCH, OFF)
    said = run("inspect", tiny_folder).stdout
    assert "\nkernels: switched off (EDGESPEC_KERNELS=0)" in said


def test_what_chat_and_serve_say_is_one_line(not_installed, capsys):
    say_missing_kernels()
    said = capsys.readouterr().err
    assert re.fullmatch(f"slower than it could be: edgespec-kernels are not .*; {GETTING}\n", said)


# --- the processor -------------------------------------------------------------------------------

INTEL = "processor\t: 0\nflags\t\t: fpu sse2 fma avx f16c avx2 bmi2\n"
RASPBERRY_PI_5 = "processor\t: 0\nFeatures\t: fp asimd evtstrm aes asimdhp asimdrdm asimddp\n"


@pytest.mark.parametrize(
    ("machine", "cpuinfo", "has"),
    [
        ("x86_64", INTEL, True),
        ("x86_64", INTEL.replace("avx2 ", ""), False),
        ("x86_64", "", False),
        ("aarch64", RASPBERRY_PI_5, True),
        ("aarch64", RASPBERRY_PI_5.replace(" asimddp", ""), False),  # a Raspberry Pi 4
        ("riscv64", "isa\t: rv64imafdc\n", False),
    ],
)
def test_the_features_of_linux_decide(machine, cpuinfo, has, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: cpuinfo)
    assert processor.has_kernels() == has


@pytest.mark.parametrize(("machine", "has"), [("arm64", True), ("x86_64", False)])
def test_of_apples_computers_those_with_arm_have_kernels(machine, has, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert processor.has_kernels() == has


def test_this_processor_is_judged_as_the_kernels_judge_it():
    package = pytest.importorskip("edgespec_kernels")
    assert processor.has_kernels() == (package.target() is not None)
