"""The end of a process: by Ctrl-C and SIGTERM in bounded time, and with the process that started it.

Python waits for its threads for as long as they take. Nothing is lost by ending a run hard: files appear
whole or not at all, and the next start marks the run as crashed.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from flows.record.progress import say
from tasks.turns import STOPPED

GRACE = 8.0


def leave(sentence: str) -> NoReturn:
    """Say why, and end this process at once with status 1."""
    try:
        say(f"\ndpcost: {sentence}; finished blocks are stored, run the same command again to go on")
        sys.stdout.flush()
    finally:
        os._exit(1)


@contextmanager
def prompt_end(grace: float = GRACE) -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP unwind the body; end the process where that takes too long.

    That is after `grace` seconds, or when the second signal arrives. A signal that is ignored stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    heeded = [each for each, handler in handlers.items() if handler is not signal.SIG_IGN]
    sentence = f"interrupted, and not waiting longer than {grace:.0f} s for the blocks in flight"
    late = threading.Timer(grace, leave, [sentence])
    late.daemon = True

    def end(number: int, frame: FrameType | None) -> None:
        if late.ident is not None:
            leave("interrupted twice, so not waiting for the blocks in flight")
        late.start()
        STOPPED.set()
        before = handlers[signal.Signals(number)]
        if callable(before):
            before(number, frame)
        raise SystemExit(128 + number)

    for each in heeded:
        signal.signal(each, end)
    try:
        yield
    finally:
        late.cancel()
        STOPPED.clear()
        for each in heeded:
            signal.signal(each, handlers[each])


def end_with(parent: int) -> None:
    """End this process when the one that started it is gone, however that one ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, name="watch of the parent", daemon=True).start()
