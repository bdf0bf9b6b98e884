"""The stories: one Prefect flow per kind of study, the servers behind them, and the command line."""

import os
import sys
import threading
import time
from pathlib import Path

# A wheel installs the application's packages in the folder `dpcost`, which goes first on the path: they
# import each other by the names that they have in a checkout.
if __name__ != "flows":
    sys.path.insert(0, str(Path(__file__).parents[1]))

# Prefect asks for the user's folder at its import, and a container's user may have none.
try:
    Path.home()
except RuntimeError:
    os.environ["HOME"] = "/"  # as container engines do

# Prefect sends usage data unless it is told not to before it is first imported.
NO_ANALYTICS = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
os.environ.update(NO_ANALYTICS)


class ServerError(RuntimeError):
    """A server that is needed could not be started or is gone; the message is one sentence."""


def _end_with(parent: int) -> None:
    """End this process when the one that started it is gone, however that one ended."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


# The standing server names itself to the runs that it starts, which end with it.
if served_by := os.environ.pop("DPCOST_SERVED_BY", ""):
    threading.Thread(target=_end_with, args=[int(served_by)], daemon=True).start()
