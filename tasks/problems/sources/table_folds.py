"""Linear regressions by the protocol of a paper: mean squared errors of ten-fold cross-validation.

The data prepare themselves, as in the papers: columns become z-scores, y is centered and divided by its
largest magnitude, and there is no intercept. Wang (2018) divides every row of X by its own ℓ2 norm; Lev et
al. (2026) divide all rows by the largest norm, and neither center nor scale the columns and y of some tables.
None of that is private. Columns of X are in units of 1/√d: bounds are √d for rows and 1 for responses.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from pydantic import Field

import dpalgos
from data.prepare.table_design import PreparedTable, design_bytes
from data.store.references import DatasetRef, read_table
from tasks.cells import Cell, Replicates
from tasks.file_schema import Number
from tasks.problems.measures.prediction import PREDICTION, PRINTED
from tasks.problems.problem import ALL, Cost, DatasetSource, Draw, Kind, Traits, fit_cell

FOLDS = 10


def fit_next_to_printed(
    printed: dict[float, float], draw: Draw, cell: Cell, replicates: Replicates
) -> dpalgos.Result:
    """Return a cell's estimate with the error that was printed for its ε, if there is one."""
    answer = fit_cell(draw, cell, replicates)
    printed_error = {} if cell.epsilon is None else {PRINTED: printed.get(cell.epsilon)}
    return replace(answer, diagnostics={**answer.diagnostics, **printed_error})


class TableFolds(DatasetSource):
    """Ten random folds of a table, again and again; replicate r is fold r mod 10 of the permutation r // 10.

    A fold leaves out as many rows as the size n does not take.
    """

    # ε → the least error that the paper printed of a private method, for rows of length 1.
    printed: dict[float, Number] = Field(default_factory=dict)
    unit_rows: bool = True  # or else all rows are divided by the largest norm
    z_scores: bool = True  # or else columns are not centered and scaled, and y is not centered

    @property
    def traits(self) -> Traits:
        response = "centered and divided" if self.z_scores else "divided"
        columns = "z-scores" if self.z_scores else "as they are"
        rows = "of length 1" if self.unit_rows else "divided by the length of the longest"
        measured = (
            "Rows are dealt into ten random folds, anew after every ten repetitions. An error is the mean "
            f"squared error on the fold that a fit has not seen. As in the paper, the response is {response} "
            f"by its largest magnitude, columns are {columns} and rows {rows}. The data decide all of it: "
            "this preparation is not private, and no guarantee covers it."
        )
        return Traits(task="linear_regression", measured=measured, panel_word="table", protected=False)

    def sizes(self, n: int) -> dict[str, int]:
        return {"n": n, "d": len(self.about.columns) - 1}

    def cost(self, n: int) -> Cost:
        return Cost(elements=n * self.sizes(n)["d"], batch=ALL)

    def check_data(self, n: int) -> None:
        super().check_data(n)
        left_out = self.about.n_rows - n
        if not 1 <= left_out <= self.about.n_rows / FOLDS:
            raise ValueError(
                f"grid.n must leave out at most a tenth of the {self.about.n_rows:,} rows, got {n}"
            )

    def prepare(self, table: DatasetRef) -> bytes:
        rows = read_table(table)
        y = rows["y"].to_numpy(dtype=float)
        X = rows.drop(columns="y").to_numpy(dtype=float)
        if self.z_scores:
            centered, spread = X - X.mean(axis=0), X.std(axis=0)
            X = centered / np.where(spread > 0, spread, 1)
            y = y - y.mean()
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        if not self.unit_rows:
            norms = norms.max(keepdims=True)
        d = X.shape[1]
        return design_bytes(
            PreparedTable(
                X=np.sqrt(d) * X / np.where(norms > 0, norms, 1),
                y=y / np.abs(y).max(),
                column_names=tuple(rows.columns.drop("y")),
                to_standard=np.eye(d),
            )
        )

    def draws(self, replicates: Replicates, prepared: PreparedTable) -> Iterator[Draw]:
        n_rows, numbers = len(prepared.X), np.array(replicates.numbers)
        left_out = n_rows - replicates.n
        rounds = numbers // FOLDS
        first = int(rounds[0])
        dealing = replace(replicates, first=first, count=int(rounds[-1]) - first + 1)
        orders = [rng.permutation(n_rows) for rng in dealing.row_generators()]
        mask = np.ones((len(numbers), n_rows), dtype=bool)
        for row, number in zip(mask, numbers, strict=True):
            begin = number % FOLDS * left_out
            row[orders[number // FOLDS - first][begin : begin + left_out]] = False
        yield Draw(
            sample=dpalgos.Sample(prepared.X, prepared.y, row_mask=mask.T, n_replicates=len(numbers)),
            first=replicates.first,
            fit=partial(fit_next_to_printed, self.printed if self.unit_rows else {}),
        )


KINDS = {"cross_validation": Kind(TableFolds, PREDICTION)}
