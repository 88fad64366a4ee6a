"""How ONNX Runtime sessions are configured."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import onnxruntime as ort

from edgespec.device.device import CPU, Device
from edgespec.device.kernels import SWITCH, installed_kernels, release
from edgespec.errors import EdgespecError, one_line
from edgespec_runtimes.ort.processor.flash_attention import row_invariant_attention
from edgespec_runtimes.ort.processor.huge_pages import on_huge_pages
from edgespec_runtimes.ort.processor.packed_weights import packed_weights
from edgespec_runtimes.ort.providers import CPU_TITLE, Provider, find_provider
from edgespec_runtimes.ort.providing.contexts import Context, open_with_context
from edgespec_runtimes.ort.providing.placement import LEFT_TO_PROCESSOR, left_to_processor
from edgespec_runtimes.ort.providing.placement import profiled as with_profile
from edgespec_runtimes.ort.providing.qnn import is_qnn, qnn_settings

__all__ = ["as_edgespec_errors", "call_errors", "open_session"]

RECORD_ASSIGNMENT = ("session.record_ep_graph_assignment_info", "1")  # see `placement`
WHOLLY = ("session.disable_cpu_ep_fallback", "1")  # no operator may be left to the processor
# Without it, a provider that fails is silently replaced by another, which rounds differently.
NO_FALLBACK: dict[str, Any] = {"enable_fallback": 0}
# Processors without VNNI add pairs of products of unsigned rows and signed weights with saturation:
# another model than elsewhere. With this, ONNX Runtime makes the weights unsigned there. 1.25 ends
# the process instead, because these products have no zero point for the weights.
EXACT_INT8 = ("session.x64quantprecision", "1")
EXACT_INT8_VERSION = (1, 30)
# Of providers, by their titles. CUDA's fp32 products have 10 bits otherwise: SmolLM2's logits were
# off by 1.1 % of the largest on an H200.
SETTINGS = {"CUDAExecutionProvider": {"use_tf32": "0"}}
OTHER_PROVIDER = "take another provider (cpu)"
SMALLER_CALLS = f"export it with less --capacity or --gamma, or {OTHER_PROVIDER}"
MIN_VERSION = (1, 25)  # of ONNX Runtime: the first with TensorScatter of opset 24


def open_session(
    graph: Path, device: Device, precision: str | None = None, *, profiled: bool = False
) -> ort.InferenceSession:
    """A session on a device; operators that its provider does not take run on the processor.

    Args:
        graph: the ONNX file; external data outside its folder is refused.
        precision: of a graph with fixed shapes (`StaticCalls.precision`): it runs wholly on the
            device's provider or not at all. None of other graphs.
        profiled: `count_operators` will be asked where its operators run, and ends the profile.

    Raises:
        EdgespecError: the file is missing, cut short or not a graph that this runtime can run; or
            there is no such provider, or it cannot be used.
    """
    version = _checked_version()
    provider = find_provider(device.provider)
    options = _session_options(device, version)
    failed = f"{graph} cannot be loaded"
    if provider.title == CPU_TITLE:
        with (
            _kernels_registered(graph, options),
            as_edgespec_errors(failed),
            on_huge_pages(),
            row_invariant_attention(),
        ):
            return ort.InferenceSession(
                str(graph), options, providers=[provider.title], **NO_FALLBACK
            )
    failed = f"{failed} on {provider.name}"
    way_out = OTHER_PROVIDER if precision is None else SMALLER_CALLS
    with (
        as_edgespec_errors(failed, way_out=way_out),
        with_profile(options) if profiled else nullcontext(),
        row_invariant_attention(),
    ):
        if precision is None:
            return _open_on_provider(graph, options, provider)
        try:
            return _open_wholly(graph, options, provider, precision)
        except Exception as error:
            if LEFT_TO_PROCESSOR not in str(error):
                raise
        in_part = _open_on_provider(graph, _session_options(device, version), provider, precision)
        raise EdgespecError(left_to_processor(in_part, graph, provider.name))


def call_errors(provider: str) -> as_edgespec_errors:
    """The errors of a model's calls on a provider; may be entered again and again."""
    if provider == CPU:
        return as_edgespec_errors()
    way_out = f"if its memory is full, give less --capacity, or {OTHER_PROVIDER}"
    return as_edgespec_errors(f"the model cannot be run on {provider}", way_out=way_out)


