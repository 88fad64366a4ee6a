"""Checks that starts on Qualcomm's NPU load what an earlier one compiled, and compile what was
damaged since.

python scripts/npu/check_contexts.py FOLDER
"""

from __future__ import annotations

import io
import logging
import shutil
import sys
import time
from pathlib import Path

import edgespec

PROMPT = [3, 4, 2] * 4  # longer than a call: the graph of prompts is used


def main(folder: Path) -> None:
    kept = folder / "target" / "fp16" / "contexts"
    shutil.rmtree(kept, ignore_errors=True)
    logging.getLogger("edgespec").setLevel(logging.INFO)
    first, said = start(folder, "compiles")
    contexts = sorted(kept.glob("*.onnx"))
    check(len(contexts) == 2, f"those of a call and of a prompt should be kept: {contexts}")
    written = {path: path.stat().st_mtime_ns for path in contexts}
    again, said = start(folder, "loads")
    check(again == first and said == "", f"what was kept should be loaded: {said}")
    check(written == {path: path.stat().st_mtime_ns for path in contexts}, "and nothing compiled")
    damaged, cut = contexts
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    cut.write_bytes(cut.read_bytes()[:-100])
    again, said = start(folder, "compiles what was damaged")
    check(again == first, "the text should be the same")
    for path in (damaged, cut):
        check(f"{path} cannot be used (it was changed)" in said, f"{path} should be named: {said}")
        check(path.stat().st_mtime_ns > written[path], f"{path} should be made anew")


def start(folder: Path, does: str) -> tuple[list[int], str]:
    """A text of a new pair, and what was said of contexts."""
    began, said = time.perf_counter(), io.StringIO()
    handler = logging.StreamHandler(said)
    handler.addFilter(lambda record: "contexts" in record.getMessage())
    logging.getLogger("edgespec").addHandler(handler)
    pair = edgespec.load(folder, threads=1, provider="qnn", draft_provider="cpu")
    text = pair.generate(PROMPT, max_new_tokens=4, gamma=4, draft="model").token_ids
    logging.getLogger("edgespec").removeHandler(handler)
    print(f"a start that {does}: {time.perf_counter() - began:.1f} s, with a text", flush=True)
    return text, said.getvalue()


def check(holds: bool, claim: str) -> None:
    if not holds:
        sys.exit(f"FAILED: {claim}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
