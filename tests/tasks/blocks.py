"""Blocks for tests of what is computed in them."""

from tasks.problems.problem import DatasetProblem
from tasks.study.block import Block
from tasks.work_units import Replicates


def made_block(problem, *cells, n, replicates=3, first=0, of=None, study="mine", panel="one", seed=7):
    """Return a block of some replicates of a problem."""
    drawn = Replicates(
        study=study,
        panel=panel,
        n=n,
        first=first,
        count=replicates,
        of=replicates if of is None else of,
        n_cells=len(cells),
        seed=seed,
    )
    source = "real" if isinstance(problem, DatasetProblem) else "simulated"
    return Block(replicates=drawn, problem=problem, data_source=source, work=1, cells=cells)
