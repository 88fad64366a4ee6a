"""Where the operators of a graph run: on a device's provider, or on the processor.

ONNX Runtime records it when it opens a graph. Some builds record only the processor's part
(onnxruntime-webgpu 1.27), so the profile of one call decides: it names the provider of each
operator that ran.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import onnxruntime as ort

from edgespec_runtimes.ort.providers import CPU_TITLE
from edgespec_runtimes.ort.providing.sample_call import sample_inputs

__all__ = ["LEFT_TO_PROCESSOR", "count_operators", "left_to_processor", "profiled"]

# What ONNX Runtime says where a graph has to run wholly on a provider and does not.
LEFT_TO_PROCESSOR = "fallback to CPU EP has been explicitly disabled"
KINDS = 6  # of operators that a message names

COPY = "Memcpy"  # the start of the names of operators that the runtime adds for copies


@contextmanager
def profiled(options: ort.SessionOptions) -> Iterator[None]:
    """Inside this, a session is opened with a profile, in a folder for temporary files.

    Where that fails no profile stays there; else `count_operators` removes it.
    """
    prefix = Path(tempfile.gettempdir()) / f"edgespec-profile-{uuid4().hex}"
    options.enable_profiling = True
    options.profile_file_prefix = str(prefix)
    try:
        yield
    except BaseException:
        for profile in prefix.parent.glob(f"{prefix.name}*"):
            with suppress(OSError):
                profile.unlink()
        raise


def count_operators(session: ort.InferenceSession, title: str) -> tuple[int, int]:
    """How many of a graph's operators a provider runs, and how many there are.

    Args:
        session: opened with a profile, which ends here.
        title: ONNX Runtime's name of the provider.
    """
    profile: Path | None = None
    try:
        counts = _recorded(session)
        if title not in counts:
            session.run(None, sample_inputs(session))
        profile = Path(session.end_profiling())
        if title not in counts:
            counts = _ran(profile) or counts
    finally:
        if profile is not None:
            with suppress(OSError):
                profile.unlink()
    return counts.get(title, 0), sum(counts.values())


def left_to_processor(session: ort.InferenceSession, graph: Path, provider: str) -> str:
    """Which operators a provider leaves to the processor, of a graph that has to run there wholly.

    Args:
        session: of this graph, which runs in part on the processor.
    """
    kinds = Counter(
        node.op_type
        for part in session.get_provider_graph_assignment_info()
        if part.ep_name == CPU_TITLE
        for node in part.get_nodes()
    )
    named = [f"{count} {kind}" for kind, count in kinds.most_common(KINDS)]
    rest = len(kinds) - len(named)
    left = ", ".join(named) + (f" and {rest} other kinds" if rest else "")
    return (
        f"{provider} does not take all operators of {graph}, which was exported to run there "
        f"wholly: it leaves {kinds.total()} to the processor ({left}); take another provider "
        "(cpu), or export the pair without --for npu, for a GPU with --for gpu"
    )


def _recorded(session: ort.InferenceSession) -> dict[str, int]:
    """Operators by provider, as recorded when the graph was opened."""
    counts: dict[str, int] = {}
    for part in session.get_provider_graph_assignment_info():
        counts[part.ep_name] = counts.get(part.ep_name, 0) + len(part.get_nodes())
    return counts


def _ran(profile: Path) -> dict[str, int]:
    """Operators by provider, as a profile has them."""
    providers: dict[str, str] = {}
    for event in json.loads(profile.read_text(encoding="utf-8")):
        ran: Mapping[str, str] = event.get("args", {})
        if "provider" in ran and not ran.get("op_name", "").startswith(COPY):
            providers[event["name"]] = ran["provider"]
    counts: dict[str, int] = {}
    for provider in providers.values():
        counts[provider] = counts.get(provider, 0) + 1
    return counts
