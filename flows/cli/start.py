"""The entry point of the command line; small, because Ctrl-C during imports should print no traceback."""

import signal
import sys


def main() -> None:
    """Run ``dpcost``; until it is loaded, Ctrl-C ends the process at once and silently."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from flows.cli.main import main as command_line

    try:
        signal.signal(signal.SIGINT, before)
        command_line()
    except KeyboardInterrupt:  # before the command line was ready for it
        sys.exit(1)
