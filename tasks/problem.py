"""What every kind of problem has in common: the data of some replicates, and where they come from."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict

import dpalgos
from data.prepare import Design
from data.prepare_snp import GroupDifference
from data.prepare_swarm import Frames
from tasks.cells import Block, replicate_generator

Prepared = Design | GroupDifference | Frames


class Strict(BaseModel):
    """A part of a study file: unknown keys are refused, nothing changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, eq=False)
class Draw:
    """The data of some replicates of a block.

    Attributes
    ----------
    sample : Sample
    first, replicates : int
        The first replicate, and how many share the sample's X.
    target : (k,) array
    to_target : (k, d) array or None
        Brings an estimate into the target's units; None: it has them.
    batched : bool
        Whether the replicates run together and spawn their generators from one.
    """

    sample: dpalgos.Sample
    first: int
    replicates: int
    target: np.ndarray
    to_target: np.ndarray | None
    batched: bool

    def generator(self, seed: int) -> np.random.Generator:
        """Return the estimator's generator for a cell's seed; replicates are the same in any batches."""
        if not self.batched or (self.first and self.replicates == 1):
            return replicate_generator(seed, self.first)
        return np.random.default_rng(np.random.SeedSequence(seed, n_children_spawned=self.first))

    def errors(self, estimate: np.ndarray) -> np.ndarray:
        """Return the ℓ2 distances of estimates (d, R) or (d,) to the target, (R,)."""
        coef = estimate.reshape(self.sample.n_features, self.replicates)
        answer = coef if self.to_target is None else self.to_target @ coef
        return np.asarray(np.linalg.norm(answer - self.target[:, None], axis=0))

    def metrics(self, estimate: np.ndarray) -> dict[str, np.ndarray]:
        """Return what is measured of an estimate, (R,) each; the headline's metric first."""
        return {"l2_error": self.errors(estimate)}

    def selection(self, estimate: np.ndarray) -> dict[str, int]:
        """Return in how many replicates an estimate selects each column; none where that says nothing."""
        return {}


class ProblemBase(Strict, ABC):
    """How the data of a panel arise."""

    @property
    @abstractmethod
    def source(self) -> str:
        """Name of the dataset or of the simulation's model."""

    @property
    def metric(self) -> str:
        """The headline's metric."""
        return "l2_error"

    @property
    def protected(self) -> bool:
        """Whether the guarantee covers the preparation of the data too."""
        return True

    @abstractmethod
    def sizes(self, n: int) -> dict[str, int]:
        """Return n, d, and s where the problem is sparse."""

    @abstractmethod
    def ranges(self, n: int, n_cells: int, replicates: int) -> list[tuple[int, int, int]]:
        """Return (first replicate, replicates, work) of each block at a size."""

    @abstractmethod
    def draws(self, block: Block, design: Prepared | None) -> Iterator[Draw]:
        """Yield the data of a block, its replicates in order."""
