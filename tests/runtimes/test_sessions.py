"""How sessions are set up: pages of their memory, threads that wait."""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path

import onnxruntime as ort
import pytest

from edgespec.core.device import HERE, Device
from edgespec.errors import EdgespecError
from edgespec_runtimes import machine
from edgespec_runtimes.ort import huge_pages
from edgespec_runtimes.ort.huge_pages import PAGE, on_huge_pages
from edgespec_runtimes.ort.session import open_session


def on_huge(place: int) -> int:
    """How many bytes of the mapping that holds `place` lie on huge pages."""
    inside, found = False, 0
    with open("/proc/self/smaps") as file:
        for line in file:
            name, value, *_ = line.split()
            if "-" in name and not name.endswith(":"):
                start, end = (int(part, 16) for part in name.split("-"))
                inside = start <= place < end
            elif inside and name == "AnonHugePages:":
                found = 1024 * int(value)
    return found


@pytest.fixture
def taken():
    """Takes memory as an allocator does: private, anonymous, written to."""
    kept = []

    def take() -> mmap.mmap:
        memory = mmap.mmap(-1, 4 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory[:] = bytes(range(256)) * (4 * PAGE // 256)
        kept.append(memory)
        return memory

    yield take
    for memory in kept:
        memory.close()


def place_of(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


@pytest.mark.skipif(sys.platform != "linux", reason="a hint that only Linux knows")
def test_memory_taken_inside_moves_and_keeps_its_content(taken):
    before = taken()
    with on_huge_pages():
        inside = taken()
    huge = on_huge(place_of(inside))
    try:
        taken().madvise(huge_pages.MADV_COLLAPSE)
    except OSError:
        pytest.skip("this system makes no huge pages on demand")
    assert huge >= 2 * PAGE
    assert inside[:] == before[:] == bytes(range(256)) * (4 * PAGE // 256)


def test_where_the_memory_cannot_be_seen_nothing_is_done(taken, monkeypatch):
    monkeypatch.setattr(sys, "platform", "elsewhere")
    monkeypatch.setattr(huge_pages, "Path", None)  # calling it would fail
    with on_huge_pages():
        taken()


def test_a_mapped_file_whose_name_is_no_text_does_no_harm(taken, monkeypatch, tmp_path):
    maps = tmp_path / "maps"
    maps.write_bytes(b"7f00-7f01 rw-p 00000000 08:01 77 /tmp/\xff\n")
    monkeypatch.setattr(huge_pages, "Path", lambda _: maps)
    with on_huge_pages():
        taken()


def test_an_error_inside_comes_out():
    with pytest.raises(ValueError, match="mine"), on_huge_pages():
        raise ValueError("mine")


@pytest.mark.parametrize(
    ("version", "setting", "value"),
    [
        ("1.25.1", "session.force_spinning_stop", "1"),
        ("1.26.0", "session.intra_op.spin_duration_us", "100"),
        ("1.31.1", "session.intra_op.spin_duration_us", "100"),
        ("2.0.0", "session.intra_op.spin_duration_us", "100"),
    ],
)
def test_threads_of_a_model_that_waits_are_soon_asleep(version, setting, value, monkeypatch):
    """Else they take the cores of the model that works: three times slower drafting."""
    opened = []
    monkeypatch.setattr(ort, "__version__", version)
    monkeypatch.setattr(ort, "InferenceSession", lambda _, options, **__: opened.append(options))
    open_session(Path("decoder.onnx"), Device(2))
    assert opened[0].get_session_config_entry(setting) == value


@pytest.mark.parametrize("version", ["1.23.2", "1.24.4", "0.9"])
def test_a_runtime_that_lacks_operators_of_the_graphs_is_named(version, monkeypatch):
    monkeypatch.setattr(ort, "__version__", version)
    with pytest.raises(EdgespecError, match=f"onnxruntime {version} .* 1.25 or newer"):
        open_session(Path("decoder.onnx"), HERE)


X86 = (
    "processor : 0\nmodel name : AMD EPYC\nmodel : 2\nflags : avx2 {}\n\nprocessor : 1\nmodel : 9\n"
)
ARM = "processor : 0\nFeatures : asimd {}\nCPU part : 0xd0b\n"


@pytest.mark.parametrize("cpuinfo", [X86, ARM], ids=["x86", "arm"])
def test_a_machine_is_told_by_what_its_processor_can_do(cpuinfo, monkeypatch, tmp_path):
    """A virtual machine's processor may have no more of a name than its maker's."""
    descriptions = []
    for number, feature in enumerate(("", "", "vnni")):
        file = tmp_path / str(number)
        file.write_text(cpuinfo.format(feature))
        monkeypatch.setattr(machine, "Path", lambda _, file=file: file)
        descriptions.append(machine.describe(HERE))
    assert descriptions[0] == descriptions[1] != descriptions[2]
    assert all(line.count("#") == 1 for line in descriptions)
