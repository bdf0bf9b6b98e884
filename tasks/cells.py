"""Cells and replicates: the unit of work, and the data that it is done on.

Both are plain, frozen and JSON-able, and every random number is derived from them. Therefore any retry, order
or machine gives the same bytes.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits


@dataclass(frozen=True, kw_only=True)
class Cell:
    estimator: str
    panel: str
    form: str = ""  # which setting of the estimator, e.g. "residual-clipped"; empty where it has one only
    calibration: str  # "none", "tight" or "paper"
    epsilon: float | None  # what is asked, as delta; None for non-private estimators
    delta: float | None
    delta_rule: str  # how δ follows from n, e.g. "10/n^1.1"; empty for non-private estimators
    n: int  # rows per replicate
    params: dict[str, Any]  # public keywords of the estimator
    steps: int | None = None  # number of steps, where a study varies it
    of_path: bool = False  # is the estimate the iterate after so many steps of a longer run
    s: int | None = None  # sparsity, where a study varies it

    @property
    def key(self) -> str:
        """The cell's name within its study, e.g. ``adassp:public:tight:eps=0.5:delta=1/n^2:n=2000``."""
        return f"{self.key_at_any_s}:s={self.s}" if self.s else self.key_at_any_s

    @property
    def run_key(self) -> str:
        """The key of the run and its seed; shared by cells that differ in an unused s or read one path."""
        key = replace(self, steps=None).key_at_any_s if self.of_path else self.key_at_any_s
        has_params = self.s or self.of_path
        return f"{key}:{json.dumps(self.params, sort_keys=True)}" if has_params else self.key

    @property
    def iterate(self) -> int | None:
        """The number of the iterate that is the estimate; None: the run's own estimate."""
        return self.steps if self.of_path else None

    @property
    def key_at_any_s(self) -> str:
        steps = f"T={self.steps}" if self.steps else ""
        parts = [self.estimator, "+".join(part for part in (self.panel, self.form, steps) if part)]
        if self.epsilon is not None:
            short = f"{self.epsilon:g}"  # in all digits where fewer would be another number
            epsilon = short if float(short) == self.epsilon else repr(self.epsilon)
            parts += [self.calibration, f"eps={epsilon}", f"delta={self.delta_rule}"]
        return ":".join([*parts, f"n={self.n}"])

    def keywords(self) -> dict[str, Any]:
        if self.calibration == "none":
            return dict(self.params)
        budget = {"epsilon": self.epsilon, "delta": self.delta, "calibration": self.calibration}
        return {**self.params, **budget}


@dataclass(frozen=True, kw_only=True)
class Replicates:
    """Some replicates of a panel's data at one size: everything that decides which data are drawn."""

    study: str
    panel: str
    n: int  # rows per replicate
    first: int  # the first replicate, and count from it on
    count: int
    of: int  # replicates of a cell in all blocks
    seed: int  # the study's

    @property
    def key(self) -> str:
        """Their name within the study, e.g. ``public:n=2000:r=0-9``."""
        name = f"{self.panel}:n={self.n}"
        return name if self.count == self.of else f"{name}:r={self.first}-{self.first + self.count - 1}"

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.count)

    def generators(self, purpose: str) -> Iterator[tuple[int, np.random.Generator]]:
        """Yield each replicate's number and its generator for a purpose, different in every panel."""
        seed = derive_seed(self.seed, self.study, purpose, self.panel, self.n)
        for number in self.numbers:
            yield number, replicate_generator(seed, number)

    def row_generators(self) -> list[np.random.Generator]:
        """Return the generators that draw the rows of each replicate, the same in every panel."""
        seed = derive_seed(self.seed, self.study, "rows", self.n)
        return [replicate_generator(seed, number) for number in self.numbers]

    def seed_of(self, cell: Cell) -> int:
        return derive_seed(self.seed, self.study, cell.run_key)


def derive_seed(seed: int, *names: object) -> int:
    """Derive a 63-bit seed from the study's seed and the names of its use."""
    digest = hashlib.sha256(json.dumps([seed, *map(str, names)]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def replicate_generator(seed: int, replicate: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(replicate,)))


def one_blas_thread() -> None:
    """Limit this process's matrix products to one thread each, for results that do not depend on the machine.

    The number of threads decides in which order BLAS adds, so the last bits depend on it. The limit is the
    process's, not the thread's: one that ended with a block would be lifted while others still compute.
    """
    threadpool_limits(1)
