"""The files of the package edgespec-kernels, compared with what was installed before one is loaded.

The operating system maps a library into memory: where a part of the file is missing it ends the
process (SIGBUS), and where bytes were changed the library computes something else.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path, PurePosixPath

__all__ = ["check_libraries"]

ENDINGS = (".so", ".dylib", ".dll", ".pyd")
LOAD_ALL = """
import sys
sys.path.insert(0, sys.argv[1])
import edgespec_kernels
edgespec_kernels.target()
try:
    import edgespec_kernels._sampling
except ImportError:
    pass
"""


def check_libraries(package: Path) -> None:
    """Compares the libraries of a package's folder with the digests that its installation recorded.

    A package that was copied without its record is loaded by another process first, which takes a
    tenth of a second.

    Raises:
        OSError: a library is missing, cut short or changed, or ends the process that loads it.
    """
    recorded = _recorded(package)
    for name, digests in recorded.items():
        _check(package / name, digests)
    there = {path.name for path in package.iterdir() if path.suffix in ENDINGS}
    if there - recorded.keys():
        _load_elsewhere(package)


def _recorded(package: Path) -> dict[str, set[tuple[str, int]]]:
    """SHA-256 and size of each library, in each record of an installation beside the package.

    After a broken update there may be two.
    """
    found: dict[str, set[tuple[str, int]]] = {}
    for record in package.parent.glob(f"{package.name}-*.dist-info/RECORD"):
        with record.open(encoding="utf-8", newline="") as file:
            for path, digest, size in csv.reader(file):
                parts = PurePosixPath(path)
                kind, _, value = digest.partition("=")
                is_library = parts.parent.name == package.name and parts.suffix in ENDINGS
                if is_library and kind == "sha256" and size.isdecimal():
                    found.setdefault(parts.name, set()).add((value, int(size)))
    return found


def _check(library: Path, digests: Collection[tuple[str, int]]) -> None:
    size = library.stat().st_size
    sizes = {recorded for _, recorded in digests}
    if size not in sizes:
        raise OSError(f"{library.name} has {size} bytes instead of {max(sizes)}")
    with library.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    written = base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
    if (written, size) not in digests:
        raise OSError(f"{library.name} is not the file that was installed")


def _load_elsewhere(package: Path) -> None:
    """Loads what this process would load in another one, which may end."""
    if not Path(sys.executable or "").stem.lower().startswith("python"):
        return  # a program with Python inside would be started a second time
    command = [sys.executable, "-c", LOAD_ALL, str(package.parent)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise OSError(reason or f"loading them ends a process with code {done.returncode}")
