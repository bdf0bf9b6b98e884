"""Whole runs as processes of their own, from an empty home and from the cache."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from data.store.folders import PROJECT_ROOT
from tests.bench.goals import Measurement, at_most
from tests.builders import DPCOST


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
        [sys.executable, "-c", DPCOST, *words],
        cwd=PROJECT_ROOT,
        env={**os.environ, **environment, "DPCOST_HOME": str(home), "OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    return time.perf_counter() - start


def seconds_of_children(call: Callable[[], object]) -> float:
    """Return the processor's seconds of the processes that a call starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    call()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


STUDIES = ("housing", "snp", "swarm")


def bench_make_run(small: bool = False) -> Measurement:
    """Time what `make run` does, from an empty home, and the same when all is stored, and one study alone.

    The machine has to be quiet: seconds are by the clock for the first, of the processor for the others.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        studies, profile = (("fair",), "smoke") if small else (STUDIES, "standard")
        words = ("--profile", profile, "--out", f"{folder}/out")
        first = run_dpcost(home, "run", *studies, *words)
        again = [_busy(home, "run", *studies, *words) for _ in range(1 if small else 3)]
        alone = [_busy(home, "run", studies[len(studies) // 2], *words) for _ in again]
        data = _data(Path(folder) / "out")
    goals = [
        at_most(110, "s", f"`make run`: {', '.join(studies)}", first),
        at_most(4, "s", "the same from the cache", *again),
        at_most(1.5, "s", "one of them from the cache", *alone),
    ]
    figure = "; ".join(f"{goal.what} {goal.median:.1f} s" for goal in goals)
    return Measurement(figure=figure, goals=goals, data=data)


def _busy(home: Path, *words: str) -> float:
    return seconds_of_children(partial(run_dpcost, home, *words))


def _data(out: Path) -> str:
    manifests = [json.loads(path.read_bytes()) for path in sorted(out.glob("*/manifest.json"))]
    return ", ".join(f"{each['name']} ({each['data_source']})" for one in manifests for each in one["data"])
