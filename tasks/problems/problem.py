"""A problem: rows that are drawn for every replicate, and what is measured of estimates from them.

A source of rows is a class that extends `RowSource`, a measure is a function. A kind of problem has one of
each, and a name that study files use (`tasks.problems.kinds`); a new one is a file in ``sources``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

import dpalgos
from data.columns import Column
from data.dataset import Dataset
from data.datasets import get_dataset
from data.prepare.table_design import PreparedTable, read_design
from data.store.references import DatasetRef
from dpalgos.tuning.descent import SyntheticTable
from tasks.cells import Cell, Replicates, replicate_generator
from tasks.file_schema import Strict
from tasks.run_options import Profile

SYNTHETIC_ROWS = 6000  # of a table by which numbers of steps are forecast
ALL = 10**9  # a batch of all replicates


def fit_cell(draw: Draw, cell: Cell, replicates: Replicates) -> dpalgos.Result:
    seed, count = replicates.seed_of(cell), draw.replicates
    seeds = np.random.SeedSequence(seed, n_children_spawned=draw.first)
    rng = replicate_generator(seed, draw.first) if count == 1 else np.random.default_rng(seeds)
    return dpalgos.estimate(cell.estimator, draw.sample, rng=rng, replicates=count, **cell.keywords())


@dataclass(frozen=True, eq=False, kw_only=True)
class Draw:
    """The data of one replicate, or of several in a row that run together."""

    sample: dpalgos.Sample  # of several replicates with a mask of rows for each
    first: int  # the number of the first replicate
    fit: Callable[[Draw, Cell, Replicates], dpalgos.Result] = fit_cell  # returns the estimate of a cell
    target: np.ndarray | None = None  # (k,), or (k, K) with classes: what estimates are compared with
    to_target: np.ndarray | None = None  # (k, d): brings an estimate into the target's units
    to_signs: np.ndarray | None = None  # (m, k): maps the target to the coefficients whose signs are scored
    classes: np.ndarray | None = None  # (K,) bool: whose contrasts the target has; None: all
    s: int | None = None  # how many entries of the target are of interest, where these are few
    limits: Mapping[str, float] = field(default_factory=dict)  # metric → a reference value for errors
    # Excess risks (R,) of estimates (d, R) on other rows; None: they follow from distances to the target.
    excess: Callable[[np.ndarray], np.ndarray] | None = None
    judge: Any = None  # what the measure of the kind needs in addition: an attack, or a scale

    @property
    def replicates(self) -> int:
        return self.sample.n_replicates

    def of_first(self, count: int) -> Draw:
        """Return the data of the first replicates."""
        if count >= self.replicates:
            return self
        mask = self.sample.row_mask
        rows = self.sample.derived(row_mask=None if mask is None else mask[:, :count], n_replicates=count)
        return replace(self, sample=rows)

    def columns(self, estimate: np.ndarray) -> np.ndarray:
        return estimate.reshape(self.sample.n_features, self.replicates)

    def answer(self, cell: Cell, replicates: Replicates) -> dpalgos.Result:
        """Return a cell's result on these data; batches of replicates do not change it."""
        return self.fit(self, cell, replicates)

    def answer_with_interval(self, cell: Cell, replicates: Replicates, level: float) -> dpalgos.Result | None:
        """Return a cell's result with intervals; None if its settings have none, or rows are too few."""
        try:
            return self.answer(replace(cell, params={"interval": level, **cell.params}), replicates)
        except dpalgos.InputError:
            return None

    def in_target_units(self, estimate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return estimates in the units of the target, (k, K, R), and the target, (k, K, 1)."""
        assert self.target is not None
        # (d, K, R), where K is 1 unless there are classes.
        coef = estimate.reshape(self.sample.n_features, -1, self.replicates)
        converted = coef if self.to_target is None else np.tensordot(self.to_target, coef, axes=1)
        target = self.target.reshape(len(self.target), -1, 1)
        if self.classes is None:
            return converted, target
        # The zero baseline has no classes.
        converted = np.broadcast_to(converted, (*target.shape[:2], self.replicates))[:, self.classes]
        target = target[:, self.classes]
        if len(self.classes) > 1:
            converted, target = (each - each.mean(axis=1, keepdims=True) for each in (converted, target))
        return converted, target

    def distances(self, estimate: np.ndarray) -> np.ndarray:
        """Return the ℓ2 distances of estimates to the target, (R,)."""
        converted, target = self.in_target_units(estimate)
        return np.asarray(np.linalg.norm((converted - target).reshape(-1, self.replicates), axis=0))

    def excess_risks(self, estimate: np.ndarray) -> np.ndarray:
        """Return risks above the minimum, (R,): half the squared distances to the target, where E xx' = I."""
        if self.excess is not None:
            return self.excess(self.columns(estimate))
        return np.asarray(self.distances(estimate) ** 2 / 2)


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Facts about a source for studies, measures and reports."""

    task: str | None = None  # what is estimated; None if the study file states it
    family: str = ""  # of the responses; empty where they are predicted linearly
    errors: tuple[str, ...] = ("l2_error",)  # of estimates, of `measures.estimation.ERRORS`; headline's first
    measured: str = ""  # the definition of the error, in sentences for the report
    panel_word: str = "panel"  # what reports call the panels of a study
    size_symbol: str = "n"  # of the size, in reports
    protected: bool = True  # whether the guarantee covers every step that reads data, also their preparation
    max_weight: float | None = None  # of rows with private weights; None: rows weigh the same
    of_people: bool = False  # whether people are protected with all their rows
    has_intercept: bool = False  # whether the last column is the constant 1
    offset: str = ""  # the name of the first column, if it is an offset
    offset_bounds: tuple[float, float] | None = None  # its public bounds
    count_bound: float | None = None  # the declared maximum of a response that is a count
    separation_is_known: bool = False  # whether theory predicts an attack's AUC from the error alone
    n_coefficients: int = 0  # whose signs are compared with those without privacy
    population: tuple[int, str] = (0, "rows")  # how many rows (or users) are drawn from; 0: no table
    modules: tuple[str, ...] = ()  # on which the numbers depend, where no import leads to them


@dataclass(frozen=True, kw_only=True)
class Cost:
    elements: int  # of data that a cell reads in a replicate
    n_bytes: int = 0  # that one draw needs in addition to the prepared data
    batch: int = 0  # replicates that run together at most; 0: as many as last seconds
    smoke_n: int | None = None  # the size that profile smoke runs instead


class RowSource(Strict, ABC):
    """The rows of a panel's replicates: their sizes and costs, and how they are drawn."""

    kind: str  # of the problem, a name of `tasks.problems.kinds`
    measure: Literal["", "intervals"] = ""  # what is measured of estimates; "": the measure of the kind

    @property
    @abstractmethod
    def source(self) -> str:
        """Name of the dataset or of the simulation's model."""

    @property
    @abstractmethod
    def traits(self) -> Traits: ...

    @abstractmethod
    def sizes(self, n: int) -> dict[str, int]:
        """Return n, d, s where the problem is sparse, and K where responses are classes."""

    def n_people(self, n: int) -> int | None:
        """Return the number of people of a replicate, or of rows if rows are units; None: see the data."""
        return n

    @abstractmethod
    def cost(self, n: int) -> Cost: ...

    @abstractmethod
    def draws(self, replicates: Replicates, prepared: Any) -> Iterator[Draw]:
        """Yield the data of some replicates, in order; ``prepared`` is None for simulated data."""

    def check(self, n: int, task: str, estimators: Sequence[str] = ()) -> None:
        """Raise ValueError for settings that are impossible at a size, or do not suit an estimator."""

    def synthetic_table(self, guesses: Any, n: int, rng: np.random.Generator) -> SyntheticTable:
        """Return synthetic rows, by which numbers of steps are forecast; no row of the data is read."""
        raise ValueError(f"n_iterations must be a number where kind is {self.kind!r}, got 'by forecast'")

    def rates(self, task: str, n: int, epsilon: float, delta: float) -> dict[str, float]:
        """Return the errors that theory predicts, if it does: label → value in the units of the metric."""
        return {}

    def exhibits(self, run: HeadlineRun) -> dict[str, Any]:
        """Return what a report shows next to errors: name of a module of `reports.exhibits` → content."""
        return {}


class DatasetSource(RowSource, ABC):
    """Rows of a dataset, which is fetched and prepared before blocks are computed."""

    reads: ClassVar[tuple[str, ...]] = ("table",)  # the kinds of datasets that it can read
    design: ClassVar[type] = PreparedTable  # what `prepare` serializes

    dataset: str

    @property
    def source(self) -> str:
        return self.dataset

    @property
    def about(self) -> Dataset:
        return get_dataset(self.source)

    def columns(self) -> tuple[Column, ...]:
        return self.about.columns

    def check_data(self, n: int) -> None:
        """Raise ValueError or DataError for a dataset that does not suit, or a size beyond its rows."""
        if (kind := self.about.kind) not in self.reads:
            known = " or ".join(self.reads)
            raise ValueError(
                f"dataset must be of kind {known}, got {self.dataset!r}, of kind {kind}; name another"
            )

    def stand_in_rows(self, profile: Profile) -> int | None:
        """Return how many rows of a stand-in suffice; None: as many as were published."""
        return None

    def lacks(self, table: DatasetRef) -> str:
        """Return why a table cannot be read for this problem; empty if it can."""
        return ""

    @abstractmethod
    def prepare(self, table: DatasetRef) -> bytes:
        """Prepare a dataset once, and return the content of the file, of `data.prepare.table_design`."""

    def load(self, path: Path) -> Any:
        return read_design(path, self.design)


# Numbers by name, of which the last axis is that of replicates.
Measured = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A measure of estimates: a function, and what follows for studies and reports."""

    # Return the measured values of a result, all finite.
    measure: Callable[[Traits, Draw, dpalgos.Result], Measured]
    metric: Callable[[Traits], str]  # Return the headline metric.
    # Return metric → a value per replicate, from what was measured of all draws.
    metrics: Callable[[Traits, Measured], Measured] = lambda _, measured: measured
    exhibits: Callable[[Traits, HeadlineRun], dict[str, Any]] = lambda _, run: {}  # as in `RowSource`
    of_intervals: bool = False  # then theory says nothing, and all products of two columns are in memory
    of_attacks: bool = False
    has_limit: bool = False  # whether private estimates are also measured with next to no noise
    layout: str = "error_page"  # of a study's page, see `reports.pages.study.LAYOUTS`


@dataclass(frozen=True)
class Kind:
    source: type[RowSource]
    measure: Measure
    intervals: Measure | None = None  # with ``measure = "intervals"``, where that has a meaning


@dataclass(frozen=True, kw_only=True)
class HeadlineRun:
    """The input of a report's exhibits: the headline's panel, as it was run."""

    table: DatasetRef | None  # the dataset; None where data are simulated
    design: Path | None  # what `DatasetSource.prepare` returned, as a file
    replicates: Replicates  # of a block of the headline's size
    cells: tuple[Cell, ...]  # the headline's non-private and private ones
