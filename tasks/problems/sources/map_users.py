"""Users that are cells of a public latitude–longitude grid, and so differ from each other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

import dpalgos
from data.prepare.table_design import PreparedTable, prepare_table, read_prepared_table, table_bytes
from data.store.references import DatasetRef, read_table
from tasks.cells import Replicates
from tasks.file_schema import Number
from tasks.problems.measures.estimation import ESTIMATION
from tasks.problems.problem import ALL, Cost, Draw, HeadlineRun, Kind, Traits
from tasks.problems.reference_answer import weighted_answer
from tasks.problems.registered_table import RegisteredTable

_USER = "user"
_SHUFFLES = 20
_NOISELESS = 1e4  # ε at which the noise is negligible against what a radius cuts off


@dataclass(frozen=True, eq=False)
class GriddedTable:
    """A prepared table, and the user of each row: 0, 1, …, or −1 in cells with too few rows."""

    table: PreparedTable
    users: np.ndarray

    @property
    def n_users(self) -> int:
        return int(self.users.max()) + 1


class MapUsers(RegisteredTable):
    """A user is a cell of a latitude–longitude grid with enough rows, m random ones of which are drawn.

    The grid, and which cells have enough rows, are public. The truth is the mean, or the least-squares
    regression, of all rows of the users, each user of weight 1; with ``shuffled`` rows are dealt to users at
    random, and it is that of all rows: users are equal then, as theory wants them.
    """

    degrees: Annotated[Number, Field(gt=0)]  # side of a cell
    # Rows that a cell must have to count as a user; sizes m go up to that.
    least_rows: Annotated[int, Field(strict=True, ge=1)]
    shuffled: bool = False

    @property
    def traits(self) -> Traits:
        return replace(super().traits, size_symbol="m")

    def cost(self, n: int) -> Cost:
        return replace(super().cost(n), batch=ALL)

    def check(self, n: int, task: str, estimators: Sequence[str] = ()) -> None:
        super().check(n, task, estimators)
        if self.family:
            raise ValueError(f"family must be left out for users on a map, got {self.family!r}")
        if n > self.least_rows:
            raise ValueError(f"grid.n must be at most least_rows = {self.least_rows}, got {n}")

    def prepare(self, table: DatasetRef) -> bytes:
        """Put the columns into their units, and append a column with each row's user."""
        rows = read_table(table)
        prepared = prepare_table(
            rows, self.about, response=self.response, covariates=self.covariates, units=self.units
        )
        places = rows[["longitude", "latitude"]].to_numpy(float) / self.degrees
        _, cell, n_rows = np.unique(np.floor(places), axis=0, return_inverse=True, return_counts=True)
        numbers = np.where(n_rows >= self.least_rows, np.cumsum(n_rows >= self.least_rows) - 1, -1)
        X = np.column_stack([prepared.X, numbers[cell.ravel()]])
        return table_bytes(replace(prepared, X=X, column_names=(*prepared.column_names, _USER)))

    def load(self, path: Path) -> GriddedTable:  # type: ignore[override]
        whole = read_prepared_table(path)
        alone = replace(whole, X=whole.X[:, :-1].copy(), column_names=whole.column_names[:-1])
        return GriddedTable(alone, whole.X[:, -1].astype(int))

    def draws(self, replicates: Replicates, prepared: GriddedTable) -> Iterator[Draw]:
        X, y, m = prepared.table.X, prepared.table.y, replicates.n
        for replicate, rng in replicates.generators("rows"):
            rows = self.drawn_rows(prepared, m, rng)
            yield Draw(
                sample=dpalgos.Sample(
                    X[rows],
                    None if y is None else y[rows],
                    user_ids=np.repeat(np.arange(prepared.n_users), m),
                ),
                first=replicate,
                target=prepared.table.to_standard @ self._truth(prepared),
                to_target=prepared.table.to_standard,
            )

    def drawn_rows(self, prepared: GriddedTable, m: int, rng: np.random.Generator) -> np.ndarray:
        """Return m rows of every user, one user after another."""
        order = rng.permutation(len(prepared.users))
        if self.shuffled:
            return np.asarray(order[: m * prepared.n_users])
        order = order[np.argsort(prepared.users[order], kind="stable")]
        starts = np.searchsorted(prepared.users[order], np.arange(prepared.n_users))
        return np.asarray(order[starts[:, None] + np.arange(m)].ravel())

    def _truth(self, prepared: GriddedTable) -> np.ndarray:
        X, y, users = prepared.table.X, prepared.table.y, prepared.users
        weights = np.ones(len(X))
        if not self.shuffled:
            there = users >= 0
            weights = np.where(there, 1 / np.bincount(users[there], minlength=prepared.n_users)[users], 0)
        return weighted_answer(X, y, weights)

    def exhibits(self, run: HeadlineRun) -> dict[str, Any]:
        """Return the spread of users' means for each m, also with rows dealt at random, and the biases."""
        assert run.design is not None
        prepared, rng = self.load(run.design), np.random.default_rng(0)
        assert prepared.table.to_standard is not None
        unit = np.diag(prepared.table.to_standard)
        rows = []
        for m in (m for m in (1, 2, 5, 10, 20, 40) if m <= self.least_rows):
            spreads = []
            for shuffled in (False, True):
                dealt = self.model_copy(update={"shuffled": shuffled})
                means = [
                    prepared.table.X[dealt.drawn_rows(prepared, m, rng)]
                    .reshape(prepared.n_users, m, -1)
                    .mean(axis=1)
                    .std(axis=0)
                    for _ in range(_SHUFFLES)
                ]
                spreads.append(float((np.mean(means, axis=0)[: len(unit)] * unit).max()))
            rows.append([m, *spreads])
        spread = {"n_users": prepared.n_users, "degrees": self.degrees, "rows": rows}
        return {"user_spread": spread, "user_bias": {"rows": self._biases(prepared, run)}}

    def _biases(self, prepared: GriddedTable, run: HeadlineRun) -> list[list[str | float]]:
        """Return each tight cell's estimator and form, and how far it is off without noise."""
        draws = list(self.draws(replace(run.replicates, first=0, count=_SHUFFLES), prepared))
        rows: list[list[str | float]] = []
        for cell in run.cells:
            if cell.calibration == "tight":
                noiseless = replace(cell, epsilon=_NOISELESS)
                answers = [draw.columns(draw.answer(noiseless, run.replicates).estimate) for draw in draws]
                off = draws[0].distances(np.mean(answers, axis=0))
                rows.append([cell.estimator, cell.form, float(off[0])])
        return rows


KINDS = {"grid_users": Kind(MapUsers, ESTIMATION)}
