"""A problem is a source of rows and a measure of answers from them.

A `RowSource` says how data arise, are prepared and drawn. A class that extends `Problem` is a measure: it
says what is judged of an answer. A kind of problem is a class of both (`tasks.problems.kinds` makes it), so
that a new one is one file in ``sources`` or ``measures``. What only some can do is a protocol each at the end
of this file: a problem has such an ability by defining its methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np

import dpalgos
from data.dataset import Column, Dataset
from data.datasets import get_dataset
from data.store.references import DatasetRef
from reports.analysis.results import PUBLIC_ALONE
from tasks.cells import Cell, Replicates, replicate_generator
from tasks.file_schema import Strict
from tasks.run_options import Profile

if TYPE_CHECKING:
    from reports.page import Finding
    from tasks.problems.declared_rows import Guesses
    from tasks.problems.public_rows import PublicRows


# Elements of all data sets that the cells of one block read, so that it lasts seconds.
ELEMENTS_PER_BLOCK = 400_000_000
# What a cell costs apart from its data, in elements of a simulation.
ELEMENTS_PER_CELL = 200_000


@dataclass(frozen=True, eq=False, kw_only=True)
class Draw:
    """The data of one replicate, or of several in a row that run together."""

    sample: dpalgos.Sample  # of several replicates with a mask of rows for each
    first: int  # the number of the first replicate
    public_y: np.ndarray | None = None  # the responses of the sample's public rows, if they have any
    target: np.ndarray | None = None  # (k,), or (k, K) with classes: what estimates are compared with
    to_target: np.ndarray | None = None  # (k, d): brings an estimate into the target's units
    to_signs: np.ndarray | None = None  # (m, k): what it makes of the target has the signs that count
    s: int | None = None  # how many entries of the target are of interest, where these are few
    column_names: tuple[str, ...] = ()  # of the sample, where selections are counted

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
        sample = self.sample
        if cell.form == PUBLIC_ALONE:
            sample = dpalgos.Sample(sample.public_rows, self.public_y, n_replicates=self.replicates)
        return dpalgos.estimate(
            cell.estimator,
            sample,
            rng=self.generator(replicates.seed_of(cell)),
            replicates=self.replicates,
            **cell.keywords(),
        )

    def in_target_units(self, estimate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return estimates in the units of the target, (k, K, R), and the target, (k, K, 1)."""
        assert self.target is not None
        # (d, K, R), where K is 1 unless there are classes.
        coef = estimate.reshape(self.sample.n_features, -1, self.replicates)
        answer = coef if self.to_target is None else np.tensordot(self.to_target, coef, axes=1)
        return answer, self.target.reshape(len(self.target), -1, 1)

    def distances(self, estimate: np.ndarray) -> np.ndarray:
        """Return the ℓ2 distances of estimates to the target, (R,)."""
        answer, target = self.in_target_units(estimate)
        return np.asarray(np.linalg.norm((answer - target).reshape(-1, self.replicates), axis=0))

    def excess_risks(self, estimate: np.ndarray) -> np.ndarray:
        """Return risks above the least, (R,): half the squared distances to the target, where E xx' = I."""
        return np.asarray(self.distances(estimate) ** 2 / 2)


