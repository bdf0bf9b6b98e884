"""Functions that worker processes call in tests, in a module that they can import."""

import os
import signal
import threading
import time
import warnings
from pathlib import Path

from tasks.run.resources import shares_of, threads_now, told


def process():
    return os.getpid()


def environment(name):
    return os.environ[name]


def shares(name):
    tell = shares_of(name, every=0)
    for share in (0.25, 0.5):
        tell(share)


def warning(text):
    warnings.warn(text, stacklevel=1)


def refused():
    raise FileNotFoundError(2, "No such file or directory", "a.csv")


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def killed_while_it_tells(name):
    """Tell a share, then die within a message that is longer than what a pipe holds."""
    told(name, 0.25)
    threading.Thread(target=told, args=("x" * 10**6, 0.5), daemon=True).start()
    time.sleep(0.5)
    killed()


def hanging(path):
    Path(path).write_text(str(os.getpid()))
    time.sleep(600)


def threads(folder, calls):
    """Return how many threads a call may use while so many calls are under way."""
    for step in ("begun", "asked"):
        count = threads_now()
        (folder / f"{step} {os.getpid()}").touch()
        while len(list(folder.glob(f"{step} *"))) < calls:
            time.sleep(0.01)
    return count
