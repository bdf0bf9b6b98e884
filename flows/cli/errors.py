"""What the command line says about an error, in one sentence, and its exit status."""

import errno
import os
import re
import sys
from datetime import UTC, datetime
from typing import NoReturn

from data.errors import StoreError
from data.store.folders import home
from flows.record.progress import say
from flows.server.processes import ServerError

# Faults of a named file that the user can mend.
_MENDABLE = {
    getattr(errno, name)
    for name in (
        *("EACCES", "EPERM", "EROFS", "ENOSPC", "EDQUOT", "EFBIG"),
        *("ENOTDIR", "EISDIR", "EEXIST", "ELOOP", "ENAMETOOLONG", "EINVAL"),
    )
}
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def explained(error: Exception) -> tuple[str, int]:
    """Return one sentence about an error, and the exit status: 2 for what the user can mend, else 1."""
    from flows.server.prefect_server import wrong_setting
    from tasks.faults import MENDABLE, NO_MEMORY

    if isinstance(error, MENDABLE):
        return str(error), 2
    if isinstance(error, ServerError):
        return str(error), 1
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"cannot use {error.filename}: {error.strerror}", 2 if error.errno in _MENDABLE else 1
    if isinstance(error, OSError) and error.errno in _FULL:
        return (
            "there is no space left for the files or the output, or ulimit -f allows no more; free some and "
            "run the same command again",
            2,
        )
    if isinstance(error, MemoryError) or (isinstance(error, ImportError) and "map segment" in str(error)):
        return NO_MEMORY, 2
    if sentence := wrong_setting(error):
        return sentence, 2
    return _internal(error), 1


def fail(sentence: str, status: int = 2) -> NoReturn:
    """Say on standard error what is wrong, several faults below each other, and end with a status."""
    lines = sentence.split("\n  ")
    shown = [re.sub(r"[\x00-\x1f\x7f]", lambda odd: repr(odd[0])[1:-1], line) for line in lines]
    say("dpcost: " + "\n  ".join(shown))
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python tries again at its end, and says so
    sys.exit(status)


def _internal(error: Exception) -> str:
    """Log an unexpected error, without its message, and return what to do about it."""
    from tasks.faults import without_message

    fault = without_message(error)
    try:
        log = home() / "faults.log"
        with log.open("a") as file:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            print(now, fault, *fault.frames, sep="\n  ", file=file)
    except (OSError, StoreError):
        return f"internal error, {fault}; please report it"
    return f"internal error, {fault}; please report it with the last entry of {log}"
