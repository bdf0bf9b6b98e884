"""Regression under local privacy: simulated people with one report each, and public rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

import dpalgos
from dpalgos.accounting.amplification import AGGREGATED, SHUFFLED
from dpalgos.theory import local_rates
from tasks.problems.problem import Draw, Estimation, HeadlineRun
from tasks.problems.simulation import SimulatedProblem
from tasks.work_units import Replicates

SUP_ERROR = "sup_error"


@dataclass(frozen=True, eq=False, kw_only=True)
class CoefficientDraw(Estimation):
    """Data with a target, of which the largest error of a coefficient is measured too."""

    def measure(self, estimate: np.ndarray) -> np.ndarray:
        largest = np.abs(self.columns(estimate) - self.target[:, None]).max(axis=0)
        return np.stack([super().measure(estimate), largest])


class SimulatedPeople(SimulatedProblem):
    """People each with a row of a simulation; ``public_rows`` more rows are public, without y."""

    public_rows: int = Field(default=20_000, ge=1)

    def check(self, n: int, task: str) -> None:
        super().check(n, task)
        if self.s is None:
            raise ValueError("s must be given, the number of coefficients other than zero; add e.g. s = 2")

    def elements(self, n: int) -> int:
        d = self.sizes(n)["d"]
        return n * d * (d + 3) // 4  # reports have up to d (d + 3)/2 numbers

    def n_bytes(self, n: int) -> int:
        return 3 * 8 * n * self.sizes(n)["d"]

    def draws(self, replicates: Replicates, prepared: None) -> Iterator[Draw]:
        for replicate, rng in replicates.generators("data"):
            data = self.simulate(rng, replicates.n)
            public = self.simulate(rng, self.public_rows)
            sample = dpalgos.Sample(data.X, data.y, public_rows=public.X)
            yield CoefficientDraw(sample=sample, first=replicate, target=data.truth)


class LocalRegression(SimulatedPeople):
    """Estimation of the coefficients of a simulation."""

    kind: Literal["local_regression"]

    measures: ClassVar[tuple[str, ...]] = ("l2_error", SUP_ERROR)

    def exhibits(self, run: HeadlineRun) -> dict[str, Any]:
        named = {SHUFFLED: "shuffled", AGGREGATED: "summed"}
        return {
            "column_growth": {"metric": SUP_ERROR},
            "central_epsilon": {"metrics": named, "n": run.replicates.n},
        }

    def rates(self, task: str, n: int, epsilon: float, delta: float) -> dict[str, float]:
        sizes = self.sizes(n)
        return local_rates(n, sizes["d"], sizes["s"], epsilon, delta)
