"""The command line: ``dpcost``.

Only what every command needs is imported here: each starts at once, and understands Ctrl-C from then on.
"""

import io
import logging
import os
import re
import signal
import sys
from typing import Any

import typer

from flows.cli import catalogs, privacy, runs
from flows.cli.advise import advise
from flows.cli.cache import cache_app
from flows.cli.errors import explained, fail
from flows.cli.init import init
from flows.cli.local import local_app
from flows.cli.options import help_or_version
from flows.record.progress import say

app = typer.Typer(
    help="Measure what privacy costs: private and non-private estimators side by side on real data.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.callback(invoke_without_command=True)(help_or_version)
for group in (runs, catalogs, privacy):
    group.register(app)
app.command()(init)
app.command()(advise)
app.add_typer(cache_app, name="cache")
app.add_typer(local_app, name="local")

_CTRL_C = 130  # what the parser makes of it


def main() -> None:
    """Run the command line: exit status 0, 2 for what the user can mend, 1 for anything else."""
    _prepare_streams()
    _show_warnings()
    try:
        status = app(standalone_mode=False) or 0
        sys.stdout.flush()
    except SystemExit as left:
        # 0: a completion was printed; 1: the reader of the output went away.
        status = left.code if left.code in (0, 1) else _CTRL_C
    except (KeyboardInterrupt, typer.Abort):
        status = _CTRL_C
    except Exception as error:
        if hasattr(error, "format_message"):  # the parser's: typer exports no class of all of them
            fail(_wrong_words(error))
        fail(*explained(error))
    if status == _CTRL_C:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough
        say("\ndpcost: interrupted; finished blocks are stored, run the same command again to go on")
        status = 1
    sys.exit(status)


def _wrong_words(error: Any) -> str:
    """Return one sentence about options and arguments that the parser refuses."""
    where = f"; see {error.ctx.command_path} --help" if getattr(error, "ctx", None) else ""
    message = re.sub(r"^Invalid value for '(--[a-z-]+)': must be", r"\1 must be", error.format_message())
    return f"{message.rstrip('.')}{where}"


def _prepare_streams() -> None:
    """Open what was closed, for the next file would take its place; show odd characters by their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _show_warnings() -> None:
    """Show warnings of the packages as notes on standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("note: %(message)s"))
    for name in ("data", "dpalgos", "tasks", "flows"):
        logging.getLogger(name).handlers = [handler]
        logging.getLogger(name).propagate = False
