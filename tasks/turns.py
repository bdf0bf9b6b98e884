"""The turns of the studies of one command: several are under way, and the first goes first."""

import threading
from contextvars import ContextVar

TURN: ContextVar[int] = ContextVar("turn", default=0)  # of the study at work; 0 is the first
STOPPED = threading.Event()  # the command ends early: nothing begins any more
SECONDS_TO_STOP = 0.2  # until whoever waits for a block notices that


def end_if_stopped() -> None:
    """Raise KeyboardInterrupt, in whatever thread, when the command ends early."""
    if STOPPED.is_set():
        raise KeyboardInterrupt
