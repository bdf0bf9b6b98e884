"""What Ctrl-C and SIGTERM do to a run: they end it in order, and by force where that takes too long.

Python waits for its threads and Prefect for its server for as long as it takes. Nothing is lost by ending a
run hard: files appear whole or not at all, and the next start tells the server what became of it.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

from flows.record.progress import say
from flows.server.dead_runs import mark_dead_runs
from flows.server.prefect_server import answers
from flows.server.processes import STOP_SIGNALS, end_own_processes

GRACE = 8.0
_TELL_TIMEOUT = 5.0
_RECORDED = 1.5  # seconds: the server writes down every second which task runs have begun


@contextlib.contextmanager
def termination_as_exit() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack like Ctrl-C does, so that what was started is ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def exit_now(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    ours = [s for s in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) is signal.SIG_DFL]
    try:
        for each in ours:
            signal.signal(each, exit_now)
        yield
    finally:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)


def leave(home: Path, sentence: str) -> NoReturn:
    """Say why, mark this process's unfinished runs, end what it started, and end it with status 1."""
    try:
        say(f"\ndpcost: {sentence}; finished blocks are stored, run the same command again to go on")
        if answers(os.environ.get("PREFECT_API_URL", "")):
            time.sleep(_RECORDED)
            telling = threading.Thread(
                target=mark_dead_runs, args=(home, lambda _: None), kwargs={"own": True}, daemon=True
            )
            telling.start()
            telling.join(_TELL_TIMEOUT)
        end_own_processes()
        sys.stdout.flush()
    finally:
        os._exit(1)


@contextlib.contextmanager
def prompt_end(leave: Callable[[str], object], grace: float = GRACE) -> Iterator[None]:
    """Call `leave` once Ctrl-C or SIGTERM has not ended the body within `grace` seconds, or comes again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(reading, leave, grace), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        writing.close()
        watcher.join()
        reading.close()


def _watch(signals: socket.socket, leave: Callable[[str], object], grace: float) -> None:
    """Read the numbers of the signals that arrive, until the body has ended and its end is closed."""
    interruptions = 0
    try:
        while received := signals.recv(64):
            interruptions += sum(number in STOP_SIGNALS for number in received)  # several may arrive at once
            if interruptions > 1:
                leave("interrupted twice, so not waiting for the blocks in flight")
                return
            if interruptions:
                signals.settimeout(grace)
    except TimeoutError:
        leave(f"interrupted, and not waiting longer than {grace:.0f} s for the blocks in flight")
