"""Both ends of a pipe: JSON lines between compare_chat.py and the process that runs one way.

The process says once `{"ready": {...}}` (versions, bytes of weights), then answers each
`{"prompt": [ids], "max_new_tokens": n}` with a `Generated`, or with `{"error": text}`. Only the
standard library, because the peers live in another environment than edgespec.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

START_SECONDS = 300
ANSWER_SECONDS = 300


@dataclass(frozen=True)
class Generated:
    """One generation.

    Attributes:
        tokens: the new ones, in order; an end-of-text token may be the last.
        first_tokens: how many of them were there after `seconds_prefill`.
        seconds_prefill: up to the first token, the prompt included.
        seconds_total: the whole generation, tokens in to tokens out.
    """

    tokens: list[int]
    first_tokens: int
    seconds_prefill: float
    seconds_total: float


class PeerError(Exception):
    """A peer that cannot be started, or that failed; the text says why in one line."""


Generate = Callable[[list[int], int], Generated]


def serve(start: Callable[[], tuple[dict[str, Any], Generate]]) -> None:
    """The peer's end: starts it, then answers requests until standard input ends.

    Libraries print to standard output, so that is kept for the answers and what they print goes
    to standard error.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")

    try:
        ready, generate = start()
    except Exception as error:
        say({"error": f"{type(error).__name__}: {error}"})
        return
    say({"ready": ready})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            say(asdict(generate(request["prompt"], request["max_new_tokens"])))
        except Exception as error:  # whatever a peer raises is reported as its own
            say({"error": f"{type(error).__name__}: {error}"})


class Peer:
    """The benchmark's end: a running process, and what it said when it was ready.

    Args:
        command: starts it.
        log: receives its standard error.

    Raises:
        PeerError: it did not start.
    """

    def __init__(self, command: Sequence[str | Path], log: Path) -> None:
        self._log = log
        with log.open("w") as stderr:
            self._process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # so that what it started can be ended with it
            )
        try:
            self.ready: dict[str, Any] = self._answer(START_SECONDS)["ready"]
        except PeerError:
            self.close()
            raise

    def generate(self, prompt: Sequence[int], max_new_tokens: int) -> Generated:
        """Asks for one generation.

        Raises:
            PeerError: it failed, died or took too long.
        """
        request = {"prompt": list(prompt), "max_new_tokens": max_new_tokens}
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died; the missing answer says so
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        return Generated(**self._answer(ANSWER_SECONDS))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()
        self._process.stdout.close()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        watchdog = threading.Timer(seconds, self._kill)
        watchdog.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise PeerError(f"it ended without an answer: {last_line(self._log)}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(" ".join(answer["error"].split())[:300])
        return answer


def last_line(log: Path) -> str:
    """Of a log file, for a reason in one line."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else f"nothing in {log}"
