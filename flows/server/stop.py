"""Ends everything that runs for a home folder: standing server, worker, database, runs and their servers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from data.store.processes import ProcessIdentity
from flows.record import journal
from flows.server.processes import Say, ServerError, end, started_processes

PATIENCE = 90.0  # `make serve` ends its worker, its server and its database one after another


def stop_all(home: Path, say: Say = print) -> int:
    """End every process of a home and return how many were told to; runs go on where they stopped next time.

    Raises
    ------
    ServerError
        If something is still there, another user's process for example.
    """
    here = ProcessIdentity.of(os.getpid())
    owners = [found.owner for found in started_processes(home)]
    running = [entry.process for entry in journal.history(home) if entry.ended is None]
    told = [
        process
        for process in dict.fromkeys([*owners, *running])
        if process.host == here.host and process != here and process.is_alive()
    ]
    for process in told:
        say(f"ending process {process.pid} and what it started")
        end([process], signal.SIGTERM, PATIENCE)
    if left := [found.process for found in started_processes(home)]:
        say(f"ending {len(left)} processes that nobody watches")
        end(left, signal.SIGTERM, PATIENCE)
    if still := [str(process.pid) for process in [*told, *left] if process.is_alive()]:
        raise ServerError(f"these processes could not be ended: {', '.join(still)}; are they another user's?")
    return len(told) + len(left)
