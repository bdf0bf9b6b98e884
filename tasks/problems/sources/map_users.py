"""Users that are cells of a public latitude–longitude grid, and so differ from each other."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

import dpalgos
from data.prepare.table_design import PreparedTable
from data.results.table import with_form
from tasks.cells import Replicates
from tasks.file_schema import Positive
from tasks.problems.measures.estimation import ESTIMATION
from tasks.problems.problem import ALL, Draw, HeadlineRun, Kind, Traits
from tasks.problems.reference_answer import ReferenceAnswer
from tasks.problems.registered_table import RegisteredTable

if TYPE_CHECKING:
    import pandas as pd

_SHUFFLES = 20
_NOISELESS = 1e4  # ε at which the noise is negligible against what a radius cuts off


class MapUsers(RegisteredTable):
    """A user is a cell of a latitude–longitude grid with enough rows, m random ones of which are drawn.

    The grid, and which cells have enough rows, are public. The truth is the mean, or the regression by
    ordinary least squares, of all rows of the users, each user of weight 1. With ``shuffled``, rows are dealt
    to users at random, and the truth is that of all rows: users are then equal, as in theory.
    """

    batch: ClassVar[int] = ALL

    degrees: Positive  # side of a cell
    # Rows that a cell must have to count as a user; sizes m go up to that.
    least_rows: Annotated[int, Field(strict=True, ge=1)]
    shuffled: bool = False

    @property
    def traits(self) -> Traits:
        return replace(super().traits, size_symbol="m", of_people=True)

    def n_people(self, n: int) -> None:
        return None

    def check(self, n: int, task: str, estimators: Sequence[str] = ()) -> None:
        super().check(n, task, estimators)
        for name in ("family", "user_id"):
            if value := getattr(self, name):
                raise ValueError(f"{name} must be left out for users on a map, got {value!r}")
        if n > self.least_rows:
            raise ValueError(f"grid.n must be at most least_rows = {self.least_rows}, got {n}")

    def in_units(self, rows: "pd.DataFrame") -> PreparedTable:
        """Return the columns in their units, and each row's user: 0, 1, …; −1 in cells with too few rows."""
        places = rows[["longitude", "latitude"]].to_numpy(float) / self.degrees
        _, cell, n_rows = np.unique(np.floor(places), axis=0, return_inverse=True, return_counts=True)
        numbers = np.where(n_rows >= self.least_rows, np.cumsum(n_rows >= self.least_rows) - 1, -1)
        return replace(super().in_units(rows), groups=numbers[cell.ravel()])

    def draws(self, replicates: Replicates, prepared: PreparedTable) -> Iterator[Draw]:
        X, y, unit, m = prepared.X, prepared.y, prepared.to_standard, replicates.n
        target = unit @ self.full_answer(prepared).coef
        for replicate, rng in replicates.generators("rows"):
            rows = _rows_of_users(prepared, m, rng, shuffled=self.shuffled)
            users = np.repeat(np.arange(len(rows) // m), m)
            sample = dpalgos.Sample(X[rows], None if y is None else y[rows], user_ids=users)
            yield Draw(sample=sample, first=replicate, target=target, to_target=unit)

    def full_answer(self, prepared: PreparedTable) -> ReferenceAnswer:
        return super().full_answer(replace(prepared, groups=None) if self.shuffled else prepared)

    def exhibits(self, run: HeadlineRun) -> dict[str, Any]:
        assert run.design is not None
        prepared, rng = self.load(run.design), np.random.default_rng(0)
        assert prepared.to_standard is not None
        unit = np.diag(prepared.to_standard)
        table = []
        for m in (m for m in (1, 2, 5, 10, 20, 40) if m <= self.least_rows):
            spreads = []
            for shuffled in (False, True):
                drawn = [_rows_of_users(prepared, m, rng, shuffled=shuffled) for _ in range(_SHUFFLES)]
                n_users = len(drawn[0]) // m
                means = [prepared.X[rows].reshape(n_users, m, -1).mean(axis=1).std(axis=0) for rows in drawn]
                spreads.append(float((np.mean(means, axis=0)[: len(unit)] * unit).max()))
            table.append([m, n_users, *spreads, spreads[0] / spreads[1]])
        return {"user_spread": {"rows": table}, "user_bias": {"rows": self._biases(prepared, run)}}

    def _biases(self, prepared: PreparedTable, run: HeadlineRun) -> list[list[str | float]]:
        """Return each tight cell's estimator with its form, and its bias: its error without noise."""
        draws = list(self.draws(replace(run.replicates, first=0, count=_SHUFFLES), prepared))
        rows: list[list[str | float]] = []
        for cell in run.cells:
            if cell.calibration == "tight":
                noiseless = replace(cell, epsilon=_NOISELESS)
                answers = [draw.columns(draw.answer(noiseless, run.replicates).estimate) for draw in draws]
                off = draws[0].distances(np.mean(answers, axis=0))
                name = with_form(dpalgos.get_estimator(cell.estimator).title, cell.form)
                rows.append([name, float(off[0])])
        return rows


def _rows_of_users(
    prepared: PreparedTable, m: int, rng: np.random.Generator, *, shuffled: bool
) -> np.ndarray:
    """Return m rows of every user, one user after another; or so many that are dealt to them at random."""
    users = prepared.groups
    assert users is not None
    n_users, order = int(users.max()) + 1, rng.permutation(len(users))
    if shuffled:
        return np.asarray(order[: m * n_users])
    order = order[np.argsort(users[order], kind="stable")]
    starts = np.searchsorted(users[order], np.arange(n_users))
    return np.asarray(order[starts[:, None] + np.arange(m)].ravel())


KINDS = {"grid_users": Kind(MapUsers, ESTIMATION)}
