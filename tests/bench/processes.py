"""Runs programs in processes of their own, so that imports and memory are theirs."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from data.store.folders import PROJECT_ROOT

_DPCOST = "import sys; from flows.cli.start import main; sys.argv[0] = 'dpcost'; main()"


def run_script(code: str, *words: object) -> Any:
    """Run a script and return what it printed, which is JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def run_dpcost(home: Path, *words: str, **environment: str) -> float:
    """Run a command of ``dpcost`` in a home and return its seconds by the clock."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", _DPCOST, *words],
        cwd=PROJECT_ROOT,
        env={**os.environ, **environment, "DPCOST_HOME": str(home), "OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    return time.perf_counter() - start
