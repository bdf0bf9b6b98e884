"""Whole runs by the clock: two workers against one on the swarm, and what `make run` takes.

The machine has to be quiet: these are seconds of the clock.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from data.store.folders import PROJECT_ROOT
from tests.bench.goals import Goal, Measurement

STUDIES = ("housing", "snp", "swarm")


PROFILE = ("--profile", "smoke")


def bench_two_workers_on_swarm(small: bool = False) -> Measurement:
    """Time the swarm study's blocks on one worker and on two, its data in the store in both cases."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        words = ["run", "fair", *PROFILE] if small else ["run", "swarm"]
        _run(home, "ingest", words[1])
        start_up = _run(home, "run", words[1], *PROFILE, "--out", f"{folder}/out")
        one = _run(home, *words, "--seed", "1", "--workers", "1", "--out", f"{folder}/out")
        two = _run(home, *words, "--seed", "2", "--workers", "2", "--out", f"{folder}/out")
        data = _data(Path(folder) / "out")
    ratio = (one - start_up) / (two - start_up)
    return Measurement(
        figure=f"{ratio:.2f}×: {one:.0f} s with one worker, {two:.0f} s with two; starting and "
        f"reporting take {start_up:.0f} s",
        goals=[Goal(what=f"two workers against one, on {words[1]}", values=[ratio], wanted=1.85)],
        data=data,
    )


def bench_make_run(small: bool = False) -> Measurement:
    """Time what `make run` does with raw data at hand but for the swarm's, from an empty home."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        studies, profile = (("fair",), "smoke") if small else (STUDIES, "standard")
        seconds = _run(home, "run", *studies, "--profile", profile, "--out", f"{folder}/out")
        data = _data(Path(folder) / "out")
    return Measurement(
        figure=f"{seconds:.0f} s for {', '.join(studies)} at profile {profile}, from an empty home",
        goals=[Goal(what="`make run`", values=[seconds], wanted=180, at_least=False, unit="s")],
        data=data,
    )


def _data(out: Path) -> str:
    """Name the datasets of the reports in a folder, and whether they are real."""
    manifests = [json.loads(path.read_bytes()) for path in sorted(out.glob("*/manifest.json"))]
    return ", ".join(f"{each['name']} ({each['data_source']})" for one in manifests for each in one["data"])


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
