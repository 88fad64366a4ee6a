"""Where a benchmark's numbers come from: machine, versions, commit; and its result file."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    "edgespec",
    "edgespec-kernels",
    "onnxruntime",
    "numpy",
    "tokenizers",
    "torch",
    "transformers",
    "ctranslate2",
)


def environment(threads: int) -> dict[str, Any]:
    """Machine, threads, versions, commit and date of a run."""
    return {
        "machine": f"{platform.system()} {platform.machine()}, {_processor()}",
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "threads": threads,
        "python": platform.python_version(),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
        "commit": _commit(),
        "date": time.strftime("%Y-%m-%d"),
    }


def begin(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, dict[str, Any]]:
    """Parses the command line, with the options of all benchmarks, and prints the environment.

    Returns the options and `environment`'s record.
    """
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    record = environment(options.threads)
    print(describe(record))
    return options, record


def write_result(options: argparse.Namespace, record: dict[str, Any], **found: Any) -> None:
    """Writes the results with their environment to `--json`, if it was given."""
    if options.json:
        result = {"environment": record, **found}
        options.json.write_text(json.dumps(result, indent=2) + "\n")


def describe(record: dict[str, Any]) -> str:
    """An environment in one line."""
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return (
        f"{record['machine']}, {record['cores']} cores, {record['threads']} threads, "
        f"load {record['load_before']}; python {record['python']}, {versions}; "
        f"commit {record['commit']}; {record['date']}"
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    """The commit, with "-dirty" if code has changed since. Result files may have changed."""
    code = ("edgespec", "export", "runtimes", "benchmarks/*.py")
    head = _git("rev-parse", "--short", "HEAD") or "unknown"
    return f"{head}-dirty" if _git("status", "--porcelain", "--", *code) else head


def _git(*command: str) -> str:
    root = Path(__file__).parents[1]
    run = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True)
    return run.stdout.strip()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()
