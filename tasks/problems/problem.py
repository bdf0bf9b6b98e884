"""What a kind of problem is: how data arise, are prepared and drawn, what is measured and shown.

A panel of a study has one problem. Everything that differs between kinds of problems is a method here, so
that a new kind is one file beside this one (`tasks.problems.kinds` finds it), and nobody else asks which kind
it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import dpalgos
from data.registry import Column, Dataset, get_dataset
from data.store.references import DatasetRef
from tasks.strict import Strict
from tasks.work_units import Block, Cell, derive_seed, replicate_generator

if TYPE_CHECKING:
    import pandas as pd

    from reports.page import Finding
    from tasks.problems.declared_rows import DeclaredRows
    from tasks.problems.guesses import Guesses
    from tasks.study.spec import Profile, StudySpec

# Elements of all data sets that the cells of one block read, so that it lasts seconds.
ELEMENTS_PER_BLOCK = 400_000_000
# What a cell costs beside its data, in elements of a simulation.
ELEMENTS_BESIDE = 200_000


@dataclass(frozen=True, eq=False, kw_only=True)
class Draw(ABC):
    """The data of some replicates of a block.

    Attributes
    ----------
    sample : Sample
    first, replicates : int
        The first replicate, and how many share the sample's X.
    batched : bool
        Whether the replicates run together and spawn their generators from one.
    """

    sample: dpalgos.Sample
    first: int
    replicates: int
    batched: bool

    def generator(self, seed: int) -> np.random.Generator:
        """Return the estimator's generator for a cell's seed; replicates are the same in any batches."""
        if not self.batched or (self.first and self.replicates == 1):
            return replicate_generator(seed, self.first)
        return np.random.default_rng(np.random.SeedSequence(seed, n_children_spawned=self.first))

    def columns(self, estimate: np.ndarray) -> np.ndarray:
        """Return estimates (d, R) or (d,) as (d, R)."""
        return estimate.reshape(self.sample.n_features, self.replicates)

    def answer(self, cell: Cell, block: Block) -> dpalgos.Result:
        """Return a cell's answer on these data: the same again for the same replicates."""
        return dpalgos.estimate(
            cell.estimator,
            self.sample,
            rng=self.generator(derive_seed(block.seed, block.study, cell.question)),
            replicates=self.replicates,
            **cell.keywords(),
        )

    @abstractmethod
    def measure(self, estimate: np.ndarray) -> np.ndarray:
        """Return what is measured on estimates (d, R) or (d,): an array whose last axis is R."""

    def measure_answer(self, answer: dpalgos.Result) -> np.ndarray:
        """Return what is measured on a whole answer; by default on its estimate alone."""
        return self.measure(answer.estimate)

    def selection(self, estimate: np.ndarray) -> dict[str, int]:
        """Return in how many replicates an estimate selects each column; none where that says nothing."""
        return {}


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimation(Draw):
    """Data with a target.

    Attributes
    ----------
    target : (k,) array, or (k, K) with classes
    to_target : (k, d) array or None
        Brings an estimate into the target's units; None: it has them.
    """

    target: np.ndarray
    to_target: np.ndarray | None = None

    def measure(self, estimate: np.ndarray) -> np.ndarray:
        """Return the ℓ2 distances to the target, (R,)."""
        # (d, K, R), where K is 1 unless there are classes.
        coef = estimate.reshape(self.sample.n_features, -1, self.replicates)
        answer = coef if self.to_target is None else np.tensordot(self.to_target, coef, axes=1)
        off = answer - self.target.reshape(len(self.target), -1, 1)
        return np.asarray(np.linalg.norm(off.reshape(-1, self.replicates), axis=0))


@dataclass(frozen=True, kw_only=True)
class HeadlineRun:
    """What the exhibits of a report may be made from: the headline's panel, as it was run.

    Attributes
    ----------
    table : DatasetRef or None
        The dataset; None where data are simulated.
    design : pathlib.Path or None
        What `Problem.prepare` returned, as a file.
    block : Block
        The headline's non-private and private cells, at its size.
    selected : mapping of str to mapping of str to int
        Cell → column → in how many repetitions it was selected.
    """

    table: DatasetRef | None
    design: Path | None
    block: Block
    selected: Mapping[str, Mapping[str, int]]


