"""What the estimators of a panel are given, and what their answers are compared with.

A problem says how data arise: random subsamples of a dataset, or fresh draws of a simulation. A block asks
for its draws, one after another, and knows nothing else about where data come from.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator, model_validator

import dpalgos
from data.prepare import Design, draw_rows, full_sample_target
from data.prepare_snp import GroupDifference, draw_people, paired_rows, person_mask
from data.simulations import Simulated, simulator
from tasks.cells import Block, derive_seed, replicate_generator, row_generators
from tasks.rules import RuleError, evaluate_all, whole

# Elements of all data sets that the cells of one block read, so that it lasts seconds.
_ELEMENTS_PER_BLOCK = 400_000_000
# What a cell costs beside its data, in rows of a dataset (as measured), and in elements of a simulation.
_ROWS_BESIDE, _ELEMENTS_BESIDE = 4000, 200_000


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
        """Return the estimator's generator for a cell's seed."""
        return np.random.default_rng(seed) if self.batched else replicate_generator(seed, self.first)

    def errors(self, estimate: np.ndarray) -> np.ndarray:
        """Return the ℓ2 distances of estimates (d, R) or (d,) to the target, (R,)."""
        coef = estimate.reshape(self.sample.n_features, self.replicates)
        answer = coef if self.to_target is None else self.to_target @ coef
        return np.asarray(np.linalg.norm(answer - self.target[:, None], axis=0))


class _Problem(Strict, ABC):
    """How the data of a panel arise."""

    @property
    @abstractmethod
    def source(self) -> str:
        """Name of the dataset or of the simulation's model."""

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

    def n_bytes(self, n: int) -> int:
        """Return the memory that one draw needs beside the prepared data."""
        return 0

    @abstractmethod
    def draws(self, block: Block, design: Design | GroupDifference | None) -> Iterator[Draw]:
        """Yield the data of a block, its replicates in order."""


class Subsamples(_Problem):
    """Random rows of a dataset; the truth is the regression on all of them, in z-scores.

    Replicates share X, so they are an axis of one draw.
    """

    kind: Literal["subsamples"]
    dataset: str
    response: str
    covariates: tuple[str, ...] = Field(min_length=1)
    prepare: Literal["public", "paper"]

    @field_validator("covariates")
    @classmethod
    def _distinct(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"each entry must be there once, got {name!r} twice; take one out")
        return names

    @model_validator(mode="after")
    def _response_apart(self) -> "Subsamples":
        if self.response in self.covariates:
            raise ValueError(f"covariates must not hold the response, got {self.response!r}; take it out")
        return self

    @property
    def source(self) -> str:
        """Name of the dataset."""
        return self.dataset

    @property
    def protected(self) -> bool:
        """Whether the columns are put into public units."""
        return self.prepare == "public"

    def sizes(self, n: int) -> dict[str, int]:
        """Return n and d; in public units an intercept is fitted too."""
        return {"n": n, "d": len(self.covariates) + (self.prepare == "public")}

    def ranges(self, n: int, n_cells: int, replicates: int) -> list[tuple[int, int, int]]:
        """Return one block: all replicates run together."""
        return [(0, replicates, n_cells * (n + _ROWS_BESIDE))]

    def draws(self, block: Block, design: Design | GroupDifference | None) -> Iterator[Draw]:
        """Yield the one draw of all replicates."""
        assert isinstance(design, Design)
        mask = draw_rows(len(design.X), block.n, row_generators(block))
        yield Draw(
            sample=dpalgos.Sample(design.X, design.y, row_mask=mask, n_replicates=block.replicates),
            first=0,
            replicates=block.replicates,
            target=full_sample_target(design),
            to_target=design.to_z,
            batched=True,
        )


