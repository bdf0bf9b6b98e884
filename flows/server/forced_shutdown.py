"""Forced shutdown of a run when threads or the server do not end.

Python waits for its threads and Prefect for its server, both for as long as it takes: a run that is
interrupted inside a long block, or whose server is gone for good, would not end. Nothing is lost by ending it
hard: files appear whole or not at all, and the next start tells the server what became of the run.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from flows.record import journal
from flows.record.progress import say
from flows.server.client import answers
from flows.server.processes import end_own_processes

GRACE = 8.0
_TELL_TIMEOUT = 5.0

_STOPPING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


def leave(home: Path, sentence: str) -> NoReturn:
    """Say why, end what this process started below `home`, and end this process with status 1."""
    try:
        say(f"\ndpcost: {sentence}; finished blocks are stored, run the same command again to go on")
        teller = threading.Thread(target=_tell_server, args=(home,), daemon=True)
        teller.start()
        teller.join(_TELL_TIMEOUT)
        end_own_processes()
        sys.stdout.flush()
    finally:
        os._exit(1)


def _tell_server(home: Path) -> None:
    """Mark this process's unfinished runs as crashed; those that this fails for, the next start marks."""
    api_url = os.environ.get("PREFECT_API_URL", "")
    if answers(api_url):
        journal.mark_own_runs(home, api_url)


@contextlib.contextmanager
def prompt_end(leave: Callable[[str], object], grace: float = GRACE) -> Iterator[None]:
    """Call `leave` once Ctrl-C or SIGTERM has not ended the body within `grace` seconds, or comes again.

    Which handlers are installed in the meantime, and by whom, makes no difference.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(reading, leave, grace), name="way out", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        writing.close()
        watcher.join()
        reading.close()


def _watch(signals: socket.socket, leave: Callable[[str], object], grace: float) -> None:
    interruptions = 0
    while received := _next(signals, grace if interruptions else None):
        interruptions += sum(number in _STOPPING for number in received)  # several may arrive at once
        if interruptions > 1:
            leave("interrupted twice, so not waiting for the blocks in flight")
            return
        if received == _TIME_IS_UP:
            leave(f"interrupted, and not waiting longer than {grace:.0f} s for the blocks in flight")
            return


_TIME_IS_UP = b"\0"


def _next(signals: socket.socket, timeout: float | None) -> bytes:
    """Return the numbers of the signals that arrived; nothing once the body has ended."""
    signals.settimeout(timeout)
    try:
        return signals.recv(64)
    except TimeoutError:
        return _TIME_IS_UP
