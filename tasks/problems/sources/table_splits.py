"""Random rows of a registered table to train on, the others to test on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

import dpalgos
from data.columns import Column
from data.prepare.frame_features import ORDER_PARAMETERS, Scales, load_frames, order_table, scales
from data.prepare.table_design import PreparedTable, by_use, design_bytes, draw_training_rows, read_design
from data.simulations.flock import FRAMES
from data.store.references import DatasetRef, FramesRef
from tasks.cells import Replicates
from tasks.problems.measures.estimation import ESTIMATION
from tasks.problems.measures.prediction import PREDICTION
from tasks.problems.problem import Cost, Draw, Kind, Traits
from tasks.problems.registered_table import RegisteredTable
from tasks.run_options import Profile

SMOKE_ROWS = 1600

BATCH, WIDE_BATCH = 10, 6  # replicates that run together at most; wide blocks take half a minute each


def held_out_excess(X: np.ndarray, y: np.ndarray, mask: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return what coefficients (d, R) lose on the rows that a mask leaves out, above least squares, (R,)."""

    def losses(coef: np.ndarray) -> np.ndarray:
        return np.asarray(((y[:, None] - X @ coef) ** 2).mean(axis=0, where=~mask))

    fits = [np.linalg.lstsq(X[rows], y[rows], rcond=None)[0] for rows in mask.T]
    least = losses(np.stack(fits, axis=1))
    return lambda coef: losses(coef) - least


class TableSplits(RegisteredTable):
    """Rows of a table, or frames of a flock; n of them to train on, the others to test on.

    ``groups`` says whether single rows are drawn, or whole groups of similar rows where a dataset knows them
    (the simulations of a flock's frames). The label of a frame is the response. Its ``features`` are all
    columns, or four order parameters. Where the ``unit`` is a simulation, a row is the mean of its frames.
    """

    reads: ClassVar[tuple[str, ...]] = ("table", "frames")

    groups: Literal["rows", "simulations"] = "rows"
    features: Literal["columns", "order parameters"] = "columns"
    unit: Literal["row", "simulation"] = "row"

    @property
    def task(self) -> str:
        return "glm" if self.family else "linear_regression"

    def check(self, n: int, task: str, estimators: Sequence[str] = ()) -> None:
        super().check(n, task, estimators)
        if not self.response and not self.has_frames:
            raise ValueError("response is missing; name the column that is to be predicted")
        if self.unit == "simulation" and not self.is_ordered:
            raise ValueError("unit must be 'row', got 'simulation'; that needs features = 'order parameters'")
        if self.is_ordered and not (self.has_frames and self.units == "public"):
            raise ValueError(
                "features must be 'columns', got 'order parameters'; those need frames and units = 'public'"
            )

    @property
    def has_frames(self) -> bool:
        return self.about.kind == "frames"

    @property
    def is_ordered(self) -> bool:
        return self.features == "order parameters"

    @property
    def is_wide(self) -> bool:
        """Whether the design is so wide that it is read from the frames again instead of stored."""
        return self.has_frames and not self.is_ordered

    def lacks(self, table: DatasetRef) -> str:
        of_simulations = "simulations" in (self.groups, f"{self.unit}s")
        if of_simulations and isinstance(table, FramesRef) and not table.frames_per_simulation:
            return f"the frames of {table.name} do not say from which simulation they are"
        return ""

    def columns(self) -> tuple[Column, ...]:
        return self.about.columns if self.has_frames else super().columns()

    def sizes(self, n: int) -> dict[str, int]:
        if not self.has_frames:
            return super().sizes(n)
        return {"n": n, "d": 1 + len(ORDER_PARAMETERS if self.is_ordered else self.about.frame_columns)}

    def prepare(self, table: DatasetRef) -> bytes:
        """Put the columns into their units; of frames return the units alone, since they are read again."""
        if isinstance(table, FramesRef) and self.is_ordered:
            by_simulation = self.unit == "simulation"
            return design_bytes(order_table(table, self.about.column_names, by_simulation=by_simulation))
        if isinstance(table, FramesRef):
            return design_bytes(scales(table, self.about, self.units))
        return super().prepare(table)

    def load(self, path: Path) -> PreparedTable:
        if self.is_wide:
            return load_frames(read_design(path, Scales))
        return read_design(path, PreparedTable)

    def check_data(self, n: int) -> None:
        super().check_data(n)
        if n >= (about := self.about).n_rows:
            raise ValueError(
                f"grid.n must be below the {about.n_rows:,} rows of {about.name}, got {n}: some are tested on"
            )

    def stand_in_rows(self, profile: Profile) -> int | None:
        return SMOKE_ROWS if profile == "smoke" and self.has_frames else None

    def cost(self, n: int) -> Cost:
        """Return the cost: all rows are in memory whatever n is, and wide frames by use as well."""
        d, copies = self.sizes(n)["d"], 2 if self.is_wide else 1
        n_bytes = copies * 4 * self.about.n_rows * d
        smoke_n = SMOKE_ROWS // 2 // (FRAMES if self.unit == "simulation" else 1)
        batch = WIDE_BATCH if self.is_wide else BATCH
        return Cost(elements=n * d, n_bytes=n_bytes, batch=batch, smoke_n=min(smoke_n, n))

    def draws(self, replicates: Replicates, prepared: PreparedTable) -> Iterator[Draw]:
        by_group = self.groups != "rows"
        mask = draw_training_rows(prepared, replicates.n, replicates.row_generators(), whole_groups=by_group)
        if self.is_wide:  # whose products take long, and skip what a replicate does not use
            prepared, mask = by_use(prepared, mask)
        sample = dpalgos.Sample(prepared.X, prepared.y, row_mask=mask, n_replicates=replicates.count)
        sample.rows.keeps_columns = self.is_wide  # sparse fits read a few of them in every step
        yield Draw(sample=sample, first=replicates.first)


class HeldOutRows(TableSplits):
    """Splits of a table of which the errors of coefficients are measured, too.

    The truth is least squares on all rows, in standard deviations of the columns.
    """

    reads: ClassVar[tuple[str, ...]] = ("table",)

    @property
    def traits(self) -> Traits:
        measured = (
            "In every repetition n of the rows are drawn without replacement, the same for all estimators. "
            "Private estimators draw new noise. An error is the ℓ2 distance of the slopes from least squares "
            "on all rows. A slope is multiplied by the standard deviation of its column over that of the "
            "response. An excess risk is the mean squared error on the remaining rows, less that of least "
            "squares on the same n rows. It is in squared public units of the response."
        )
        errors = ("l2_error", "excess_risk")
        return replace(super().traits, errors=errors, measured=measured, panel_word="table")

    def check(self, n: int, task: str, estimators: Sequence[str] = ()) -> None:
        if self.family:
            raise ValueError(f"family must be left out, got {self.family!r}; use kind = 'train_test_split'")
        super().check(n, task, estimators)

    def draws(self, replicates: Replicates, prepared: PreparedTable) -> Iterator[Draw]:
        unit, y = prepared.to_standard, prepared.y
        for draw in super().draws(replicates, prepared):
            assert y is not None
            assert draw.sample.row_mask is not None
            excess = held_out_excess(prepared.X, y, draw.sample.row_mask)
            target = unit @ self.full_answer(prepared).coef
            yield replace(draw, excess=excess, target=target, to_target=unit)


KINDS = {
    "train_test_split": Kind(TableSplits, PREDICTION),
    "held_out_regression": Kind(HeldOutRows, ESTIMATION),
}
