"""The command line, ``dpcost``; it imports only what every command needs, for a fast start."""

import errno
import io
import logging
import os
import re
import signal
import sys
import warnings
from datetime import UTC, datetime
from typing import Any, NoReturn

import typer

from data.errors import StoreError
from data.store.folders import home
from flows import ServerError
from flows.cli import catalogs, runs
from flows.cli.advise import advise
from flows.cli.audit import audit
from flows.cli.init import check, init
from flows.cli.ledger import ledger_app
from flows.cli.options import help_or_version
from flows.cli.page import open_page
from flows.cli.protocol import protocol_app
from flows.cli.publication import figure, submodel, table
from flows.cli.release import release
from flows.progress import say

app = typer.Typer(
    help="Measure what privacy costs: compare private with non-private estimators on real data.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.callback(invoke_without_command=True)(help_or_version)
for command in (
    *(runs.run, runs.rerun, runs.ingest, runs.report, runs.compare, runs.status),
    *(catalogs.studies, catalogs.estimators, catalogs.datasets),
    *(release, table, submodel, audit, init, check, advise, figure),
):
    app.command()(command)
app.command("open")(open_page)
for name, group in {"ledger": ledger_app, "cache": runs.cache_app, "protocol": protocol_app}.items():
    app.add_typer(group, name=name)

# Faults of a named file that the user can correct.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_MENDABLE = _FULL | {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST}
_MENDABLE |= {errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL}
_CTRL_C = 130  # what the parser makes of it
_CONTINUES = "finished blocks are stored, run the same command again to continue"
_CHARGES = ["release"], ["protocol"]  # commands that may have charged a budget
_CHARGED = "run the same command again: without --again no question is charged twice"


def main() -> None:
    """Run the command line: exit status 0; 2 if the user can correct the input; 1 for any other failure."""
    _prepare_streams()
    _show_warnings()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
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
        if not _was_interrupted(error):
            fail(*explained(error))
        status = _CTRL_C
    if status == _CTRL_C:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough
        say(f"\ndpcost: interrupted; {_CHARGED if sys.argv[1:2] in _CHARGES else _CONTINUES}")
        status = 1
    sys.exit(status)


_interrupted = False


def _interrupt(number: int, frame: Any) -> NoReturn:
    """Raise KeyboardInterrupt and record it: compiled code may replace it by another error."""
    global _interrupted
    _interrupted = True
    signal.default_int_handler(number, frame)


def _was_interrupted(error: BaseException | None) -> bool:
    """Return whether Ctrl-C caused an error: a library may replace it by another error."""
    if _interrupted:
        return True
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _wrong_words(error: Any) -> str:
    """Return one sentence about invalid options and arguments."""
    where = f"; see {error.ctx.command_path} --help" if getattr(error, "ctx", None) else ""
    message = re.sub(r"^Invalid value for '(--[a-z-]+)': must", r"\1 must", error.format_message())
    return f"{message.rstrip('.')}{where}"


def _prepare_streams() -> None:
    """Open standard streams that are closed, and escape characters that they cannot encode."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(f"note: {self.format(record)}")


def _show_warnings() -> None:
    """Show warnings of the packages as notes on standard error."""
    handler = _Notes()
    for name in ("data", "dpalgos", "tasks", "flows"):
        logging.getLogger(name).handlers = [handler]
        logging.getLogger(name).propagate = False

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        from dpalgos import AccuracyWarning, PrivacyWarning

        # Pages and release tables state guarantees and cautions. Other categories are for programmers.
        if issubclass(category, UserWarning) and not issubclass(category, AccuracyWarning | PrivacyWarning):
            say(f"note: {message}")

    warnings.showwarning = show


def explained(error: Exception) -> tuple[str, int]:
    """Return one sentence about an error, and the exit status: 2 if the user can correct it, else 1."""
    from tasks.errors import NO_MEMORY, USER_ERRORS

    if isinstance(error, USER_ERRORS):
        return str(error), 2
    from httpx import HTTPError

    from flows.local_server import wrong_setting

    if isinstance(error, ServerError):
        return str(error), 1
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"cannot use {error.filename}: {error.strerror}", 2 if error.errno in _MENDABLE else 1
    if isinstance(error, OSError) and error.errno in _FULL:
        return (
            "no space is left for the files or the output, or ulimit -f is too small; free some space and "
            "run the same command again",
            2,
        )
    if isinstance(error, MemoryError) or (isinstance(error, ImportError) and "map segment" in str(error)):
        return NO_MEMORY, 2
    if isinstance(error, HTTPError):
        return (
            f"the Prefect server failed ({type(error).__name__}); finished blocks are stored, run the same "
            "command again to continue",
            1,
        )
    if sentence := wrong_setting(error):
        return sentence, 2
    return _internal(error), 1


def fail(sentence: str, status: int = 2) -> NoReturn:
    """Print faults on standard error, one per line, and exit with a status."""
    lines = sentence.split("\n  ")
    printable = [re.sub(r"[\x00-\x1f\x7f]", lambda odd: repr(odd[0])[1:-1], line) for line in lines]
    say("dpcost: " + "\n  ".join(printable))
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python tries again at its end, and says so
    sys.exit(status)


def _internal(error: Exception) -> str:
    """Log an unexpected error without its message, and return what the user can do."""
    from tasks.errors import without_message

    fault, charged = without_message(error), f". Then {_CHARGED}" if sys.argv[1:2] in _CHARGES else ""
    if fault.in_plugin:
        return f"{fault}, which is a plugin; correct that file{charged}"
    try:
        log = home() / "faults.log"
        with log.open("a") as file:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            print(now, fault, *fault.frames, sep="\n  ", file=file)
    except (OSError, StoreError):
        return f"internal error, {fault}; please report it{charged}"
    return f"internal error, {fault}; please report it with the last entry of {log}{charged}"
