"""The turns of the studies of one command: several are under way, and the first goes first."""

import threading
from contextvars import ContextVar

TURN: ContextVar[int] = ContextVar("turn", default=0)  # of the study at work; 0 is the first
STOPPED = threading.Event()  # the command ends early: nothing begins any more
