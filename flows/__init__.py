"""The stories: one Prefect flow per kind of study, the servers behind them, and the command line."""

import os

# Prefect sends usage data unless it is told not to before it is first imported.
NO_ANALYTICS = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
os.environ.update(NO_ANALYTICS)
