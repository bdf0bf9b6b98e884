"""What a command takes that computes nothing: seconds of the processor, and seconds of waiting."""

import resource
import tempfile
from pathlib import Path

from tests.bench.goals import Goal, Measurement, at_most
from tests.bench.processes import run_dpcost

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
    """Return the seconds of the processor that a command takes, its processes' included, and the others."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = run_dpcost(home, *words)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return busy, max(0.0, wall - busy)