class as_edgespec_errors:  # noqa: N801, it is used like contextlib's
    """Turns whatever ONNX Runtime raises into an `EdgespecError` of one line, and leaves those that
    are one already.

    Its exceptions have no base class in common. A class, since each call of a model enters it and
    a generator takes longer.
    """

    def __init__(
        self, what: str = "the model cannot be run", *, way_out: str = "export the pair again"
    ) -> None:
        self._what = what
        self._way_out = way_out

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, EdgespecError):
            raise EdgespecError(f"{self._what} ({one_line(error)}); {self._way_out}") from None


def _open_wholly(
    graph: Path, options: ort.SessionOptions, provider: Provider, precision: str
) -> ort.InferenceSession:
    """A session of a graph with fixed shapes, all of whose operators run on a provider; a plug-in
    takes what it compiled of the graph before."""
    options.add_session_config_entry(*RECORD_ASSIGNMENT)
    options.add_session_config_entry(*WHOLLY)
    if not provider.plugged_in:
        return _open_built_in(graph, options, provider)
    settings = _plug_in(options, provider, precision)
    context = Context(graph, provider, settings)
    return open_with_context(graph, options, context, **NO_FALLBACK)


def _open_on_provider(
    graph: Path, options: ort.SessionOptions, provider: Provider, precision: str = "fp32"
) -> ort.InferenceSession:
    """A session on a provider other than the processor's, which runs what this one leaves."""
    options.add_session_config_entry(*RECORD_ASSIGNMENT)
    if not provider.plugged_in:
        return _open_built_in(graph, options, provider, CPU_TITLE)
    _plug_in(options, provider, precision)
    return ort.InferenceSession(str(graph), options, **NO_FALLBACK)


def _plug_in(options: ort.SessionOptions, provider: Provider, precision: str) -> dict[str, str]:
    """Adds a plug-in to a session's options; returns its own settings."""
    settings = qnn_settings(provider, precision) if is_qnn(provider) else {}
    options.add_provider_for_devices([provider.device], settings)
    return settings


def _open_built_in(
    graph: Path, options: ort.SessionOptions, provider: Provider, *others: str
) -> ort.InferenceSession:
    """A session on a provider of the installed runtime, and on others for what it leaves."""
    titles = [(provider.title, SETTINGS.get(provider.title, {})), *others]
    with warnings.catch_warnings(action="ignore"):  # a missing provider is only a warning there
        session = ort.InferenceSession(str(graph), options, providers=titles, **NO_FALLBACK)
    if provider.title not in session.get_providers():
        raise OSError(f"{provider.title} lacks a library or its hardware")
    return session


def _kernels_registered(graph: Path, options: ort.SessionOptions) -> AbstractContextManager[None]:
    """Inside this, the kernels take their packed weights from where they are kept."""
    kernels = installed_kernels()
    if kernels is None:
        return nullcontext()
    with as_edgespec_errors(f"{kernels} cannot be used", way_out=f"{SWITCH}=0 runs without them"):
        options.register_custom_ops_library(str(kernels.library))
    return packed_weights(graph, kernels) if kernels.keep_packed else nullcontext()


def _session_options(device: Device, version: tuple[int, int]) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.intra_op_num_threads = device.threads or 0
    options.log_severity_level = 4  # every failure is raised, with a way out
    options.add_session_config_entry(*_spinning(version))
    if version >= EXACT_INT8_VERSION:
        options.add_session_config_entry(*EXACT_INT8)
    return options


def _spinning(version: tuple[int, int]) -> tuple[str, str]:
    """How long idle threads spin before they sleep, as an entry of a session's configuration.

    Target and draft alternate: the idle model's threads must not spin on the cores that the other
    one uses. 0.1 ms costs little there, and the next call of the same model often comes that soon;
    waking a thread would take as long.
    """
    if version < (1, 26):  # durations are unknown to it
        return "session.force_spinning_stop", "1"
    return "session.intra_op.spin_duration_us", "100"


def _checked_version() -> tuple[int, int]:
    """ONNX Runtime's version.

    Raises:
        EdgespecError: it is too old.
    """
    version = release(ort.__version__)
    if version < MIN_VERSION:
        raise EdgespecError(
            f"onnxruntime {ort.__version__} lacks operators of these graphs, which need "
            f"{'.'.join(map(str, MIN_VERSION))} or newer: pip install --upgrade onnxruntime"
        )
    return version
