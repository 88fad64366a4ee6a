"""Contexts: what a provider's compiler makes of a graph, kept beside it so that later starts are
short.

A context holds for one graph with its weights, one provider in one version on one device, and one
set of options; their digest is in its name. So one of another version is not found, and made anew.
A provider loads a damaged one without a word: each is compared with its own digest first.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import onnxruntime as ort

from edgespec.artifact.atomic_file import whole_file
from edgespec.artifact.kept.graph_digest import graph_digest, weight_files
from edgespec.errors import one_line
from edgespec_runtimes.ort.providers import Provider

__all__ = ["Context", "open_with_context"]

FOLDER = "contexts"
MOST_BYTES = 1_500_000_000  # of weights: a context is one protobuf file, which has at most 2 GiB
PLACES = {"backend_path"}  # options that say where the provider is, not what it does

logger = logging.getLogger("edgespec")


class Context:
    """The context of a graph for a provider.

    Args:
        settings: the provider's options.

    Attributes:
        file: where it is kept.
        fits: it can be kept in one file.
    """

    def __init__(self, graph: Path, provider: Provider, settings: Mapping[str, str]) -> None:
        weights = weight_files(graph)
        info = provider.info
        runs_on = [ort.__version__, info.title, info.version, info.hardware]
        does = sorted(item for item in settings.items() if item[0] not in PLACES)
        digest = graph_digest(graph, weights, runs_on, does)[:16]
        self.file = graph.parent / FOLDER / f"{graph.stem}-{digest}.onnx"
        self.fits = sum(file.bytes for file in weights) <= MOST_BYTES
        self._digest_file = self.file.with_suffix(".sha256")

    def is_whole(self) -> bool:
        """Whether it was kept and is as it was written; a damaged one is named and removed."""
        try:
            wanted = self._digest_file.read_text(encoding="ascii")
            found = self._digest()
        except (OSError, ValueError):
            return False
        if found != wanted:
            self.remove("it was changed")
        return found == wanted

    def remove(self, reason: str) -> None:
        """Removes it and says why."""
        logger.info("%s cannot be used (%s); it is made anew", self.file, reason)
        for path in (self._digest_file, self.file):
            with suppress(OSError):
                path.unlink()

    def record(self) -> None:
        """Notes that the file is whole."""
        digest = self._digest()
        with whole_file(self._digest_file) as aside:
            aside.write_text(digest, encoding="ascii")

    def _digest(self) -> str:
        with self.file.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def open_with_context(
    graph: Path, options: ort.SessionOptions, context: Context, **others: Any
) -> ort.InferenceSession:
    """A session of a graph from its context; without one the graph is compiled, and what that makes
    is kept where the folder can be written.

    Args:
        options: with the provider.
        others: arguments of the session.
    """
    if context.is_whole():
        try:
            return ort.InferenceSession(str(context.file), options, **others)
        except Exception as error:
            context.remove(one_line(error))
    session: ort.InferenceSession | None = None
    if context.fits:
        with suppress(OSError):  # the folder cannot be written: it is compiled again the next time
            context.file.parent.mkdir(exist_ok=True)
            with whole_file(context.file) as aside, _new_name(aside) as made:
                options.add_session_config_entry("ep.context_enable", "1")
                options.add_session_config_entry("ep.context_file_path", str(made))
                options.add_session_config_entry("ep.context_embed_mode", "1")
                session = ort.InferenceSession(str(graph), options, **others)
                made.replace(aside)
            context.record()
    return session or ort.InferenceSession(str(graph), options, **others)


@contextmanager
def _new_name(aside: Path) -> Iterator[Path]:
    """The name of a file beside a temporary one, which only its writer uses and nothing has: ONNX
    Runtime compiles into no file that exists. What a writer that was killed left goes."""
    made = aside.with_name(aside.name + ".onnx")
    made.unlink(missing_ok=True)
    try:
        yield made
    finally:
        made.unlink(missing_ok=True)
