"""The command `edgespec`, and `python -m edgespec`."""

import signal

from edgespec.cli.ending import interrupt

__all__ = ["main"]


def main() -> None:
    """Runs the command line; Ctrl-C ends it with one line, also while modules are loading.

    A process that was started with Ctrl-C ignored (nohup, a shell's background job) still
    ignores it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    from edgespec.cli.closed_streams import replace_closed_streams
    from edgespec.cli.console import set_up_console

    replace_closed_streams()
    set_up_console()
    from edgespec.cli.main import main as command_line

    command_line(prog_name="edgespec")


if __name__ == "__main__":
    main()
