"""How an ONNX Runtime session is set up for this work."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnxruntime as ort

from edgespec.errors import EdgespecError, UsageError
from edgespec_runtimes.huge_pages import on_huge_pages

__all__ = ["CPU", "describe", "one_line_errors", "open_session"]

CPU = "CPUExecutionProvider"
# What /proc/cpuinfo says of a processor's kind, on x86 and on ARM.
KIND = (
    *("model name", "cpu family", "model", "stepping", "flags"),
    *("CPU implementer", "CPU part", "CPU variant", "CPU revision", "Features"),
)
OLDEST = (1, 25)  # of ONNX Runtime: TensorScatter of opset 24


def open_session(graph: Path, threads: int | None) -> ort.InferenceSession:
    """A session on the CPU provider.

    Args:
        graph: the ONNX file; external data outside its folder is refused.
        threads: intra-op threads; None lets ONNX Runtime take the physical cores.

    Raises:
        EdgespecError: the file is missing, cut short or not a graph this runtime can run.
    """
    if threads is not None and threads < 1:
        raise UsageError(f"threads is {threads}; give 1 or more")
    version = _version(ort.__version__)
    if version < OLDEST:
        raise EdgespecError(
            f"onnxruntime {ort.__version__} lacks operators of these graphs, which need "
            f"{'.'.join(map(str, OLDEST))} or newer: pip install --upgrade onnxruntime"
        )
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.log_severity_level = 4  # every failure below is raised, with a way out
    options.add_session_config_entry(*_spinning(version))
    with one_line_errors(f"{graph} cannot be loaded"), on_huge_pages():
        return ort.InferenceSession(str(graph), options, providers=[CPU])


def _version(text: str) -> tuple[int, int]:
    major, minor, *_ = text.split(".")
    return int(major), int(minor)


def _spinning(version: tuple[int, int]) -> tuple[str, str]:
    """How long threads wait awake for the next call, as an entry of a session's configuration.

    Target and draft take turns: threads of the one that waits must not spin on the cores of the
    one that works. A tenth of a millisecond is not felt there, and the next call of the same model
    often comes that soon; to wake a thread would take as long.
    """
    if version < (1, 26):  # it knows no durations
        return "session.force_spinning_stop", "1"
    return "session.intra_op.spin_duration_us", "100"


@contextmanager
def one_line_errors(what: str = "the model cannot be run") -> Iterator[None]:
    """Whatever ONNX Runtime raises becomes an `EdgespecError`; its exceptions share no base."""
    try:
        yield
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        raise EdgespecError(f"{what} ({reason}); export the pair again") from None


def describe(threads: int | None) -> str:
    """What a measurement was made on; where this differs, other kernels may run."""
    cores = f"{threads} threads" if threads else f"default threads of {os.cpu_count()} cores"
    return f"onnxruntime {ort.__version__} {CPU}, {cores}, {platform.machine()} {_processor()}"


def _processor() -> str:
    """Its name, which a virtual machine may shorten and ARM lacks, and a digest of what it can."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        first = ""
    lines = (line.partition(":") for line in first.splitlines())
    known = {key.strip(): value.strip() for key, _, value in lines}
    kind = [platform.version()] if not known else [known.get(key, "") for key in KIND]
    name = known.get("model name") or platform.processor() or "processor"
    return f"{name} #{hashlib.sha256(' '.join(kind).encode()).hexdigest()[:8]}"
