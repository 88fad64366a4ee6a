"""Claim: sessions use huge pages, let idle threads sleep, and name an ONNX Runtime too old."""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path

import onnxruntime as ort
import pytest

from edgespec.device.device import HERE, Device
from edgespec.errors import EdgespecError
from edgespec_runtimes import machine
from edgespec_runtimes.ort.processor import huge_pages
from edgespec_runtimes.ort.processor.huge_pages import HUGE_PAGE, on_huge_pages
from edgespec_runtimes.ort.session import open_session


def bytes_on_huge_pages(address: int) -> int:
    """Bytes on huge pages in the mapping that holds `address`."""
    inside, found = False, 0
    with open("/proc/self/smaps") as file:
        for line in file:
            name, value, *_ = line.split()
            if "-" in name and not name.endswith(":"):
                start, end = (int(part, 16) for part in name.split("-"))
                inside = start <= address < end
            elif inside and name == "AnonHugePages:":
                found = 1024 * int(value)
    return found


@pytest.fixture
def allocate():
    """Allocates memory as an allocator does: private, anonymous, written to."""
    allocated = []

    def allocate() -> mmap.mmap:
        memory = mmap.mmap(-1, 4 * HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory[:] = bytes(range(256)) * (4 * HUGE_PAGE // 256)
        allocated.append(memory)
        return memory

    yield allocate
    for memory in allocated:
        memory.close()


def address_of(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows this hint")
def test_memory_allocated_inside_moves_and_keeps_its_content(allocate):
    before = allocate()
    with on_huge_pages():
        inside = allocate()
    huge = bytes_on_huge_pages(address_of(inside))
    try:
        allocate().madvise(huge_pages.MADV_COLLAPSE)
    except OSError:
        pytest.skip("this system makes no huge pages on request")
    assert huge >= 2 * HUGE_PAGE
    assert inside[:] == before[:] == bytes(range(256)) * (4 * HUGE_PAGE // 256)


def test_on_other_systems_nothing_is_done(allocate, monkeypatch):
    monkeypatch.setattr(sys, "platform", "another system")
    monkeypatch.setattr(huge_pages, "Path", None)  # calling it would fail
    with on_huge_pages():
        allocate()


def test_a_mapped_file_whose_name_is_not_utf8_does_no_harm(allocate, monkeypatch, tmp_path):
    maps = tmp_path / "maps"
    maps.write_bytes(b"7f00-7f01 rw-p 00000000 08:01 77 /tmp/\xff\n")
    monkeypatch.setattr(huge_pages, "Path", lambda _: maps)
    with on_huge_pages():
        allocate()


def test_an_error_inside_is_raised():
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
def test_idle_threads_sleep_after_a_short_time(version, setting, value, monkeypatch):
    """Otherwise they use the cores of the model that works: drafting was three times slower."""
    options_seen = []
    monkeypatch.setattr(ort, "__version__", version)
    monkeypatch.setattr(
        ort, "InferenceSession", lambda _, options, **__: options_seen.append(options)
    )
    open_session(Path("decoder.onnx"), Device(2))
    assert options_seen[0].get_session_config_entry(setting) == value


@pytest.mark.parametrize("version", ["1.23.2", "1.24.4", "0.9"])
def test_an_onnxruntime_that_lacks_operators_is_named(version, monkeypatch):
    monkeypatch.setattr(ort, "__version__", version)
    with pytest.raises(EdgespecError, match=f"onnxruntime {version} .* 1.25 or newer"):
        open_session(Path("decoder.onnx"), HERE)


def test_cuda_multiplies_fp32_in_fp32(monkeypatch):
    """Its own default is TF32, with 10 bits."""
    seen = []

    class Session:
        def __init__(self, _, options, providers, **__):
            seen.extend(providers)

        def get_providers(self):
            return ["CUDAExecutionProvider"]

    titles = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(ort, "get_available_providers", lambda: titles)
    monkeypatch.setattr(ort, "InferenceSession", Session)
    open_session(Path("decoder.onnx"), Device(1, "cuda"))
    assert seen == [("CUDAExecutionProvider", {"use_tf32": "0"}), "CPUExecutionProvider"]


X86 = (
    "processor : 0\nmodel name : AMD EPYC\nmodel : 2\nflags : avx2 {}\n\nprocessor : 1\nmodel : 9\n"
)
ARM = "processor : 0\nFeatures : asimd {}\nCPU part : 0xd0b\n"


@pytest.mark.parametrize("cpuinfo", [X86, ARM], ids=["x86", "arm"])
def test_a_machine_is_identified_by_its_processors_features(cpuinfo, monkeypatch, tmp_path):
    """In a virtual machine, the processor's name may be only that of its vendor."""
    said = []
    for number, feature in enumerate(("", "", "vnni")):
        file = tmp_path / str(number)
        file.write_text(cpuinfo.format(feature))
        monkeypatch.setattr(machine, "Path", lambda _, file=file: file)
        said.append(machine.machine_of(HERE))
    assert said[0] == said[1] != said[2]
    assert all(str(record).count("#") == 1 for record in said)
