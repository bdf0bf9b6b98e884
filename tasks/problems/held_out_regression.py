"""Linear regressions of a table: distance to the answer of all rows, and how rows left out are predicted."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

import dpalgos
from data.prepare.table_design import PreparedTable, draw_training_rows
from tasks.problems.problem import Estimation, HeadlineRun
from tasks.problems.train_test_split import TrainTestSplit
from tasks.work_units import Replicates

if TYPE_CHECKING:
    from reports.page import Finding

EXCESS_RISK = "excess_risk"


@dataclass(frozen=True, eq=False, kw_only=True)
class HeldOutEstimation(Estimation):
    """A draw whose estimates are judged by their distance to a target, and by the rows not trained on."""

    def measure(self, estimate: np.ndarray) -> np.ndarray:
        """Return distances to the target, and mean squared errors less those of least squares, (2, R)."""
        return np.stack([super().measure(estimate), self._losses(self.columns(estimate)) - self._least])

    def _losses(self, coef: np.ndarray) -> np.ndarray:
        y, mask = self.sample.response(), self.sample.row_mask
        assert mask is not None
        squares = (y[:, None] - self.sample.X @ coef) ** 2
        return np.asarray(squares.mean(axis=0, where=~mask))

    @cached_property
    def _least(self) -> np.ndarray:
        """Mean squared errors of least squares on the same rows, (R,)."""
        X, y, mask = self.sample.X, self.sample.response(), self.sample.row_mask
        assert mask is not None
        fits = [np.linalg.lstsq(X[rows], y[rows], rcond=None)[0] for rows in mask.T]
        return self._losses(np.stack(fits, axis=1))


class HeldOutRegression(TrainTestSplit):
    """Linear regression on n rows of a table, tested on the others.

    Errors of coefficients are in standard deviations of the columns; excess risks in squared public units of
    the response, against least squares on the same n rows.
    """

    kind: Literal["held_out_regression"]  # type: ignore[assignment]

    panel_word: ClassVar[str] = "table"
    metric: ClassVar[str] = "l2_error"
    measures: ClassVar[tuple[str, ...]] = ("l2_error", EXCESS_RISK)

    @property
    def measured(self) -> str:
        return (
            "In every repetition n of the rows are drawn without return, the same for all estimators, and "
            "private ones draw new noise. An error is the ℓ2 distance of the coefficients, the intercept "
            "left out, from least squares on all rows, each coefficient times the standard deviation of its "
            "column over that of the response. An excess risk is the mean squared error on the rows left out "
            "less that of least squares on the same n rows, in squared public units of the response."
        )

    def check(self, n: int, task: str) -> None:
        if self.family:
            raise ValueError(f"family must be left out, got {self.family!r}; use kind = 'train_test_split'")
        super().check(n, task)

    def check_data(self, n: int) -> None:
        if self.about.kind == "frames":
            raise ValueError(f"dataset must hold a table, got {self.dataset!r}; use 'train_test_split'")
        super().check_data(n)

    def draws(self, replicates: Replicates, prepared: PreparedTable) -> Iterator[HeldOutEstimation]:
        mask = draw_training_rows(prepared, replicates.n, replicates.row_generators(), whole_groups=False)
        yield HeldOutEstimation(
            sample=dpalgos.Sample(prepared.X, prepared.y, row_mask=mask, n_replicates=replicates.count),
            first=replicates.first,
            target=prepared.to_standard @ self.full_answer(prepared).coef,
            to_target=prepared.to_standard,
        )

    def exhibits(self, run: HeadlineRun) -> dict[str, Any]:
        return {"performance_profile": {self.metric: "error of coefficients", EXCESS_RISK: "excess risk"}}

    def findings(self, exhibits: Mapping[str, Any]) -> tuple["Finding", ...]:
        return ()
