"""The command `edgespec`, and `python -m edgespec`."""

import os
import signal
from types import FrameType

__all__ = ["main"]


def main() -> None:
    """Runs the command line; Ctrl-C ends it with one line, also while modules are loading.

    A process that was started with Ctrl-C ignored (nohup, a shell's background job) still
    ignores it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    from edgespec.cli.closed_streams import replace_closed_streams
    from edgespec.cli.console import set_up_console

    replace_closed_streams()
    set_up_console()
    from edgespec.cli.main import main as command_line

    command_line(prog_name="edgespec")


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt; in the middle of an import it ends the process instead.

    Commands import numpy and onnxruntime when they need them. Their C code replaces a
    KeyboardInterrupt by an ImportError, which would be a traceback.
    """
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            os.write(2, b"\nedgespec: interrupted\n")
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
