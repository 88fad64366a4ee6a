"""Plug-ins of ONNX Runtime: packages with a library that adds an execution provider.

A plug-in is a package whose module has a function `get_library_path`; nothing else of a package is
imported. A library can end the process that loads it, so another process loads it first.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import NamedTuple

import onnxruntime as ort

from edgespec.device.home import home
from edgespec.errors import one_line

__all__ = ["Plugins", "load_plugins"]

LIBRARY = "get_library_path"  # the function that a plug-in's module has
TRIAL_SECONDS = 60
# Loads a plug-in by its module and name, and says the error of a library that cannot be loaded.
TRIAL = f"""
import importlib, sys
module, name = sys.argv[1:]
try:
    import onnxruntime
    library = importlib.import_module(module).{LIBRARY}()
    onnxruntime.register_execution_provider_library(name, library)
    onnxruntime.get_ep_devices()
except BaseException as error:
    print(str(error) or type(error).__name__)
    sys.exit(3)
"""
FAILED = 3  # the trial's exit code where it has printed an error


class Plugins(NamedTuple):
    """The installed plug-ins.

    Attributes:
        versions: of the packages, by the library that each contains.
        unusable: a line for each that cannot be used, with the reason.
    """

    versions: dict[str, str]
    unusable: list[str]


class _Plugin(NamedTuple):
    """A package with a plug-in.

    Attributes:
        name: of the package, in lower case with hyphens.
        module: the one that has `get_library_path`.
        digest: of the package's files, as it records them.
    """

    name: str
    module: str
    version: str
    digest: str

    @property
    def short_name(self) -> str:
        """What it is registered by: "qnn" of `onnxruntime-qnn`. Some providers take this for their
        own name, and Qualcomm's reads no context that another name wrote."""
        return self.name.removeprefix("onnxruntime-").removeprefix("ep-")


@cache
def load_plugins() -> Plugins:
    """Registers the installed plug-ins with the runtime, once per process."""
    found = Plugins({}, [])
    for plugin in sorted(_installed()):
        reason = _failure_of_trial(plugin)
        if reason is None:
            try:
                library = getattr(import_module(plugin.module), LIBRARY)()
                ort.register_execution_provider_library(plugin.short_name, library)
                found.versions[str(library)] = plugin.version
            except (Exception, SystemExit) as error:  # a foreign package may raise anything
                reason = one_line(error)
        if reason is not None:
            found.unusable.append(f"{plugin.name} cannot be used ({reason})")
    return found


def _installed() -> Iterator[_Plugin]:
    """The plug-ins among the installed packages."""
    seen: set[str] = set()
    for package in distributions():
        name = (package.metadata["Name"] or "").lower().replace("_", "-")
        if name in seen or not _may_be_plugin(name, package):
            continue
        seen.add(name)
        module = _module_with_library(package)
        if module is not None:
            digest = hashlib.sha256((package.read_text("RECORD") or "").encode()).hexdigest()
            yield _Plugin(name, module, package.version, digest)


def _may_be_plugin(name: str, package: Distribution) -> bool:
    """Whether a package is of ONNX Runtime, by its name or what it needs."""
    if "onnxruntime" in name or "-ep-" in name:
        return True
    return any(line.lower().startswith("onnxruntime") for line in package.requires or ())


def _module_with_library(package: Distribution) -> str | None:
    """The top-level module of a package that has `get_library_path`, by its source; None if it has
    none."""
    for file in package.files or ():
        if len(file.parts) == 2 and file.name == "__init__.py":
            try:
                source = ast.parse(Path(str(file.locate())).read_text(encoding="utf-8"))
            except (OSError, ValueError, SyntaxError):
                continue
            if any(LIBRARY in _names(statement) for statement in source.body):
                return file.parts[0]
    return None


def _names(statement: ast.stmt) -> set[str]:
    """What a statement of a module defines or imports."""
    if isinstance(statement, ast.FunctionDef):
        return {statement.name}
    if isinstance(statement, (ast.ImportFrom, ast.Import)):
        return {each.asname or each.name for each in statement.names}
    return set()


def _failure_of_trial(plugin: _Plugin) -> str | None:
    """Why another process could not load a plug-in; None if it could.

    A success is remembered for these files and this runtime. A failure is not: its cause may be
    elsewhere, such as a driver.
    """
    if not sys.executable or getattr(sys, "frozen", False):  # there is no interpreter to start
        return None
    key = f"{plugin.digest} onnxruntime {ort.__version__}"
    if key in _loaded_before():
        return None
    command = [sys.executable, "-c", TRIAL, plugin.module, plugin.short_name]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        trial = subprocess.run(
            command, capture_output=True, timeout=TRIAL_SECONDS, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return one_line(error)
    if trial.returncode == FAILED:
        said = trial.stdout.decode(errors="replace").strip()
        return one_line(RuntimeError(said))
    if trial.returncode != 0:
        return f"loading it ends the process with {trial.returncode}"
    _remember(key)
    return None


def _loaded_before() -> list[str]:
    """Plug-ins that another process has loaded, with the runtime; empty if that is not known."""
    try:
        known = json.loads(_memory().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [key for key in known if isinstance(key, str)] if isinstance(known, list) else []


def _remember(key: str) -> None:
    path = _memory()
    with suppress(OSError):  # it is tried again the next time
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        partial.write_text(json.dumps(sorted({*_loaded_before(), key})), encoding="utf-8")
        partial.replace(path)


def _memory() -> Path:
    return home() / "plugins.json"
