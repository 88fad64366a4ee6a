"""Grammars of strangers are read by another process first, which may take too long or crash."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Event, Timer

from edgespec.errors import EdgespecError, UsageError, needs_extra
from edgespec.grammar import reading_program

__all__ = ["reason_to_refuse"]

PROCESSOR_S = 3.0  # for one grammar
MEMORY_MIB = 1024  # address space
WAITED_S = 10 * PROCESSOR_S  # by the clock, on a busy machine; the limit on Windows
KEPT = 1  # idle processes
TOO_DEEP = frozenset({"SIGSEGV", "SIGBUS"})


def reason_to_refuse(kind: str, rules: str, special_tokens: Collection[int] = ()) -> str:
    """llguidance's reason to refuse a grammar; empty if it reads it.

    Args:
        kind: what users call the grammar.
        special_tokens: ids that the rules may name.

    Raises:
        UsageError: reading it takes more time, memory or stack than it may.
        EdgespecError: no process can be started.
    """
    with needs_extra("grammar"):
        from llguidance import _lib
    program = Path(sys.executable or "")
    if not program.stem.lower().startswith("python"):
        # A program with Python inside would be started a second time.
        return reading_program.refusal(_lib, rules, sorted(special_tokens))
    limits = str(PROCESSOR_S), str(MEMORY_MIB)
    command = str(program), "-I", "-S", reading_program.__file__, str(_lib.__file__), *limits
    return _readers(command).asked(kind, rules, sorted(special_tokens))


@cache
def _readers(command: tuple[str, ...]) -> _Readers:
    return _Readers(command)


class _Readers:
    """Processes that read grammars: one for each concurrent caller, the last of which is kept.

    Args:
        command: starts one.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._idle: deque[_Reader] = deque()
        atexit.register(self._end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._idle.clear)  # they are its parent's

    def asked(self, kind: str, rules: str, special: list[int]) -> str:
        """The answer of one; see `reason_to_refuse`."""
        reader = self._taken()
        answer = reader.answer(json.dumps({"rules": rules, "special": special}).encode())
        if answer is None:
            raise UsageError(f"the {kind} {_failure(reader)}")
        if len(self._idle) < KEPT:
            self._idle.append(reader)
        else:
            reader.end()
        reason: str = json.loads(answer)
        return reason

    def _taken(self) -> _Reader:
        while self._idle:
            try:
                reader = self._idle.pop()
            except IndexError:  # another thread has it
                break
            if reader.lives():
                return reader
        return _Reader(self._command)

    def _end(self) -> None:
        while self._idle:
            self._idle.pop().end()


class _Reader:
    """A process that reads grammars.

    Attributes:
        late: whether it was ended because it took too long by the clock.
        code: its exit code; None while it lives.
    """

    def __init__(self, command: Sequence[str]) -> None:
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing)
        except OSError as error:
            raise EdgespecError(
                f"no process can be started to read a grammar ({error.strerror}); allow one more"
            ) from None
        self.late = Event()

    @property
    def code(self) -> int | None:
        return self._process.returncode

    def lives(self) -> bool:
        """Whether it can be asked; if not, it is ended."""
        if self._process.poll() is None:
            return True
        self.end()
        return False

    def answer(self, asked: bytes) -> bytes | None:
        """The line that it writes to a line; None, and it is ended, if it writes none."""
        given, written = self._process.stdin, self._process.stdout
        assert given is not None
        assert written is not None
        timer = Timer(WAITED_S, self._give_up)
        timer.daemon = True
        timer.start()
        try:
            given.write(asked + b"\n")
            given.flush()
            line = written.readline()
        except OSError:  # it ended before it had read all
            line = b""
        finally:
            timer.cancel()
        if line.endswith(b"\n"):
            return line
        self.end()
        return None

    def end(self) -> None:
        """Ends it, and waits until it has."""
        with self._process as process, suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]  # it ends with its input

    def _give_up(self) -> None:
        self.late.set()
        self._process.kill()


def _failure(reader: _Reader) -> str:
    """What a grammar did to its reader, and the way out."""
    code = reader.code or 0
    name = signal.Signals(-code).name if code < 0 else ""
    if reader.late.is_set() or name == "SIGPROF":
        return (
            f"takes more than the {PROCESSOR_S:g} s that reading one may take; use fewer patterns, "
            "repetitions, alternatives or properties in it"
        )
    if name in TOO_DEEP:
        return (
            "is nested deeper than the stack of a thread allows, which is some thousand rules that "
            "name each other; flatten it"
        )
    return (
        f"cannot be read within {MEMORY_MIB} MiB of memory ({name or f'exit code {code}'}); make "
        "it smaller"
    )
