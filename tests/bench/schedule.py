"""Model the time line of a run on more cores: ``python -m tests.bench.schedule HOME CORES SECONDS STUDY…``.

HOME is that of a new run with ``--workers 1``, whose tasks therefore ended one after another: a task took
the time since the end before it. All are scaled to SECONDS together, the processor time of the tasks on an
idle machine. The model gives each free core the task with the most work of those that can run, as
`tasks.workers` does. Start-up and exit are estimates, and as long on any machine. The stand-in of a dataset
computes in threads, so the model divides it by the number of cores. Each line is a core, each character half
a second: a letter per study, ``-`` for data and designs, ``|`` for pages.
"""

import heapq
import math
import sqlite3
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from flows.studies.find_study import find_study

START, END = 5.0, 1.5  # seconds before the first task and after the last one, see `tests.bench.time_line`
STEP = 0.5


@dataclass(eq=False)
class Task:
    name: str
    mark: str
    work: float = math.inf
    after: list["Task"] = field(default_factory=list)
    seconds: float = 0.0


def costs_of(home: Path, seconds: float) -> dict[str, list[float]]:
    """Return the seconds of the tasks of a run with one worker, by name."""
    with sqlite3.connect(home / "prefect" / "prefect.db") as database:
        query = "select name, start_time, end_time from task_run where end_time is not null order by end_time"
        runs = [
            (name, *(datetime.fromisoformat(each).timestamp() for each in times))
            for name, *times in database.execute(query)
        ]
    costs, before = defaultdict[str, list[float]](list), 0.0
    for name, start, end in runs:
        costs[name].append(end - max(start, before))
        before = end
    scale = seconds / sum(map(sum, costs.values()))
    return {name: [each * scale for each in found] for name, found in costs.items()}


def tasks_of(study: str, profile: str, costs: dict[str, list[float]], cores: int) -> list[Task]:
    """Return the tasks of a study, each after those that it needs."""
    spec, mark, tasks = find_study(study), study[-1], list[Task]()

    def add(name: str, mark: str, after: list[Task], work: float = math.inf) -> Task:
        seconds = costs[name].pop(0) if costs.get(name) else 0.0
        tasks.append(Task(name, mark, work, after, seconds))
        return tasks[-1]

    for name in spec.datasets_at(profile):
        costs[f"parquet {name}"] = [sum(costs.get(f"parquet {name}", [])) / cores] * cores
    tables = {
        name: [add(f"parquet {name}", "-", []) for _ in range(cores)] for name in spec.datasets_at(profile)
    }
    designs = {
        panel.name: [add(f"prepare {problem.source} {panel.name}", "-", tables[problem.source])]
        for panel, problem in spec.panels_on_data(profile)
    }
    blocks = spec.blocks(profile, replicates=None, seed=0)
    parts = [add(block.title, mark, designs.get(block.replicates.panel, []), block.work) for block in blocks]
    if profile in spec.audit_trials:
        parts += [add(f"audit {cell.key}", mark, []) for cell in spec.headline_cells(blocks)]
    results = add("collect results", "|", parts)
    exhibits = add(f"exhibits of {study}", "|", [results])
    add(f"render {study}", "|", [exhibits])
    return tasks


def scheduled(tasks: list[Task], cores: int) -> list[list[tuple[float, float, Task]]]:
    """Return by core which task runs from when to when."""
    lines: list[list[tuple[float, float, Task]]] = [[] for _ in range(cores)]
    left, ended, now = list(tasks), set[Task](), START
    running: list[tuple[float, int, Task]] = []
    free = list(range(cores))
    while left or running:
        ready = sorted((task for task in left if ended.issuperset(task.after)), key=lambda task: -task.work)
        for task, core in zip(ready, list(free), strict=False):
            free.remove(core)
            left.remove(task)
            heapq.heappush(running, (now + task.seconds, core, task))
            lines[core].append((now, now + task.seconds, task))
        now, core, task = heapq.heappop(running)
        free.append(core)
        ended.add(task)
    return lines


def main(home: str, cores: str, seconds: str, *studies: str) -> int:
    costs = costs_of(Path(home), float(seconds))
    tasks = [task for study in studies for task in tasks_of(study, "standard", costs, int(cores))]
    lines = scheduled(tasks, int(cores))
    wall = max(end for line in lines for _, end, _ in line)
    for line in lines:
        marks = [" "] * (int(wall / STEP) + 1)
        for begin, end, task in line:
            marks[int(begin / STEP) : int(end / STEP)] = task.mark * (int(end / STEP) - int(begin / STEP))
        print("".join(marks))
    print(f"{cores} cores: wall {wall + END:.1f} s, tasks {sum(task.seconds for task in tasks):.1f} s")
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(str(__doc__))
    sys.exit(main(*sys.argv[1:]))
