"""Audit the private estimators at the headlines of studies; the program ships the results.

Run ``../.venv/bin/python -m generate.audits [STUDY…]`` in the folder ``docs``, on two cores: hours for all
estimators. A run of a study shows these audits. It audits only code that has none.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from flows.progress import say
from flows.studies.find_study import find_study, study_names
from tasks.cells import Cell
from tasks.run.compute import STORED, audit_key, audited, stored_audits
from tasks.run_options import RunOptions

N_TRIALS = 100_000


def cells_of(study: str) -> Iterator[tuple[Cell, int]]:
    """Yield the cells that a study audits, with their number of columns."""
    spec = find_study(study)
    if spec.audit_trials:
        n_features = spec.head_panel.problem.sizes(spec.headline.n)["d"]
        blocks = spec.blocks("standard", replicates=1, seed=RunOptions().seed)
        yield from ((cell, n_features) for cell in spec.headline_cells(blocks))


def stale() -> Iterator[tuple[str, str, str]]:
    """Yield the studies whose shipped audits are of other code, the reason, and the command for new ones."""
    for study in study_names():
        missing = [cell for cell, d in cells_of(study) if audit_key(cell, d) not in stored_audits()]
        if missing:
            yield f"{len(missing)} audits of {study}", "with other code", f"python -m generate.audits {study}"


def main(studies: Sequence[str]) -> None:
    wanted = {audit_key(*each): each for study in studies for each in cells_of(study)}
    used = {audit_key(*each) for study in study_names() for each in cells_of(study)}
    bounds = {key: dict(content) for key, content in stored_audits().items() if key in used}
    missing = [key for key in wanted if key not in bounds]
    with ProcessPoolExecutor() as pool:
        futures = {key: pool.submit(audited, *wanted[key], N_TRIALS, RunOptions().seed) for key in missing}
        for key, future in futures.items():
            bounds[key] = future.result()
            say(f"{wanted[key][0].key}: epsilon is at least {bounds[key]['audited_epsilon']:.3g}")
            STORED.write_text(json.dumps(bounds, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or study_names())
