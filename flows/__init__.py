"""The stories: one Prefect flow per kind of study, the servers behind them, and the command line."""

import os
import sys
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

# The standing server names itself to the runs that it starts, which end with it.
if _served_by := os.environ.pop("DPCOST_SERVED_BY", ""):
    from flows.server.parent import end_with

    end_with(int(_served_by))
