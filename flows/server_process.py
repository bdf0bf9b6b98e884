"""Prefect's server in a process of its own: ``python -m flows.server_process DESCRIPTOR LOG``.

It serves an open socket until it is terminated, or until the process that started it has ended. The
environment contains the settings. Nothing of a study is imported, because the command waits for the server.
"""

import gc
import logging
import math
import socket
import sqlite3
import sys
import time
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from typing import Any

GARBAGE = 10_000  # new objects before a collection: those of imports live as long as the process
DATABASE_CACHE = 64_000_000  # bytes of SQLite's memory, of all connections; Prefect allows each one 80 MB


class LocksCounted(logging.Filter):
    """Replaces errors of a locked SQLite database, which clients try again, by one line a minute."""

    count, last = 0, -math.inf

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else ""
        if "database is locked" not in f"{record.getMessage()} {error}":
            return True
        self.count += 1
        if (now := time.monotonic()) - self.last < 60:
            return False
        record.msg = (
            f"the database was locked {self.count} times since the last such line; it was tried again"
        )
        record.args, record.exc_info, record.exc_text, record.levelno = (), None, None, logging.WARNING
        record.levelname, self.count, self.last = "WARNING", 0, now
        return True


def server_of(log_file: str, compose: Callable[[Any], Any] = lambda prefect: prefect) -> Any:
    """Return a server that logs to a file; `compose` may wrap Prefect's application."""
    import uvicorn
    from prefect.server.api.server import create_app

    sqlite3.connect(":memory:").execute(f"PRAGMA soft_heap_limit = {DATABASE_CACHE}")  # of the process
    application = compose(create_app())
    log = RotatingFileHandler(log_file, maxBytes=5_000_000, backupCount=1)
    log.addFilter(LocksCounted())
    log.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("prefect.server", "uvicorn", "fastapi", "docket"):  # `create_app` has set handlers
        logging.getLogger(name).handlers = [log]
        logging.getLogger(name).propagate = False
    return uvicorn.Server(
        uvicorn.Config(application, log_config=None, access_log=False, timeout_graceful_shutdown=1)
    )


def main(descriptor: str, log_file: str) -> None:
    gc.set_threshold(GARBAGE)
    server_of(log_file).run(sockets=[socket.socket(fileno=int(descriptor))])


if __name__ == "__main__":
    main(*sys.argv[1:])
