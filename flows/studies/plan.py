"""Forecast the time and memory of a study before it runs: ``dpcost plan``."""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from data.store.references import DatasetRef
from flows.studies.find_study import find_study
from tasks.problems.problem import DatasetSource
from tasks.run.cost_model import costs_of, memory_at_once, wall_seconds
from tasks.run.tables import bring
from tasks.run.threads import one_blas_thread
from tasks.run_options import RunOptions
from tasks.study.block import Block

# What a run takes in addition to its blocks, in units of what it takes to import this program: Prefect's
# import, its start and end, the data, the page. Fitted to runs of four studies, of which it was 16 to 25.
_AROUND = 20.0
_AROUND_BYTES = 380e6


def plan_study(study: str, options: RunOptions) -> dict[str, Any]:
    """Return the forecast seconds and bytes of a run, from short runs of some of its blocks."""
    one_blas_thread()
    around = _AROUND * time.process_time()
    profile, workers = options.profile, options.workers or os.cpu_count() or 1
    spec = find_study(study)
    spec, tables = spec.on({name: bring(spec, name, options) for name in spec.datasets_at(profile)})
    blocks = spec.expand(options, tables)
    with tempfile.TemporaryDirectory() as folder:
        costs = costs_of(blocks, lambda block: _prepared(block, tables, Path(folder)))
    panels = dict.fromkeys((cost.block.replicates.panel for cost in costs), 0.0)
    for cost in costs:
        panels[cost.block.replicates.panel] += cost.seconds
    return {
        "study": spec.name,
        "profile": profile,
        "blocks": len(blocks),
        "core_seconds": sum(panels.values()) + around,
        "workers": workers,
        "seconds": wall_seconds(costs, workers) + around,
        "bytes": memory_at_once(costs, workers) + _AROUND_BYTES,
        "panels": [{"panel": name, "core_seconds": seconds} for name, seconds in panels.items()],
    }


def joint_plan(name: str, plans: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the joint plan of several studies that run at once."""
    totals = {key: sum(plan[key] for plan in plans) for key in ("blocks", "core_seconds", "seconds")}
    parts = [
        {**each, "panel": f"{plan['study']}, {each['panel']}"} for plan in plans for each in plan["panels"]
    ]
    most = max(plan["bytes"] for plan in plans)
    return {**plans[0], "study": name, **totals, "bytes": most, "panels": parts}


def described(plan: dict[str, Any]) -> str:
    first = (
        f"{plan['study']} at profile {plan['profile']}: {plan['blocks']} blocks, about "
        f"{_time(plan['seconds'])} with {plan['workers']} worker(s) "
        f"({_time(plan['core_seconds'])} of one core), {plan['bytes'] / 2**20:.0f} MiB"
    )
    panels = (f"  {panel['panel']}: {_time(panel['core_seconds'])}" for panel in plan["panels"])
    return "\n".join([first, *panels])


def _prepared(block: Block, tables: dict[str, DatasetRef], folder: Path) -> Any:
    problem = block.problem
    if not isinstance(problem, DatasetSource):
        return None
    path = folder / f"prepared{problem.file_type}"
    path.write_bytes(problem.prepare(tables[problem.source]))
    return problem.load(path)


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
