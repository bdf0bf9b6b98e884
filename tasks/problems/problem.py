"""Base classes of problems: how data arise, are prepared and drawn, and what is measured on an answer.

Everything that differs between kinds of problems is a method, so that a new kind is one file in this folder
(`tasks.problems.kinds` finds it). What only some kinds can do is a protocol in `tasks.problems.abilities`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import dpalgos
from data.dataset import Column, Dataset
from data.registry import get_dataset
from data.store.references import DatasetRef
from tasks.limits import Profile
from tasks.problems.abilities import UsesModules
from tasks.strict import Strict
from tasks.work_units import Cell, Replicates, replicate_generator

# Elements of all data sets that the cells of one block read, so that it lasts seconds.
ELEMENTS_PER_BLOCK = 400_000_000
# What a cell costs apart from its data, in elements of a simulation.
ELEMENTS_PER_CELL = 200_000


@dataclass(frozen=True, eq=False, kw_only=True)
class Draw(ABC):
    """The data of one replicate, or of several in a row that run together."""

    sample: dpalgos.Sample  # of several replicates with a mask of rows for each
    first: int  # the number of the first replicate

    @property
    def replicates(self) -> int:
        return self.sample.n_replicates

    def generator(self, seed: int) -> np.random.Generator:
        """Return the estimator's generator for a cell's seed; replicates are the same in any batches."""
        if self.replicates == 1:
            return replicate_generator(seed, self.first)
        return np.random.default_rng(np.random.SeedSequence(seed, n_children_spawned=self.first))

    def columns(self, estimate: np.ndarray) -> np.ndarray:
        """Return estimates (d, R) or (d,) as (d, R)."""
        return estimate.reshape(self.sample.n_features, self.replicates)

    def answer(self, cell: Cell, replicates: Replicates) -> dpalgos.Result:
        """Return a cell's answer on these data: the same again for the same replicates."""
        return dpalgos.estimate(
            cell.estimator,
            self.sample,
            rng=self.generator(replicates.seed_of(cell)),
            replicates=self.replicates,
            **cell.keywords(),
        )

    @abstractmethod
    def measure(self, estimate: np.ndarray) -> np.ndarray:
        """Return the measurements of estimates (d, R) or (d,), with last axis R."""

    def measure_answer(self, answer: dpalgos.Result) -> np.ndarray:
        """Return the measurements of an answer; by default those of its estimate."""
        return self.measure(answer.estimate)

    def selection(self, estimate: np.ndarray) -> dict[str, int]:
        """Return in how many replicates an estimate selects each column; none where that says nothing."""
        return {}


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimation(Draw):
    """Data with a target."""

    target: np.ndarray  # (k,), or (k, K) with classes
    to_target: np.ndarray | None = None  # (k, d): brings an estimate into the target's units

    def measure(self, estimate: np.ndarray) -> np.ndarray:
        """Return the ℓ2 distances to the target, (R,)."""
        # (d, K, R), where K is 1 unless there are classes.
        coef = estimate.reshape(self.sample.n_features, -1, self.replicates)
        answer = coef if self.to_target is None else np.tensordot(self.to_target, coef, axes=1)
        off = answer - self.target.reshape(len(self.target), -1, 1)
        return np.asarray(np.linalg.norm(off.reshape(-1, self.replicates), axis=0))


class Problem(Strict, ABC):
    """The source of a panel's data and the measurement; a subclass has a name in its field ``kind``."""

    kind: str

    # For reports: what the panels of a study are called, the symbol of the size, which layout.
    panel_word: ClassVar[str] = "panel"
    size_symbol: ClassVar[str] = "n"
    layout: ClassVar[str] = "error_page"
    # Whether all replicates run together, in one block, because they share the rows of a table.
    in_one_block: ClassVar[bool] = False

    @property
    @abstractmethod
    def source(self) -> str:
        """Name of the dataset or of the simulation's model."""

    @property
    def task(self) -> str | None:
        """What is estimated; None where the study says it."""
        return None

    @property
    def metric(self) -> str:
        """The headline metric."""
        return "l2_error"

    @property
    def measures(self) -> tuple[str, ...]:
        """All metrics that a draw measures, the headline's first."""
        return (self.metric,)

    @property
    def measured(self) -> str:
        """The definition of the error, in sentences for the report."""
        return ""

    @property
    def protected(self) -> bool:
        """Whether the guarantee covers every step that reads data, their preparation too."""
        return True

    def check(self, n: int, task: str) -> None:
        """Raise ValueError for settings that cannot be, at a size of the panel's grid."""

    @abstractmethod
    def sizes(self, n: int) -> dict[str, int]:
        """Return n, d, s where the problem is sparse, and K where responses are classes."""

    def elements(self, n: int) -> int:
        """Return how many elements of data a cell reads in one replicate: n rows of d columns by default."""
        return n * self.sizes(n)["d"]

    def ranges(self, n: int, n_cells: int, replicates: int) -> list[tuple[int, int, int]]:
        """Return (first replicate, number of replicates, work) of each block at a size."""
        work = (n_cells + 1) * (self.elements(n) + ELEMENTS_PER_CELL)
        most = replicates if self.in_one_block else max(1, ELEMENTS_PER_BLOCK // work)
        counts = [(first, min(most, replicates - first)) for first in range(0, replicates, most)]
        return [(first, count, count * work) for first, count in counts]

    def n_bytes(self, n: int) -> int:
        """Return the memory that one draw needs in addition to the prepared data."""
        return 0

    @abstractmethod
    def draws(self, replicates: Replicates, prepared: Any) -> Iterator[Draw]:
        """Yield the data of some replicates, in order; ``prepared`` is None for simulated data."""

    def metrics(self, measured: Sequence[np.ndarray], n: int) -> dict[str, np.ndarray]:
        """Return metric → a value per replicate, from what each draw of size n measured: (metrics, R)."""
        values = np.concatenate([np.atleast_2d(each) for each in measured], axis=1)
        return dict(zip(self.measures, values, strict=True))


class DatasetProblem(Problem, ABC):
    """A problem on a dataset, which is fetched and prepared before blocks are computed."""

    dataset: str

    @property
    def source(self) -> str:
        return self.dataset

    @property
    def about(self) -> Dataset:
        """The public description of the dataset."""
        return get_dataset(self.source)

    def columns(self) -> tuple[Column, ...]:
        """Return the registered columns that the problem reads."""
        return self.about.columns

    def check_data(self, n: int) -> None:
        """Raise ValueError or DataError for a dataset that does not suit, or a size beyond its rows."""

    def stand_in_rows(self, profile: Profile) -> int | None:
        """Return how many rows of a stand-in suffice; None: as many as were published."""
        return None

    @abstractmethod
    def prepare(self, table: DatasetRef) -> tuple[str, bytes]:
        """Prepare a dataset once, and return the suffix and content of the file."""

    @abstractmethod
    def load(self, path: Path) -> Any:
        """Read a file of `prepare`, for `draws`."""


def modules_of(problem: Problem, estimators: Iterable[str] = ()) -> list[str]:
    """Return the modules that a problem and estimators are found in by name."""
    more = problem.modules() if isinstance(problem, UsesModules) else ()
    functions = (dpalgos.get_estimator(name).function for name in set(estimators))
    return [type(problem).__module__, *more, *(function.__module__ for function in functions)]
