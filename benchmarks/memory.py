"""What pairs take in memory and how long they load, each in processes of its own.

    python benchmarks/memory.py build/smollm2 build/en-de

Columns, in MB: what is resident after loading, after a first short text and after a text that fills
`--fill` positions; of the last, what is private and written (copies, caches, programs), what is
mapped from files, and what the process counts for itself while another one of the pair runs (Pss:
each shared page is divided among those that have it). Then what `edgespec inspect` estimates for
the same capacity. The first load on a machine packs weights; it is measured apart.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from edgespec.artifact.manifest import read_manifest
from edgespec.pair.opening.memory_estimate import estimated_memory
from record import begin, write_result

MB = 1_000_000
FIELDS = ("Rss", "Pss", "Private_Clean", "Private_Dirty", "Shared_Clean", "Anonymous")
SHORT = "The house by the river is small."
CHILD = """
import json, sys, time
from pathlib import Path
began = time.perf_counter()
import edgespec
folder, form, threads, capacity, fill = sys.argv[1:]
imported = time.perf_counter()
pair = edgespec.load(folder, threads=int(threads), target_format=form, allow_inexact=True,
                     capacity=int(capacity))
loaded = time.perf_counter()
def said():
    found = {}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]:
        name, value, *_ = line.split()
        found[name[:-1]] = 1024 * int(value)
    return found
memory = [said()]
short, fill = sys.stdin.readline().strip(), int(fill)
chats = {} if pair.manifest.chats else {"chat": False}
pair.generate(short, max_new_tokens=24, **chats)
first = time.perf_counter()
memory.append(said())
half = max(1, fill // 2)
prompt = (pair.encode(short, chat=False) * fill)[:half]
pair.generate(prompt, max_new_tokens=max(1, fill - half), temperature=1.0, seed=1, chat=False,
              ignore_eos=True)
memory.append(said())
print(json.dumps({"import": imported - began, "load": loaded - imported,
                  "first": first - loaded, "memory": memory}), flush=True)
sys.stdin.readline()
print(json.dumps(said()), flush=True)
sys.stdin.readline()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", type=Path, nargs="+")
    parser.add_argument("--target-format")
    parser.add_argument("--fill", type=int, default=400, help="positions of the last text")
    parser.add_argument("--repeats", type=int, default=5, help="loads with packed weights")
    options, record = begin(parser)
    rows = [measured(folder, options) for folder in options.pairs]
    for row in rows:
        print(described(row))
    write_result(options, record, fill=options.fill, rows=rows)


def measured(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Everything of one pair."""
    manifest = read_manifest(folder)
    form = options.target_format or next(iter(manifest.target.variants))
    draft = next(iter(manifest.draft.variants)) if manifest.draft else None
    capacity = min(manifest.target.capacity, options.fill + 32)
    arguments = [form, str(options.threads), str(capacity), str(options.fill)]
    with tempfile.TemporaryDirectory(dir=folder.parent) as aside:
        copy = Path(shutil.copytree(folder, Path(aside) / "pair"))
        for packed in copy.rglob("packed"):
            shutil.rmtree(packed)
        with Child(copy, arguments) as child:
            packing = child.said["load"]
    loads = []
    for _ in range(options.repeats):
        with Child(folder, arguments) as child:
            loads.append(child.said)
    with Child(folder, arguments), Child(folder, arguments) as other:
        beside = other.now()
    one = loads[-1]["memory"]
    return {
        "pair": folder.name,
        "target": form,
        "bytes_on_disk": sum(
            manifest.bytes(role, name)
            for role, name in (("target", form), ("draft", draft))
            if name is not None
        ),
        "first_load_seconds": round(packing, 3),
        "load_seconds": round(median(each["load"] for each in loads), 3),
        "import_seconds": round(median(each["import"] for each in loads), 3),
        "first_text_seconds": round(median(each["first"] for each in loads), 3),
        **{
            when: {name: memory[name] for name in FIELDS}
            for when, memory in zip(("loaded", "first_text", "filled"), one, strict=True)
        },
        "beside_another": {name: beside[name] for name in FIELDS},
        "estimate": estimated_memory(manifest, (form, draft), options.fill).total,
    }


def described(row: dict[str, Any]) -> str:
    """A row of the table."""
    filled = row["filled"]
    mapped = filled["Rss"] - filled["Anonymous"]
    numbers = {
        "on disk": row["bytes_on_disk"],
        "loaded": row["loaded"]["Rss"],
        "first text": row["first_text"]["Rss"],
        "private then": row["first_text"]["Anonymous"],
        "filled": filled["Rss"],
        "private": filled["Anonymous"],
        "mapped": mapped,
        "beside another": row["beside_another"]["Pss"],
        "estimate": row["estimate"],
    }
    told = ", ".join(f"{name} {value / MB:.0f}" for name, value in numbers.items())
    return (
        f"{row['pair']} {row['target']}: load {row['load_seconds']:.2f} s (the first "
        f"{row['first_load_seconds']:.2f}; imports {row['import_seconds']:.2f}; first text "
        f"{row['first_text_seconds']:.2f}); MB: {told}"
    )


class Child:
    """A process that loads a pair and makes two texts; it holds them until the block ends.

    Attributes:
        said: seconds and memory.
    """

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(folder), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said = self._asked(SHORT)

    def now(self) -> dict[str, int]:
        """Its memory."""
        found: dict[str, int] = self._asked("")
        return found

    def _asked(self, line: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        time.sleep(0.1)  # its pages are given back


if __name__ == "__main__":
    main()
