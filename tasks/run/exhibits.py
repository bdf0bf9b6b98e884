"""Exhibits: results of a problem in addition to its errors, computed at the headline of a study."""

import json

from data.store.references import DatasetRef
from tasks.cache import Target, Written
from tasks.cells import one_blas_thread
from tasks.errors import guarded
from tasks.problems.kinds import measure_of
from tasks.problems.problem import HeadlineRun
from tasks.study.expand import Block


@guarded
def write_exhibits(
    result: Target,
    block: Block,
    table: DatasetRef | None,
    design: Written | None,
) -> Written:
    """Write the exhibits of a block's problem."""
    one_blas_thread()
    run = HeadlineRun(
        table=table,
        design=design.stored_path() if design else None,
        replicates=block.replicates,
        cells=block.cells,
    )
    problem = block.problem
    exhibits = problem.exhibits(run) | measure_of(problem).exhibits(problem.traits, run)
    return result.write(json.dumps(exhibits, sort_keys=True).encode())
