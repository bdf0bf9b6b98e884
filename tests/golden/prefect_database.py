"""Prefect's empty database as SQL: ``python -m tests.golden.prefect_database`` writes it anew."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from flows.database import EMPTY_DATABASE


def empty_database() -> str:
    """Return what Prefect's own command makes of no database."""
    with tempfile.TemporaryDirectory() as home:
        words = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "-y"]
        subprocess.run(
            words,
            env=os.environ | {"PREFECT_HOME": home, "PYTHONHASHSEED": "0"},
            check=True,
            capture_output=True,
        )
        database = sqlite3.connect(Path(home) / "prefect.db")
        try:
            return "\n".join([*database.iterdump(), ""])
        finally:
            database.close()


if __name__ == "__main__":
    EMPTY_DATABASE.write_text(empty_database())
