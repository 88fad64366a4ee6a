"""libedgespec beside Python: tokens a second, the loop's share of a round, load and memory.

    python benchmarks/native_speed.py build/smollm2 --target-format int8
    python benchmarks/native_speed.py build/en-de

Needs `make native`, a C compiler and a quiet machine. Both generate the same prompts of
`same_texts.py` greedily with the default draft, in turns, so drift of the machine affects both;
their texts are compared. The loop is what a text takes outside of ONNX Runtime's calls, by a clock
around them (`run_timer.c`). Load, first token and memory are those of a new process with warm
files.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import edgespec
from in_turns import Texts, compared
from record import begin, write_result
from same_texts import prompts_for

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
native_library = import_module("native_library")  # the same binding that the tests use


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pair", type=Path)
    parser.add_argument("--target-format")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--gamma", type=int, help="for both; else each one's default")
    parser.add_argument("--only-load", action="store_true", help=argparse.SUPPRESS)
    if "--only-load" in sys.argv:
        print(json.dumps(_loaded(parser)))
        return
    options, record = begin(parser)
    found = {
        "speed": _speeds(options),
        "loop": _loop(options),
        "new_process": _new_process(options),
    }
    found["library_bytes"] = _stripped_bytes()
    print(json.dumps(found, indent=2))
    write_result(options, record, **found)


def _speeds(options: argparse.Namespace) -> dict[str, Any]:
    """Tokens a second of both, and their ratio."""
    pair = edgespec.load(options.pair, threads=options.threads, target_format=options.target_format)
    prompts = _token_prompts(pair, options)
    given = {} if options.gamma is None else {"gamma": options.gamma}
    session = _opened(options).session()

    def python() -> Texts:
        return [
            pair.generate(prompt, max_new_tokens=options.tokens, **given).token_ids
            for prompt in prompts
        ]

    def native() -> Texts:
        return [session.text(prompt, max_new_tokens=options.tokens, **given) for prompt in prompts]

    return compared(python, native, options.rounds)


def _loop(options: argparse.Namespace) -> dict[str, Any]:
    """What the library takes of a text outside of ONNX Runtime's calls; prompts are not counted."""
    pair = edgespec.load(options.pair, threads=options.threads, target_format=options.target_format)
    prompts = _token_prompts(pair, options)
    with TemporaryDirectory() as folder:
        timer = Path(folder) / "run_timer.so"
        header = ROOT / "runtimes/kernels/third_party/onnxruntime"
        source = Path(__file__).with_name("run_timer.c")
        command = ["cc", "-shared", "-fPIC", "-O2", "-isystem", header, source, "-o", timer]
        subprocess.run(command, check=True)
        os.environ["RUN_TIMER_LIBRARY"] = str(native_library.runtime_library())
        session = _opened(options, onnxruntime=str(timer)).session()
        taken = ctypes.CDLL(str(timer)).run_timer_taken
        inside, calls = ctypes.c_int64(), ctypes.c_int64()
        total, spent, rounds = 0.0, 0, 0
        for prompt in prompts:
            session.begin(prompt, max_new_tokens=options.tokens)
            taken(ctypes.byref(inside), ctypes.byref(calls))
            for seconds in _rounds(session):
                total += seconds
                rounds += 1
            taken(ctypes.byref(inside), ctypes.byref(calls))
            spent += inside.value
    return {
        "share": round(1 - spent / 1e9 / total, 4),
        "us_a_round": round((total * 1e6 - spent / 1e3) / rounds, 1),
    }


def _rounds(session: Any) -> Iterator[float]:
    """Seconds of each piece of a text that was begun, in the library: no Python between."""
    take = session.model.library.edgespec_next
    piece = native_library.Piece(size=ctypes.sizeof(native_library.Piece))
    taken = session.handle, ctypes.byref(piece)
    while not piece.ending:
        began = time.perf_counter()
        session.model.check(take(*taken))
        yield time.perf_counter() - began


def _new_process(options: argparse.Namespace) -> dict[str, float]:
    """Medians of five new processes, after one that warms the files."""
    command = [sys.executable, __file__, str(options.pair), "--only-load"]
    command += ["--threads", str(options.threads)]
    if options.target_format:
        command += ["--target-format", options.target_format]
    runs = [json.loads(subprocess.check_output(command)) for _ in range(6)][1:]
    return {name: round(median(run[name] for run in runs), 3) for name in runs[0]}


def _loaded(parser: argparse.ArgumentParser) -> dict[str, float]:
    """Seconds to load and to the first token, and MB that the process grew by at its highest."""
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = _kilobytes("VmRSS")
    began = time.perf_counter()
    model = _opened(options)
    loaded = time.perf_counter()
    session = model.session()
    session.begin([5, 60, 7], max_new_tokens=1)
    next(session.pieces())
    first = time.perf_counter()
    memory = _estimated(options, model)
    return {
        "load_seconds": loaded - began,
        "first_token_seconds": first - began,
        "peak_mb": (_kilobytes("VmHWM") - before) * 1.024e-3,
        "estimated_weights_mb": memory.weights / 1e6,
        "estimated_caches_mb": memory.caches / 1e6,
    }


def _estimated(options: argparse.Namespace, model: Any) -> Any:
    """The library's own numbers: bytes of the weights in use, and of full caches."""
    chosen = native_library.LoadOptions()
    model.library.edgespec_load_options_defaults(ctypes.byref(chosen))
    if options.target_format:
        chosen.target_format = options.target_format.encode()
    memory = native_library.Memory(size=ctypes.sizeof(native_library.Memory))
    folder = str(options.pair).encode()
    model.check(model.library.edgespec_estimate(folder, ctypes.byref(chosen), ctypes.byref(memory)))
    return memory


def _kilobytes(name: str) -> int:
    """A line of this process's state."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def _opened(options: argparse.Namespace, **given: Any) -> Any:
    if options.target_format:
        given["target_format"] = options.target_format
    return native_library.NativeModel(options.pair, threads=options.threads, **given)


def _token_prompts(pair: edgespec.Pair, options: argparse.Namespace) -> list[list[int]]:
    return [
        pair.tokenizer.encode(text).ids for text in prompts_for(options.pair)[: options.prompts]
    ]


def _stripped_bytes() -> int:
    with TemporaryDirectory() as folder:
        stripped = Path(folder) / "libedgespec.so"
        subprocess.run(["strip", "-o", stripped, native_library.LIBRARY.resolve()], check=True)
        return stripped.stat().st_size


if __name__ == "__main__":
    main()
