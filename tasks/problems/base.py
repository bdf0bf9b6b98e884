"""What a problem hands to a block: draws of data, and how an answer on them is measured.

Estimation measures the ℓ2 distance to a target. Membership (`tasks.problems.membership`) measures how well an
attack tells the rows that were used from others. A block asks for draws and measures, and knows nothing else.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict

import dpalgos
from data.frame_features import Frames
from data.group_difference import GroupDifference
from data.table_design import Design
from data.traced_group import TracedGroup
from tasks.work_units import Block, replicate_generator

# Elements of all data sets that the cells of one block read, so that it lasts seconds.
ELEMENTS_PER_BLOCK = 400_000_000
# What a cell costs beside its data, in elements of a simulation.
ELEMENTS_BESIDE = 200_000

Prepared = Design | GroupDifference | TracedGroup | Frames


class Strict(BaseModel):
    """A part of a study file: unknown keys are refused, nothing changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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

    @abstractmethod
    def measure(self, estimate: np.ndarray) -> np.ndarray:
        """Return what is measured on estimates (d, R) or (d,): an array whose last axis is R."""

    def selection(self, estimate: np.ndarray) -> dict[str, int]:
        """Return in how many replicates an estimate selects each column; none where that says nothing."""
        return {}


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimation(Draw):
    """Data with a target.

    Attributes
    ----------
    target : (k,) array
    to_target : (k, d) array or None
        Brings an estimate into the target's units; None: it has them.
    """

    target: np.ndarray
    to_target: np.ndarray | None = None

    def measure(self, estimate: np.ndarray) -> np.ndarray:
        """Return the ℓ2 distances to the target, (R,)."""
        coef = self.columns(estimate)
        answer = coef if self.to_target is None else self.to_target @ coef
        return np.asarray(np.linalg.norm(answer - self.target[:, None], axis=0))


class ProblemBase(Strict, ABC):
    """How the data of a panel arise, and what is measured."""

    @property
    @abstractmethod
    def source(self) -> str:
        """Name of the dataset or of the simulation's model."""

    @property
    def protected(self) -> bool:
        """Whether the guarantee covers the preparation of the data too."""
        return True

    @property
    def simulated(self) -> bool:
        """Whether there is no dataset to bring."""
        return False

    @property
    def task(self) -> str | None:
        """What is estimated, where the study leaves it to its panels."""
        return None

    @property
    def metric(self) -> str:
        """The headline metric."""
        return "l2_error"

    @abstractmethod
    def sizes(self, n: int) -> dict[str, int]:
        """Return n, d, and s where the problem is sparse."""

    @abstractmethod
    def ranges(self, n: int, n_cells: int, replicates: int) -> list[tuple[int, int, int]]:
        """Return (first replicate, replicates, work) of each block at a size."""

    def n_bytes(self, n: int) -> int:
        """Return the memory that one draw needs beside the prepared data."""
        return 0

    @abstractmethod
    def draws(self, block: Block, design: Prepared | None) -> Iterator[Draw]:
        """Yield the data of a block, its replicates in order."""

    def metrics(self, measured: Sequence[np.ndarray], n: int) -> dict[str, np.ndarray]:
        """Return metric → a value per replicate, from what each draw of a block of size n measured."""
        return {self.metric: np.concatenate(measured)}


def spread_over_blocks(replicates: int, work: int) -> list[tuple[int, int, int]]:
    """Return (first, replicates, work) of blocks of about as much work each; ``work`` is a replicate's."""
    step = max(1, min(replicates, ELEMENTS_PER_BLOCK // work))
    firsts = range(0, replicates, step)
    return [(first, size := min(step, replicates - first), size * work) for first in firsts]
