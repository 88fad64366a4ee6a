"""A process of Node.js that runs scripts one after the other: it loads ONNX Runtime once."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

__all__ = ["NODE", "NodeProcess"]

NODE = shutil.which("node")
# Imports each script that it is told of. A script finds `given`, and fills `results`.
HOST = """
import { createInterface } from "node:readline";
for await (const line of createInterface({ input: process.stdin })) {
  const { file, given } = JSON.parse(line);
  Object.assign(globalThis, { given, results: [] });
  let error = null;
  try { await import(file); } catch (caught) { error = caught.stack; }
  console.log(JSON.stringify({ results: globalThis.results, error }));
}
"""


class NodeProcess:
    """Runs scripts until it is left.

    Args:
        folder: for the scripts.
        head: what each script begins with, its imports.
    """

    def __init__(self, folder: Path, head: str) -> None:
        self._folder, self._head, self._count = folder, head, 0
        self._process = subprocess.Popen(
            [str(NODE), "--input-type=module", "-e", HOST],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> NodeProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, script: str, given: Any = None) -> Any:
        """The results of a script."""
        self._count += 1
        file = self._folder / f"{self._count}.mjs"
        file.write_text(self._head + script, encoding="utf-8")
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{json.dumps({'file': str(file), 'given': given})}\n")
        stdin.flush()
        answer = json.loads(stdout.readline())
        assert answer["error"] is None, answer["error"]
        return answer["results"]