class Simulation(_Problem):
    """A fresh data set per replicate, the same for all cells of the panel at that size.

    ``d``, ``s`` and ``settings`` may be rules in n (and settings in d and s).
    """

    kind: Literal["simulation"]
    model: str
    d: int | str
    s: int | str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)

    @property
    def source(self) -> str:
        """Name of the model."""
        return self.model

    def sizes(self, n: int) -> dict[str, int]:
        """Return n, d, and s if given."""
        sizes = {"n": n, "d": whole(self.d, {"n": n}, what="d")}
        return sizes if self.s is None else {**sizes, "s": whole(self.s, sizes, what="s")}

    def check(self, n: int, *, with_response: bool) -> None:
        """Refuse an unknown model or setting, one that is for another task, and s > d."""
        sizes = self.sizes(n)
        if sizes.get("s", 0) > sizes["d"]:
            raise RuleError(f"s must be at most d, got s = {sizes['s']} and d = {sizes['d']} at n = {n}")
        settings, function = evaluate_all(self.settings, sizes), simulator(self.model)
        known = [*inspect.signature(function).parameters][3:]
        for name in settings:
            if name not in known:
                raise RuleError(
                    f"settings must be of the model's ({', '.join(known)}), got {name!r}; take it out"
                )
        data = function(np.random.default_rng(0), 2, 2, **settings)
        if (data.y is not None) != with_response:
            model = "has no response" if data.y is None else "is a regression"
            raise RuleError(f"model must suit the study's task, got {self.model!r}, which {model}")

    def ranges(self, n: int, n_cells: int, replicates: int) -> list[tuple[int, int, int]]:
        """Return blocks of about as much data each."""
        work = (n_cells + 1) * (n * self.sizes(n)["d"] + _ELEMENTS_BESIDE)
        step = max(1, min(replicates, _ELEMENTS_PER_BLOCK // work))
        firsts = range(0, replicates, step)
        return [(first, size := min(step, replicates - first), size * work) for first in firsts]

    def n_bytes(self, n: int) -> int:
        """Return the memory of one data set."""
        single = bool(self.settings.get("single_precision"))
        return n * self.sizes(n)["d"] * (4 if single else 8)

    def draws(self, block: Block, design: Design | GroupDifference | None) -> Iterator[Draw]:
        """Yield one data set after another; one at a time is in memory."""
        seed = derive_seed(block.seed, block.study, "data", block.panel, block.n)
        for replicate in range(block.first, block.first + block.replicates):
            data = self.simulate(replicate_generator(seed, replicate), block.n)
            yield Draw(
                sample=dpalgos.Sample(data.X, data.y),
                first=replicate,
                replicates=1,
                target=data.truth,
                to_target=None,
                batched=False,
            )

    def simulate(self, rng: np.random.Generator, n: int) -> Simulated:
        """Draw a data set of n rows."""
        sizes = self.sizes(n)
        return simulator(self.model)(rng, n, sizes["d"], **evaluate_all(self.settings, sizes))


class GroupDifferences(_Problem):
    """Genotypes of two groups, n people drawn from each; the truth is the difference of everybody's means.

    ``unit`` is what a row stands for: a person, in 2n rows, or a pair as in the paper, in n rows. The mean of
    the rows is the same.
    """

    kind: Literal["group_differences"]
    dataset: str
    n_snps: Annotated[int, Field(strict=True, ge=1)]
    s: Annotated[int, Field(strict=True, ge=1)]
    selection: Literal["all_subjects", "public_panel", "evenly_spaced"]
    unit: Literal["person", "pair"]

    @property
    def source(self) -> str:
        """Name of the dataset."""
        return self.dataset

    @property
    def protected(self) -> bool:
        """Whether the SNPs are chosen without a look at those who are compared."""
        return self.selection != "all_subjects"

    def sizes(self, n: int) -> dict[str, int]:
        """Return n, d and s."""
        return {"n": n, "d": self.n_snps, "s": self.s}

    def ranges(self, n: int, n_cells: int, replicates: int) -> list[tuple[int, int, int]]:
        """Return one block: the design is small."""
        return [(0, replicates, n_cells * replicates * (n * self.n_snps + _ELEMENTS_BESIDE))]

    def draws(self, block: Block, design: Design | GroupDifference | None) -> Iterator[Draw]:
        """Yield all replicates at once, or one after another where each has rows of its own."""
        assert isinstance(design, GroupDifference)
        drawn = draw_people(design.sizes, block.n, row_generators(block))
        if self.unit == "person":
            mask = person_mask(drawn, len(design.X))
            sample = dpalgos.Sample(design.X, row_mask=mask, n_replicates=block.replicates)
            yield Draw(sample, 0, block.replicates, design.target, None, batched=True)
            return
        for r in range(block.replicates):
            sample = dpalgos.Sample(paired_rows(design.X, drawn, r))
            yield Draw(sample, block.first + r, 1, design.target, None, batched=False)


AnyProblem = Subsamples | Simulation | GroupDifferences
Problem = Annotated[AnyProblem, Field(discriminator="kind")]
_ANY: TypeAdapter[AnyProblem] = TypeAdapter(Problem)


def problem_of(block: Block) -> AnyProblem:
    """Return a block's problem."""
    return _ANY.validate_python(block.problem)
