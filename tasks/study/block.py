"""A block: cells of a study that are computed together."""

from dataclasses import asdict, dataclass
from typing import Any

from tasks.cells import Cell, Replicates
from tasks.problems.problem import RowSource

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
