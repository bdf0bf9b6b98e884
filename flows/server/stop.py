"""Ends everything that runs for a home folder: standing server, worker, database, runs and their servers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from data.store.processes import ProcessIdentity
from flows.record import journal
from flows.record.child_processes import end
from flows.server.supervision import Say, ServerError, supervised_processes

PATIENCE = 90.0  # `make serve` ends its worker, its server and its database one after another


def stop_all(home: Path, say: Say = print) -> int:
    """End every process of a home and return how many were asked to; runs go on where they stopped next time.

    Parameters
    ----------
    home : Path
        The folder of everything that lasts (``DPCOST_HOME``).
    say : callable
        Gets one sentence for each process.

    Raises
    ------
    ServerError
        If something is still there, another user's process for example.
    """
    asked = [process for process in _processes(home) if process.pid != os.getpid()]
    for process in asked:
        say(f"ending process {process.pid} and what it started")
        end(process, signal.SIGTERM, PATIENCE)
    for left in supervised_processes(home):
        say(f"ending the {left.name} (process {left.process.pid}) that nobody watches")
        end(left.process, signal.SIGTERM, PATIENCE, whole_tree=True)
        asked.append(left.process)
    if still := [str(process.pid) for process in asked if process.is_alive()]:
        raise ServerError(f"these processes could not be ended: {', '.join(still)}; are they another user's?")
    return len(asked)


def _processes(home: Path) -> list[ProcessIdentity]:
    """Return who started servers and workers here, and who runs a study on a server of somebody else's."""
    here = ProcessIdentity.of(os.getpid()).host
    owners = [found.owner for found in supervised_processes(home)]
    running = [entry.process for entry in journal.history(home) if entry.ended is None]
    found = dict.fromkeys([*owners, *running])
    return [process for process in found if process.host == here and process.is_alive()]
