"""Packed weights, kept beside a graph: in the order in which kernels read them.

Kernels pack weights when a session is made, which takes time and private memory. With this file,
which the first session leaves beside the graph, later ones map the packed weights and read them
where they lie: processes share the pages, and a system short of memory can give them back.

A file holds for one graph with its weights, one version of the kernels and one instruction set;
the digest of these is in its name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgespec.artifact.atomic_file import whole_file
from edgespec.artifact.kept.graph_digest import graph_digest, weight_files
from edgespec.device.kernels import Kernels

__all__ = ["FOLDER", "SWITCH", "packed_weights"]

FOLDER = "packed"
SWITCH = "EDGESPEC_PACKED"  # "0" neither writes nor reads such files
LEAST_BYTES = 4_000_000  # of weights: less is packed in no time, into little memory
ROOM = 4  # times the weights' bytes must be free on the disk: a cache should not fill it


@contextmanager
def packed_weights(graph: Path, kernels: Kernels) -> Iterator[None]:
    """The session that is made inside the block takes its packed weights from the kept file, or
    leaves them there where the folder can be written."""
    weights = weight_files(graph)
    size = sum(file.bytes for file in weights)
    if size < LEAST_BYTES or os.environ.get(SWITCH) == "0":
        yield
        return
    from edgespec_kernels import begin_packed, end_packed

    digest = graph_digest(graph, weights, kernels.name, kernels.target)
    kept = graph.parent / FOLDER / f"{graph.stem}-{digest[:16]}.bin"
    mapped = begin_packed(kept, digest)
    written = False
    try:
        yield
        if not mapped and shutil.disk_usage(graph.parent).free >= ROOM * size:
            # Nothing was packed, or the folder cannot be written: the next session packs again.
            with suppress(OSError):
                kept.parent.mkdir(exist_ok=True)
                _remove_others(kept)
                with whole_file(kept) as aside:
                    written = True
                    end_packed(aside)
            with suppress(OSError):
                kept.parent.rmdir()  # it is empty
    finally:
        if not written:
            end_packed(None)


def _remove_others(kept: Path) -> None:
    """Removes files of this graph that hold no longer. Who maps one keeps it."""
    for path in kept.parent.glob(f"{kept.name.rpartition('-')[0]}-*.bin"):
        if path != kept:
            with suppress(OSError):  # Windows keeps what is mapped
                path.unlink()
