"""Computes a study on the housing data in one process without Prefect: what orchestration is compared with.

    python -m tests.bench.plain_study STUDY.toml REPLICATES SEED

Prints how many cells and blocks there were and the processor time of their tasks, imports not counted.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from data.store.folders import home
from flows.studies.find_study import find_study
from tasks.bring.fetch import fetch
from tasks.bring.parquet import parquet
from tasks.cache.keys import cache_key
from tasks.problems.problem import modules_of
from tasks.report.manifest import now
from tasks.report.render import render
from tasks.run.collect import collect
from tasks.run.prepare import prepare
from tasks.run.run_block import run_block


def plain_study(path: str, replicates: int, seed: int, out: Path) -> tuple[int, int]:
    """Run all tasks of a study as functions, and return how many cells and blocks there were."""
    spec = find_study(path)
    table = parquet(fetch(spec.datasets[0], True))
    problem, code = spec.head_panel.problem, [run_block.__module__]
    design = prepare(cache_key("design", code, seed), problem, table)
    blocks = spec.blocks("standard", replicates=replicates, seed=seed)
    parts = []
    for block in blocks:
        named = [*code, *modules_of(block.problem, {cell.estimator for cell in block.cells})]
        key = cache_key("block", named, block.described(), design["sha256"])
        parts.append(run_block(key, block, design, f"cache/blocks/{key}.parquet"))
    results = collect(cache_key("results", code, seed), parts, [], str(out / spec.name))
    context = {"study": path, "out": str(out), "profile": "standard", "replicates": replicates, "seed": seed}
    context |= {"command": "", "started": now(), "not_run": {}}
    render(cache_key("page", code, seed, of_page=True), spec, [table], results, context)
    return sum(len(block.cells) for block in blocks), len(blocks)


def main() -> None:
    """Measure one study."""
    path, replicates, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    home().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        n_cells, n_blocks = plain_study(path, replicates, seed, Path(folder))
        seconds = time.process_time() - began
    print(json.dumps({"n_cells": n_cells, "n_blocks": n_blocks, "seconds": seconds}))


if __name__ == "__main__":
    main()
