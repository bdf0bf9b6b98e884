"""All rows of a table in every repetition, with new noise; its public bounds are known to estimators."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

import dpalgos
from data.collections.league import GROUPS
from data.prepare.table_design import PreparedTable, Units, public_units
from tasks.cells import Cell, Replicates
from tasks.problems.measures.explained import EXPLAINED, missed_of_means, missed_of_regression
from tasks.problems.problem import ALL, Draw, Kind, Traits, fit_cell
from tasks.problems.registered_table import RegisteredTable


def fit_within(table: Mapping[str, Any], draw: Draw, cell: Cell, replicates: Replicates) -> dpalgos.Result:
    """Return a cell's estimate; the table's bounds take the place of the study's keywords of that name."""
    bounds: dict[str, Any] = {name: tuple(table[name].tolist()) for name in ("lower", "upper")}
    if table["family"] == "counts":
        bounds["response_bound"] = table["y_upper"]
    params = {name: bounds.get(name, value) for name, value in cell.params.items()}
    return fit_cell(draw, replace(cell, params=params), replicates)


class WholeTable(RegisteredTable):
    """All rows of a table, which are what is protected: a regression, or without a response their means."""

    batch: ClassVar[int] = ALL

    units: Units = "public"

    @property
    def traits(self) -> Traits:
        measured = (
            "In every repetition all rows are used, with new noise. The error of a regression is the share "
            "of the explainable loss that it misses: 0 for the non-private estimate, 1 for the intercept "
            "alone. The error of means is their root mean squared distance from the means of the rows, in "
            "standard deviations of the columns. An error is at most 100."
        )
        return replace(super().traits, measured=measured, panel_word="table")

    def check(self, n: int, task: str, estimators: Sequence[str] = ()) -> None:
        super().check(n, task, estimators)
        if self.analyst_table:  # the page compares with stored results of public tables
            raise ValueError("dataset must be a registered one, got your own table; use another kind")

    def check_data(self, n: int) -> None:
        super().check_data(n)
        if n != self.about.n_rows:
            raise ValueError(f"grid.n must be all {self.about.n_rows:,} rows of a table, got {n}; write 'n'")

    def draws(self, replicates: Replicates, prepared: PreparedTable) -> Iterator[Draw]:
        X, y = prepared.X, prepared.y
        yield Draw(
            sample=dpalgos.Sample(X, y, n_replicates=replicates.count),
            first=replicates.first,
            judge=missed_of_means(X) if y is None else missed_of_regression(X, y, self.family),
            fit=partial(fit_within, self.public_table(X, y)),
        )

    def public_table(self, X: np.ndarray, y: np.ndarray | None) -> dict[str, Any]:
        """Return rows without a constant, their bounds and the family: for other libraries, too."""
        columns = self.columns()
        centers, scales = public_units(self.about, columns)
        lower, upper = (
            (np.array([getattr(column, end) for column in columns]) - centers) / scales
            for end in ("lower", "upper")
        )
        d = len(self.covariates)
        public = {"X": X[:, :d], "lower": lower[:d], "upper": upper[:d]}
        if y is None:
            return {**public, "y": np.zeros(len(X)), "y_lower": 0.0, "y_upper": 1.0, "family": "means"}
        ends = (columns[-1].lower, columns[-1].upper) if self.family else (float(lower[-1]), float(upper[-1]))
        return {**public, "y": y, "y_lower": ends[0], "y_upper": ends[1], "family": GROUPS[self.family]}


KINDS = {"whole_table": Kind(WholeTable, EXPLAINED)}
