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
from flows.studies.steps import RunOptions, StudySteps
from tests.plain_tasks import PlainTasks


def plain_study(path: str, replicates: int, seed: int, out: Path) -> tuple[int, int]:
    """Run all tasks of a study as functions, and return how many cells and blocks there were."""
    spec = find_study(path)
    options = RunOptions(study=path, out=str(out), reps=replicates, seed=seed, offline=True)
    StudySteps(spec, out, options, PlainTasks()).run()
    blocks = spec.blocks("standard", replicates=replicates, seed=seed)
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
