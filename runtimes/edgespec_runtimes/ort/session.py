"""How an ONNX Runtime session is set up for this work."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnxruntime as ort

from edgespec.core.device import Device
from edgespec.core.kernels import installed_kernels
from edgespec.errors import EdgespecError, UsageError
from edgespec_runtimes.ort.huge_pages import on_huge_pages
from edgespec_runtimes.ort.providers import TITLE, Provider, find_provider

__all__ = ["one_line_errors", "open_session", "operators_taken"]

RECORD = ("session.record_ep_graph_assignment_info", "1")  # who runs which operator
FIRM: dict[str, Any] = {"enable_fallback": 0}  # another provider would be another distribution
OLDEST = (1, 25)  # of ONNX Runtime: TensorScatter of opset 24


def open_session(graph: Path, device: Device) -> ort.InferenceSession:
    """A session on a device; what its provider does not take runs on the processor.

    Args:
        graph: the ONNX file; external data outside its folder is refused.

    Raises:
        EdgespecError: the file is missing, cut short or not a graph this runtime can run, or there
            is no such provider, or it cannot be used.
    """
    threads = device.threads
    if threads is not None and threads < 1:
        raise UsageError(f"threads is {threads}; give 1 or more")
    version = _version(ort.__version__)
    if version < OLDEST:
        raise EdgespecError(
            f"onnxruntime {ort.__version__} lacks operators of these graphs, which need "
            f"{'.'.join(map(str, OLDEST))} or newer: pip install --upgrade onnxruntime"
        )
    provider = find_provider(device.provider)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.log_severity_level = 4  # every failure below is raised, with a way out
    options.add_session_config_entry(*_spinning(version))
    failed = f"{graph} cannot be loaded"
    if provider.title == TITLE:
        with one_line_errors(failed), on_huge_pages():
            if (kernels := installed_kernels()) is not None:
                options.register_custom_ops_library(str(kernels.library))
            return ort.InferenceSession(str(graph), options, providers=[provider.title], **FIRM)
    with one_line_errors(f"{failed} on {provider.name}", way_out="take another provider (cpu)"):
        return _elsewhere(graph, options, provider)


def _elsewhere(
    graph: Path, options: ort.SessionOptions, provider: Provider
) -> ort.InferenceSession:
    """A session that another provider than the processor's has a part in."""
    options.add_session_config_entry(*RECORD)
    if provider.plugged_in:
        options.add_provider_for_devices([provider.device], {})
        return ort.InferenceSession(str(graph), options, **FIRM)
    titles = [provider.title, TITLE]
    with warnings.catch_warnings(action="ignore"):  # where it cannot, the runtime goes on without
        session = ort.InferenceSession(str(graph), options, providers=titles, **FIRM)
    if provider.title not in session.get_providers():
        raise EdgespecError(f"{provider.title} lacks a library or its hardware")
    return session


def operators_taken(session: ort.InferenceSession, device: Device) -> tuple[int, int]:
    """How many of a graph's operators the device's provider runs, and how many there are."""
    title = find_provider(device.provider).title
    with one_line_errors():
        parts = session.get_provider_graph_assignment_info()
    counts = [(part.ep_name, len(part.get_nodes())) for part in parts]
    return sum(n for name, n in counts if name == title), sum(n for _, n in counts)


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
def one_line_errors(
    what: str = "the model cannot be run", *, way_out: str = "export the pair again"
) -> Iterator[None]:
    """Whatever ONNX Runtime raises becomes an `EdgespecError`; its exceptions share no base."""
    try:
        yield
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        raise EdgespecError(f"{what} ({reason}); {way_out}") from None
