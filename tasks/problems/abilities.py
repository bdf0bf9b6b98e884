"""Optional abilities of problems, a small protocol each: a problem has one by defining its methods.

What only checks and reports need is imported inside these methods: the keys of computed numbers do not depend
on it (see `data.store.code_digest`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from data.store.references import DatasetRef
from tasks.work_units import Cell, Replicates

if TYPE_CHECKING:
    import numpy as np

    from data.dataset import Column
    from reports.page import Finding
    from tasks.problems.guesses import Guesses


@runtime_checkable
class UsesModules(Protocol):
    """A problem whose numbers depend on modules that no import leads to."""

    def modules(self) -> tuple[str, ...]:
        """Return the names of the modules."""


@runtime_checkable
class ReadsTable(Protocol):
    """A problem whose rows come from a dataset, which is prepared once."""

    source: str

    def columns(self) -> tuple[Column, ...]:
        """Return the dataset's columns that the problem reads."""

    def prepare(self, table: DatasetRef) -> tuple[str, bytes]:
        """Prepare the dataset, and return the suffix and content of the file."""

    def load(self, path: Path) -> Any:
        """Read a file of `prepare`."""


@runtime_checkable
class ChoosesSmokeSizes(Protocol):
    """A problem that runs other sizes in profile ``smoke`` than both ends of the grid."""

    def smoke_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the sizes."""


@runtime_checkable
class ChecksEstimators(Protocol):
    """A problem that does not suit every estimator for its task."""

    def check_estimator(self, name: str) -> None:
        """Raise ValueError for an estimator that does not suit the problem."""


@runtime_checkable
class PredictsErrors(Protocol):
    """A problem for which theory predicts errors."""

    def rates(self, task: str, n: int, epsilon: float, delta: float) -> dict[str, float]:
        """Return the predictions: label → value in the units of the metric."""


@runtime_checkable
class DrawsFromPopulation(Protocol):
    """A problem whose rows are part of a finite population, the answer of which errors are measured from."""

    @property
    def population(self) -> tuple[int, str]:
        """How many there are, and whether they are ``"rows"`` or ``"users"``."""


@runtime_checkable
class MakesUpRows(DrawsFromPopulation, Protocol):
    """A problem whose rows can be made up from what is public about them."""

    def made_up(self, n_units: int, guesses: Guesses, rng: np.random.Generator) -> Any:
        """Return made-up data in the form that `load` has; ValueError where that cannot be."""


@dataclass(frozen=True, kw_only=True)
class HeadlineRun:
    """What the exhibits of a report may be made from: the headline's panel, as it was run."""

    table: DatasetRef | None  # the dataset; None where data are simulated
    design: Path | None  # what `DatasetProblem.prepare` returned, as a file
    replicates: Replicates  # of a block of the headline's size
    cells: tuple[Cell, ...]  # the headline's non-private and private ones
    # Cell → column → in how many repetitions it was selected.
    selected: Mapping[str, Mapping[str, int]]


@runtime_checkable
class HasExhibits(Protocol):
    """A problem that shows more than the results table on a report."""

    def exhibits(self, run: HeadlineRun) -> dict[str, Any]:
        """Return name of a module of `reports.exhibits` → its content."""


@runtime_checkable
class HasFindings(Protocol):
    """A problem that states numbers about the data themselves on a report."""

    def findings(self, exhibits: Mapping[str, Any]) -> tuple[Finding, ...]:
        """Return the numbers, from what `HasExhibits.exhibits` returned."""


@runtime_checkable
class DeletesRows(Protocol):
    """A problem that knows how far deleting influential rows moves a non-private answer."""

    @property
    def can_delete_rows(self) -> bool:
        """Whether it does with these settings."""

    def deletion_shifts(self, prepared: Any, n_deleted: Sequence[int]) -> tuple[str, dict[int, float]]:
        """Return a non-private estimator, and how far deleting k influential rows moves it, for each k."""


@runtime_checkable
class FindsMembers(Protocol):
    """A problem of attacks that tell the rows an estimator saw from others."""

    @property
    def false_positive_rates(self) -> dict[str, float]:
        """The metrics that are true positive rates, ascending by the false positive rate that each is at."""

    @property
    def separation_is_known(self) -> bool:
        """Whether theory predicts an attack's AUC from the estimate's error alone."""

    def claimed_sum(self, n: int) -> float | None:
        """Return what the paper claims of the sum of scores, over what an unbiased estimate gives.

        NaN where it claims no more than a constant; None where the truth is not known.
        """
