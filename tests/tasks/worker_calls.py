"""Functions that worker processes call in tests, in a module that they can import."""

import os
import signal
import time
from pathlib import Path


def process():
    return os.getpid()


def process_later():
    time.sleep(1)
    return os.getpid()


def environment(name):
    return os.environ[name]


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def hanging(path):
    Path(path).write_text(str(os.getpid()))
    time.sleep(600)


def waiting(folder, calls):
    """Return how many calls were under way at most, after as many as are waited for have begun."""
    (folder / f"begun {os.getpid()} {time.monotonic_ns()}").touch()
    deadline = time.monotonic() + 2
    while len(list(folder.glob("begun *"))) < calls and time.monotonic() < deadline:
        time.sleep(0.01)
    return len(list(folder.glob("begun *")))
