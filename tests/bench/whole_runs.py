"""Whole runs by the clock: two workers against one on the swarm, and what `make run` takes on the stand-in.

The machine has to be quiet: these are seconds of the clock.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from data.store.folders import PROJECT_ROOT
from tests.bench.goals import Goal

STUDIES = ("housing", "snp", "swarm")


def bench_two_workers_on_swarm() -> dict:
    """Time the swarm study's blocks on one worker and on two, its data in the store in both cases."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        _run(home, "ingest", "swarm")
        start_up = _run(home, "run", "swarm", "--profile", "smoke", "--out", f"{folder}/out")
        one = _run(home, "run", "swarm", "--seed", "1", "--workers", "1", "--out", f"{folder}/out")
        two = _run(home, "run", "swarm", "--seed", "2", "--workers", "2", "--out", f"{folder}/out")
    ratio = (one - start_up) / (two - start_up)
    return {
        "figure": f"{ratio:.2f}×: {one:.0f} s with one worker, {two:.0f} s with two; starting and "
        f"reporting take {start_up:.0f} s",
        "wanted": "≥ 1.85×",
        "goals": [Goal(what="two workers against one, on swarm", values=[ratio], wanted=1.85)],
        "seconds": {"one": one, "two": two, "start": start_up},
    }


def bench_make_run() -> dict:
    """Time what `make run` does with raw data at hand but for the swarm's, from an empty home."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        seconds = _run(home, "run", *STUDIES, "--profile", "standard", "--out", f"{folder}/out")
    return {
        "figure": f"{seconds:.0f} s for {', '.join(STUDIES)} at profile standard, from an empty home",
        "wanted": "≤ 180 s",
        "goals": [
            Goal(what="`make run` on the stand-in", values=[seconds], wanted=180, at_least=False, unit="s")
        ],
        "seconds": seconds,
    }


def _run(home: Path, *words: str) -> float:
    """Return the seconds of a command of ``dpcost`` in a process of its own."""
    code = "import sys; from flows.cli.start import main; sys.argv[0] = 'dpcost'; main()"
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=PROJECT_ROOT,
        env={**os.environ, "DPCOST_HOME": str(home), "OMP_NUM_THREADS": "1"},
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - start
