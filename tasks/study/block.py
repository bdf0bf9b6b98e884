"""A block: the unit of scheduling, a bundle of cells that share the data they read."""

from dataclasses import asdict, dataclass
from typing import Any

from tasks.problems.problem import Problem
from tasks.work_units import Cell, Replicates

_NAMED = 3  # estimators in a block's title


@dataclass(frozen=True, kw_only=True)
class Block:
    """Cells of one study that share their data: of one panel, one size and a range of replicates."""

    replicates: Replicates
    problem: Problem
    data_source: str  # "real", "stand-in" or "simulated"
    work: int  # a rough measure, for the order of execution and the remaining time
    cells: tuple[Cell, ...]

    @property
    def key(self) -> str:
        """The block's name within its study."""
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
