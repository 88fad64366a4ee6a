"""The pipe between compare_chat.py and the process of one way: JSON lines.

The process first writes `{"ready": {...}}` (versions, bytes of weights), then answers each
`{"prompt": [ids], "max_new_tokens": n}` with a `Generated`, or with `{"error": text}`. Only the
standard library is imported: peers are installed in another environment than edgespec.
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
        tokens: the new token ids; the last may be an end-of-text token.
        first_tokens: how many of them existed after `seconds_prefill`.
        seconds_prefill: time to the first token, with the prompt.
        seconds_total: time of the whole generation.
    """

    tokens: list[int]
    first_tokens: int
    seconds_prefill: float
    seconds_total: float


class PeerError(Exception):
    """A peer could not be started, or it failed; one line with the reason."""


Generate = Callable[[list[int], int], Generated]


def serve(start: Callable[[], tuple[dict[str, Any], Generate]]) -> None:
    """The peer's end: starts the peer, then answers requests until standard input ends.

    Answers go to standard output. What libraries print there is redirected to standard error.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)

    def write(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")

    try:
        ready, generate = start()
    except Exception as error:
        write({"error": f"{type(error).__name__}: {error}"})
        return
    write({"ready": ready})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            write(asdict(generate(request["prompt"], request["max_new_tokens"])))
        except Exception as error:  # a peer may raise anything
            write({"error": f"{type(error).__name__}: {error}"})


class Peer:
    """The benchmark's end: a running process.

    Args:
        command: starts it.
        log: receives its standard error.

    Attributes:
        ready: what it reported when it was ready.

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
                start_new_session=True,  # so that its own child processes can be killed with it
            )
        try:
            self.ready: dict[str, Any] = self._answer(START_SECONDS)["ready"]
        except PeerError:
            self.close()
            raise

    def generate(self, prompt: Sequence[int], max_new_tokens: int) -> Generated:
        """Requests one generation.

        Raises:
            PeerError: it failed, died or took too long.
        """
        request = {"prompt": list(prompt), "max_new_tokens": max_new_tokens}
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died; `_answer` reports it
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
    """The last line of a log file."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else f"nothing in {log}"
