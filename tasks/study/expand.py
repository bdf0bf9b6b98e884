"""A block: cells of a study that are computed together."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from tasks.cells import Cell, Replicates
from tasks.problems.kinds import measure_of
from tasks.problems.problem import RowSource

# Elements of all data sets that the cells of one block read, so that it lasts seconds.
_ELEMENTS_PER_BLOCK = 400_000_000
_ELEMENTS_PER_CELL = 200_000  # what a cell costs apart from its data
_NAMED = 3  # estimators in a block's title


@dataclass(frozen=True, kw_only=True)
class Block:
    """Cells of one study that share their data: of one panel, one size and a range of replicates."""

    replicates: Replicates
    problem: RowSource
    data_source: str  # "real", "stand-in" or "simulated"
    work: int  # a rough measure, for the order of execution and the remaining time
    n_bytes: int  # about how much memory one draw of its data takes
    cells: tuple[Cell, ...]

    @property
    def key(self) -> str:
        return self.replicates.key

    @property
    def title(self) -> str:
        """Size and estimators for people to read, e.g. ``public:n=2000 · adassp, ols and 3 more``."""
        names = list(dict.fromkeys(cell.estimator for cell in self.cells))
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"{self.key} · {', '.join(names[:_NAMED])}{more}"

    def described(self) -> dict[str, Any]:
        return {
            **vars(self),
            "replicates": asdict(self.replicates),
            "problem": self.problem.model_dump(mode="json"),
            "cells": [asdict(cell) for cell in self.cells],
        }


def bundle(
    cells: tuple[Cell, ...], problem: RowSource, every: Replicates, data_source: str
) -> Iterator[Block]:
    """Yield the blocks of cells of one size: all replicates, or several parts where they would last long."""
    cost, d = problem.cost(every.n), problem.sizes(every.n)["d"]
    work = (len(cells) + 1) * (cost.elements + _ELEMENTS_PER_CELL)  # of a replicate
    batch = cost.batch or max(1, _ELEMENTS_PER_BLOCK // work)
    products = 8 * every.n * d * (d + 1) // 2 if measure_of(problem).of_intervals else 0
    for first in range(0, every.count, batch):
        count = min(batch, every.count - first)
        yield Block(
            replicates=replace(every, first=first, count=count),
            problem=problem,
            data_source=data_source,
            work=count * work,
            n_bytes=max(cost.n_bytes + products, 8 * cost.elements),
            cells=cells,
        )
