"""Random subsamples of a registered table, compared with the non-private answer of all its rows."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import dpalgos
from data.prepared_table import PreparedTable, draw_rows
from dpalgos.audit.deletion_shifts import deletion_shifts
from tasks.problems.problem import Draw, Estimation
from tasks.problems.registered_table import RegisteredTableProblem
from tasks.work_units import Block, row_generators

_ROWS_BESIDE = 4000  # what a cell costs beside its data, in rows of a dataset, as measured


class Subsamples(RegisteredTableProblem):
    """Random rows of a table; the truth is the mean or the regression of all of them, in standard deviations.

    Replicates share X, so they are an axis of one draw.
    """

    kind: Literal["subsamples"]

    panel_word: ClassVar[str] = "preparation"
    size_symbol: ClassVar[str] = "m"

    def check_data(self, n: int) -> None:
        """Refuse frames, too: their features are too many for an answer of all the rows."""
        if self.about.kind == "frames":
            raise ValueError(
                f"dataset must hold a table, got {self.dataset!r}; use kind = 'train_test_split'"
            )
        super().check_data(n)

    def ranges(self, n: int, n_cells: int, replicates: int) -> list[tuple[int, int, int]]:
        """Return one block: all replicates run together."""
        return [(0, replicates, n_cells * (n + _ROWS_BESIDE))]

    def draws(self, block: Block, prepared: PreparedTable) -> Iterator[Draw]:
        """Yield the one draw of all replicates."""
        mask = draw_rows(len(prepared.X), block.n, row_generators(block))
        yield Estimation(
            sample=dpalgos.Sample(prepared.X, prepared.y, row_mask=mask, n_replicates=block.replicates),
            first=0,
            replicates=block.replicates,
            target=self.full_answer(prepared),
            to_target=prepared.to_standard,
            batched=True,
        )

    @property
    def has_deletion_shifts(self) -> bool:  # type: ignore[override]
        """Whether the answer is least squares, whose rows can be deleted by formula."""
        return self.task == "linear_regression"

    def deletion_shifts(
        self, prepared: PreparedTable, n_deleted: Sequence[int]
    ) -> tuple[str, dict[int, float]]:
        """Return how far deleting the most influential rows moves the regression."""
        assert prepared.y is not None
        return "ols", deletion_shifts(prepared.X, prepared.y, prepared.to_standard, n_deleted)

    def rates(self, task: str, n: int, epsilon: float, delta: float) -> dict[str, float]:
        """Return the paper's rates of a mean or a regression, in z-scores."""
        from dpalgos.theory.rates import dense_rates

        return dense_rates(task, n, len(self.covariates), epsilon, delta)