class RowSource(Strict, ABC):
    """The rows of a panel's replicates: their sizes and costs, and how they are drawn."""

    size_symbol: ClassVar[str] = "n"  # in reports
    # Whether all replicates run together, in one block, because they share the rows of a table.
    in_one_block: ClassVar[bool] = False

    @property
    @abstractmethod
    def source(self) -> str:
        """Name of the dataset or of the simulation's model."""

    @property
    def panel_word(self) -> str:
        """What reports call the panels of a study."""
        return "panel"

    @property
    def task(self) -> str | None:
        """What is estimated; None where the study says it."""
        return None

    @property
    def errors(self) -> tuple[str, ...]:
        """Which errors of estimates are measured, of `measures.estimation.ERRORS`; the headline's first."""
        return ("l2_error",)

    @property
    def response_family(self) -> str:
        """The family of the responses; empty where they are predicted linearly."""
        return ""

    @property
    def measured(self) -> str:
        """The definition of the error, in sentences for the report."""
        return ""

    @property
    def protected(self) -> bool:
        """Whether the guarantee covers every step that reads data, their preparation too."""
        return True

    @property
    def has_intercept(self) -> bool:
        """Whether the last column is the constant."""
        return False

    @property
    def offset_bounds(self) -> tuple[float, float] | None:
        """The public bounds of the first column, if it is an offset."""
        return None

    @property
    def offset(self) -> str:
        """The name of the offset's column, if there is one."""
        return ""

    @property
    def plots_logarithms(self) -> bool:
        """Whether logarithms of squared errors are measured, too."""
        return False

    @property
    def n_coefficients(self) -> int:
        """How many coefficients' signs are compared with those of the answer without privacy."""
        return 0

    def check(self, n: int, task: str) -> None:
        """Raise ValueError for settings that cannot be, at a size of the panel's grid."""

    def check_estimator(self, name: str) -> None:
        """Raise ValueError for an estimator that does not suit these rows."""

    def check_guesses(self, guesses: Guesses) -> None:
        """Raise ValueError for guesses about a table that these rows do not come from."""

    @abstractmethod
    def sizes(self, n: int) -> dict[str, int]:
        """Return n, d, s where the problem is sparse, and K where responses are classes."""

    def smoke_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the sizes of profile ``smoke``: by default both ends of the grid."""
        return tuple(dict.fromkeys((min(sizes), max(sizes))))

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

    def rates(self, task: str, n: int, epsilon: float, delta: float) -> dict[str, float]:
        """Return the errors that theory predicts: label → value in the units of the metric."""
        return {}

    def exhibits(self, run: HeadlineRun) -> dict[str, Any]:
        """Return what a report shows in addition: name of a module of `reports.exhibits` → its content."""
        return {}

    def modules(self) -> tuple[str, ...]:
        """Return the names of the modules that the numbers depend on, those that no import leads to, too."""
        parts = type(self).__mro__[1:]
        return tuple(dict.fromkeys(part.__module__ for part in parts if issubclass(part, RowSource)))


class DatasetSource(RowSource, ABC):
    """Rows of a dataset, which is fetched and prepared before blocks are computed."""

    dataset: str

    @property
    def source(self) -> str:
        return self.dataset

    @property
    def about(self) -> Dataset:
        """The public description of the dataset."""
        return get_dataset(self.source)

    @property
    def file_type(self) -> str:
        """The ending of a file of `prepare`: ``.parquet``, ``.npz`` or ``.json``."""
        return ".parquet"

    def columns(self) -> tuple[Column, ...]:
        """Return the registered columns that the problem reads."""
        return self.about.columns

    def check_data(self, n: int) -> None:
        """Raise ValueError or DataError for a dataset that does not suit, or a size beyond its rows."""

    def stand_in_rows(self, profile: Profile) -> int | None:
        """Return how many rows of a stand-in suffice; None: as many as were published."""
        return None

    @abstractmethod
    def prepare(self, table: DatasetRef) -> bytes:
        """Prepare a dataset once, and return the content of the file."""

    @abstractmethod
    def load(self, path: Path) -> Any:
        """Read a file of `prepare`, for `draws`."""


class Problem(RowSource, ABC):
    """A source of rows and the measurement of answers; a subclass in ``measures`` defines the latter."""

    kind: str

    layout: ClassVar[str] = "error_page"  # of the report's page

    @property
    @abstractmethod
    def measures(self) -> tuple[str, ...]:
        """All metrics that `measure` returns, the headline's first."""

    @property
    def metric(self) -> str:
        """The headline metric."""
        return self.measures[0]

    @abstractmethod
    def measure(self, draw: Draw, answer: dpalgos.Result) -> np.ndarray:
        """Return the measurements of an answer, (metrics, R)."""

    def metrics(self, measured: Sequence[np.ndarray], n: int) -> dict[str, np.ndarray]:
        """Return metric → a value per replicate, from what each draw of size n measured: (metrics, R)."""
        return dict(zip(self.measures, np.concatenate(measured, axis=1), strict=True))

    def selected(self, draw: Draw, estimate: np.ndarray) -> dict[str, int]:
        """Return in how many replicates an estimate selects each column; none where that says nothing."""
        return {}

    def findings(self, exhibits: Mapping[str, Any]) -> tuple[Finding, ...]:
        """Return numbers about the data themselves, from what `exhibits` returned."""
        return ()


_NAMED = 3  # estimators in a block's title


@dataclass(frozen=True, kw_only=True)
class Block:
    """Cells of one study that share their data: of one panel, one size and a range of replicates."""

    replicates: Replicates
    problem: Problem
    data_source: str  # "real", "stand-in" or "simulated"
    work: int  # a rough measure, for the order of execution and the remaining time
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

    @property
    def n_bytes(self) -> int:
        """About how much memory one draw of its data takes."""
        n = self.replicates.n
        return max(self.problem.n_bytes(n), 8 * self.problem.elements(n))

    def described(self) -> dict[str, Any]:
        return {
            **vars(self),
            "replicates": asdict(self.replicates),
            "problem": self.problem.model_dump(mode="json"),
            "cells": [asdict(cell) for cell in self.cells],
        }


@runtime_checkable
class BringsPublicRows(Protocol):
    """A problem whose data may come with public rows, which its draws hand to estimators.

    Each `Draw` has them in the columns of its sample, as `dpalgos.Sample.public_rows`, and their responses,
    if they have any, as ``public_y``. A study then runs the forms of `tasks.study.panel.with_public_rows`.
    """

    public: PublicRows | None

    @property
    def public_X(self) -> np.ndarray | None:
        """The public rows, (m, d), if there are any, in the columns of the draws' samples."""

    @property
    def public_y(self) -> np.ndarray | None:
        """The responses of the public rows, (m,), if they have any."""


@runtime_checkable
class DrawsFromPopulation(Protocol):
    """A problem whose rows are part of a finite population, which can be made up."""

    @property
    def population(self) -> tuple[int, str]:
        """How many there are, and whether they are ``"rows"`` or ``"users"``."""

    def made_up(self, n_units: int, guesses: Guesses, rng: np.random.Generator) -> Any:
        """Return made-up data in the form that `load` has; ValueError where that cannot be."""


@dataclass(frozen=True, kw_only=True)
class HeadlineRun:
    """What the exhibits of a report may be made from: the headline's panel, as it was run."""

    table: DatasetRef | None  # the dataset; None where data are simulated
    design: Path | None  # what `DatasetSource.prepare` returned, as a file
    replicates: Replicates  # of a block of the headline's size
    cells: tuple[Cell, ...]  # the headline's non-private and private ones
    # Cell → column → in how many repetitions it was selected.
    selected: Mapping[str, Mapping[str, int]]


@runtime_checkable
class InfersMembership(Protocol):
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


def modules_of(problem: RowSource, estimators: Iterable[str] = ()) -> list[str]:
    """Return the modules that a problem and estimators are found in by name."""
    functions = (dpalgos.get_estimator(name).function for name in set(estimators))
    return [*problem.modules(), *(function.__module__ for function in functions)]
