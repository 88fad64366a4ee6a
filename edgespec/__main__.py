"""The command `edgespec`, and `python -m edgespec`."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["main"]


def main() -> None:
    """Runs the command line; Ctrl-C ends it with one line, also while modules are loading."""
    with _ctrl_c_ends_the_process():
        from edgespec.cli.main import main as command_line
    command_line(prog_name="edgespec")


@contextmanager
def _ctrl_c_ends_the_process() -> Iterator[None]:
    """A KeyboardInterrupt in the middle of an import would be a traceback.

    A process that was started with Ctrl-C ignored (nohup, a shell's background job) still
    ignores it.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end)
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: object) -> None:
    os.write(2, b"\nedgespec: interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
