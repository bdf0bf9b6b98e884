"""The Prefect flows, the servers behind them, and the command line."""

import os
import threading
import time
from pathlib import Path

# Prefect needs a home folder at its import, and the user of a container may have none.
try:
    Path.home()
except RuntimeError:
    os.environ["HOME"] = "/"  # as container engines do

# Prefect sends usage data unless these variables are set before its first import.
NO_ANALYTICS = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
os.environ.update(NO_ANALYTICS)

# A process that ends with its parent: a run of the permanent server, the server of a command.
ENDS_WITH = "DPCOST_SERVED_BY"


class ServerError(RuntimeError):
    """A required server could not be started or disappeared; the message is one sentence."""


def _end_with(parent: int) -> None:
    """End this process when its parent process has ended for any reason."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if parent := os.environ.pop(ENDS_WITH, ""):
    threading.Thread(target=_end_with, args=[int(parent)], daemon=True).start()
