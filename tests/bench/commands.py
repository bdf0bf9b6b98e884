"""Commands as whole processes: what starting takes, whole runs by the clock; the machine has to be quiet."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from data.store.folders import PROJECT_ROOT
from tests.bench.goals import Goal, Measurement, at_most

_DPCOST = "import sys; from flows.cli.start import main; sys.argv[0] = 'dpcost'; main()"


def run_script(code: str, *words: object) -> Any:
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


COMMANDS = {("studies",): 0.6, ("status",): 0.6, ("estimators",): 0.6}  # seconds wanted
CACHED_RUN = 5.0


def bench_start_up(small: bool = False) -> Measurement:
    """Time commands that list, and runs of which everything is stored; the machine has to be quiet."""
    studies = [] if small else ["fair", "housing", "snp"]
    goals: list[Goal] = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        runs = [("run", study, "--out", f"{folder}/out") for study in studies]
        for run in runs:
            run_dpcost(home, *run)
        for words, wanted in {**COMMANDS, **dict.fromkeys(runs, CACHED_RUN)}.items():
            times = [_busy_and_idle(home, *words) for _ in range(1 if small else 3)]
            name = " ".join(words[:2])
            goals.append(at_most(wanted, "s", f"dpcost {name}: processor", *(busy for busy, _ in times)))
            goals.append(at_most(1.0, "s", f"dpcost {name}: waiting", *(idle for _, idle in times)))
    figure = "; ".join(f"{goal.what} {goal.median:.2f} s" for goal in goals)
    return Measurement(figure=figure, goals=goals, data=", ".join(studies) or "none")


def _busy_and_idle(home: Path, *words: str) -> tuple[float, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = run_dpcost(home, *words)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return busy, max(0.0, wall - busy)


STUDIES = ("housing", "snp", "swarm")
PROFILE = ("--profile", "smoke")


def bench_two_workers_on_swarm(small: bool = False) -> Measurement:
    """Time the swarm study's blocks on one worker and on two, its data in the store in both cases."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        words = ["run", "fair", *PROFILE] if small else ["run", "swarm"]
        run_dpcost(home, "ingest", words[1])
        start_up = run_dpcost(home, "run", words[1], *PROFILE, "--out", f"{folder}/out")
        one = run_dpcost(home, *words, "--seed", "1", "--workers", "1", "--out", f"{folder}/out")
        two = run_dpcost(home, *words, "--seed", "2", "--workers", "2", "--out", f"{folder}/out")
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
        seconds = run_dpcost(home, "run", *studies, "--profile", profile, "--out", f"{folder}/out")
        data = _data(Path(folder) / "out")
    return Measurement(
        figure=f"{seconds:.0f} s for {', '.join(studies)} at profile {profile}, from an empty home",
        goals=[at_most(180, "s", "`make run`", seconds)],
        data=data,
    )


def _data(out: Path) -> str:
    manifests = [json.loads(path.read_bytes()) for path in sorted(out.glob("*/manifest.json"))]
    return ", ".join(f"{each['name']} ({each['data_source']})" for one in manifests for each in one["data"])