class Problem(Strict, ABC):
    """How the data of a panel arise, and what is measured; a subclass names itself by its field ``kind``."""

    kind: str

    # What this kind is called where panels of a report are told apart, and the symbol of its size there.
    panel_word: ClassVar[str] = "panel"
    size_symbol: ClassVar[str] = "n"
    # Which page of `reports.layouts` shows it.
    layout: ClassVar[str] = "error_page"
    # Whether `exhibits` has anything to show, `deletion_shifts` anything to tell.
    has_exhibits: ClassVar[bool] = False
    has_deletion_shifts: ClassVar[bool] = False

    @property
    @abstractmethod
    def source(self) -> str:
        """Name of the dataset or of the simulation's model."""

    @property
    def about(self) -> Dataset:
        """What is public about the dataset."""
        return get_dataset(self.source)

    @property
    def simulated(self) -> bool:
        """Whether there is no dataset to bring."""
        return False

    @property
    def protected(self) -> bool:
        """Whether the guarantee covers the preparation of the data too."""
        return True

    @property
    def task(self) -> str | None:
        """What is estimated; None where the study says it."""
        return None

    @property
    def separation_is_known(self) -> bool:
        """Whether theory predicts an attack's AUC from the estimate's error alone."""
        return False

    @property
    def population(self) -> tuple[int, str]:
        """How many rows or users a size is a part of, where errors are distances to the answer of all."""
        return 0, "rows"

    @property
    def metric(self) -> str:
        """The headline metric."""
        return "l2_error"

    @property
    def measured(self) -> str:
        """How an error comes about and what it is, in sentences for the report."""
        return ""

    # A study file is read.

    def check(self, n: int, task: str) -> None:
        """Refuse settings that cannot be, at a size of the panel's grid.

        Raises
        ------
        ValueError
            In words.
        """

    def check_data(self, n: int) -> None:
        """Refuse a dataset or columns that do not suit the problem, or a size beyond its rows.

        Raises
        ------
        ValueError, DataError
            In words.
        """

    def check_estimator(self, name: str) -> None:
        """Refuse an estimator that does not suit the problem, beside its task.

        Raises
        ------
        ValueError
            In words.
        """

    @abstractmethod
    def sizes(self, n: int) -> dict[str, int]:
        """Return n, d, s where the problem is sparse, and K where responses are classes."""

    def smoke_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the sizes of profile ``smoke``: both ends of the grid."""
        return tuple(dict.fromkeys((min(sizes), max(sizes))))

    def stand_in_rows(self, profile: Profile) -> int | None:
        """Return how many rows of a stand-in suffice; None: as many as were published."""
        return None

    # Data are prepared.

    def columns(self) -> tuple[Column, ...]:
        """Return the registered columns that the problem reads; none where data are simulated."""
        return () if self.simulated else self.about.columns

    def prepare(self, table: DatasetRef) -> tuple[str, bytes]:
        """Return what is prepared once of a dataset, as the file's suffix and content."""
        raise NotImplementedError(f"{type(self).__name__} has nothing to prepare")

    def load(self, path: Path) -> Any:
        """Read back what `prepare` returned, as `draws` takes it."""
        raise NotImplementedError(f"{type(self).__name__} has nothing to load")

    def modules(self) -> tuple[str, ...]:
        """Return the modules whose code the problem's numbers depend on beside all problems' own."""
        return (type(self).__module__,)

    # Blocks are computed.

    @abstractmethod
    def ranges(self, n: int, n_cells: int, replicates: int) -> list[tuple[int, int, int]]:
        """Return (first replicate, replicates, work) of each block at a size."""

    def n_bytes(self, n: int) -> int:
        """Return the memory that one draw needs beside the prepared data."""
        return 0

    @abstractmethod
    def draws(self, block: Block, prepared: Any) -> Iterator[Draw]:
        """Yield the data of a block, its replicates in order; simulated data need nothing prepared."""

    def declared_rows(self, guesses: Guesses) -> DeclaredRows:
        """Return what is declared of a table's columns.

        Raises
        ------
        ValueError
            In words, where declarations do not say what a row looks like.
        """
        raise ValueError(f"problem of kind {self.kind!r} declares no rows; advice is for kind = 'subsamples'")

    def made_up(self, n_units: int, guesses: Guesses, rng: np.random.Generator) -> Any:
        """Return what `draws` takes, of so many rows (or users) made up from public declarations alone.

        Raises
        ------
        ValueError
            In words, where declarations do not say what a row looks like.
        """
        raise ValueError(f"problem of kind {self.kind!r} declares no rows; advice is for kind = 'subsamples'")

    def metrics(self, measured: Sequence[np.ndarray], n: int) -> dict[str, np.ndarray]:
        """Return metric → a value per replicate, from what each draw of a block of size n measured."""
        return {self.metric: np.concatenate(measured)}

    def deletion_shifts(self, prepared: Any, n_deleted: Sequence[int]) -> tuple[str, dict[int, float]]:
        """Return a non-private estimator, and how far deleting k influential rows moves it, for each k."""
        raise NotImplementedError(f"{type(self).__name__} has no rows to delete")

    # A report is written. What only checks and reports need is imported inside these methods: the keys of
    # computed numbers do not depend on it (see `data.store.code_digest`).

    def assumed_columns(self) -> tuple[Column, ...]:
        """Return the columns whose public centre and scale are assumptions of the report."""
        return ()

    def rates(self, task: str, n: int, epsilon: float, delta: float) -> dict[str, float]:
        """Return the theory's predictions of the error: label → value in the units of the metric."""
        return {}

    def exhibits(self, run: HeadlineRun) -> dict[str, Any]:
        """Return what is shown beside the results: name of a module of `reports.exhibits` → its content."""
        return {}

    def findings(self, exhibits: Mapping[str, Any]) -> tuple[Finding, ...]:
        """Return numbers about the data themselves, from what `exhibits` returned."""
        return ()

    def layout_facts(self, spec: StudySpec, results: pd.DataFrame) -> Any:
        """Return what the page's layout shows beside the results table."""
        return None


def spread_over_blocks(replicates: int, work: int) -> list[tuple[int, int, int]]:
    """Return (first, replicates, work) of blocks of about as much work each; ``work`` is a replicate's."""
    step = max(1, min(replicates, ELEMENTS_PER_BLOCK // work))
    firsts = range(0, replicates, step)
    return [(first, size := min(step, replicates - first), size * work) for first in firsts]
