"""Whole runs by the clock: two workers against one on the swarm, and what `make run` takes.

The machine has to be quiet: these are seconds of the clock.
"""

import json
import tempfile
from pathlib import Path

from tests.bench.goals import Goal, Measurement, at_most
from tests.bench.processes import run_dpcost

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
    """Name the datasets of the reports in a folder, and whether they are real."""
    manifests = [json.loads(path.read_bytes()) for path in sorted(out.glob("*/manifest.json"))]
    return ", ".join(f"{each['name']} ({each['data_source']})" for one in manifests for each in one["data"])
