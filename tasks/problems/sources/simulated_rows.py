"""Rows of a simulation: a fresh dataset per replicate, the same for all cells at that size."""

import inspect
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

import dpalgos
from data.simulations import Simulated, half_width, models, simulator
from dpalgos.tuning.descent import SyntheticTable
from tasks.cells import Replicates
from tasks.file_schema import Whole
from tasks.problems.measures.estimation import ESTIMATION
from tasks.problems.measures.intervals import INTERVALS
from tasks.problems.problem import SYNTHETIC_ROWS, Cost, Draw, Kind, RowSource, Traits
from tasks.problems.theory import dense_rates, local_rates, sparse_rates
from tasks.size_rules import RuleError, evaluate_all, whole

_LOGARITHMIC = ("uniform_glm",)  # models of paper B, which plots natural logarithms of squared errors
_SMOKE_BYTES = 300e6


class Simulation(RowSource):
    """Data from a model of `data.simulations`.

    ``d``, ``s`` and ``settings`` may be rules in n (and settings in d and s).
    """

    model: str
    d: Whole | str
    s: Whole | str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)

    @property
    def source(self) -> str:
        return self.model

    @property
    def traits(self) -> Traits:
        measured = (
            "In every repetition rows are drawn anew, the same for all estimators, and private ones draw new "
            "noise. An error compares an estimate with the parameter that the rows were drawn with."
        )
        return Traits(measured=measured, modules=(models().get(self.model, "data.simulations"),))

    def sizes(self, n: int) -> dict[str, int]:
        sizes = {"n": n, "d": whole(self.d, {"n": n}, what="d")}
        return sizes if self.s is None else {**sizes, "s": whole(self.s, sizes, what="s")}

    def check(self, n: int, task: str, estimators: Sequence[str] = ()) -> None:
        sizes = self.sizes(n)
        if sizes.get("s", 0) > sizes["d"]:
            raise RuleError(f"s must be at most d, got s = {sizes['s']} and d = {sizes['d']} at n = {n}")
        settings, function = evaluate_all(self.settings, sizes), simulator(self.model)
        known = [*inspect.signature(function).parameters][3:]
        for name in settings:
            if name not in known:
                raise RuleError(f"settings must be of the model's ({', '.join(known)}), got {name!r}")
        data = function(np.random.default_rng(0), 2, 2, **settings)
        if (data.y is None) != (task == "mean"):
            model = "has no response" if data.y is None else "is a regression"
            raise RuleError(f"model must suit the study's task, got {self.model!r}, which {model}")

    def simulate(self, rng: np.random.Generator, n: int, *, times: int = 1) -> Simulated:
        sizes = self.sizes(n)
        return simulator(self.model)(rng, times * n, sizes["d"], **evaluate_all(self.settings, sizes))


class SimulatedRows(Simulation):
    """Rows of a simulation with its truth; ``public_rows`` more rows are public, without y.

    Where rows are public, each of the others is a person's with one local report.
    """

    estimates: Literal["mean", "linear_regression", "glm"] | None = None  # None: what the study says
    public_rows: Whole = Field(default=0, ge=0)

    @property
    def traits(self) -> Traits:
        errors = ["l2_error", *["sup_error"] * bool(self.public_rows)]
        errors += ["log_squared_error"] * (self.model in _LOGARITHMIC)
        return replace(super().traits, task=self.estimates, errors=tuple(errors))

    def check(self, n: int, task: str, estimators: Sequence[str] = ()) -> None:
        super().check(n, task, estimators)
        if self.public_rows and self.s is None:
            raise ValueError("s must be given, the number of coefficients other than zero; add e.g. s = 2")

    def cost(self, n: int) -> Cost:
        """Return the cost; profile smoke halves a size until a dataset takes at most 300 MB."""
        d = self.sizes(n)["d"]
        if self.public_rows:  # reports have up to d (d + 3)/2 numbers
            return Cost(elements=n * d * (d + 3) // 4, n_bytes=24 * n * d)
        smoke_n = n
        while self._n_bytes(smoke_n) > _SMOKE_BYTES:
            smoke_n //= 2
        return Cost(elements=n * d, n_bytes=self._n_bytes(n), smoke_n=smoke_n)

    def _n_bytes(self, n: int) -> int:
        return n * self.sizes(n)["d"] * (4 if self.settings.get("single_precision") else 8)

    def draws(self, replicates: Replicates, prepared: None) -> Iterator[Draw]:
        for replicate, rng in replicates.generators("data"):
            data = self.simulate(rng, replicates.n)
            data.X.flags.writeable = False  # so that a sample keeps these rows, and copies none
            if self.public_rows:
                public = self.simulate(rng, self.public_rows)
                sample = dpalgos.Sample(data.X, data.y, public_rows=public.X)
            else:
                sample = dpalgos.Sample(data.X, data.y)
            yield Draw(sample=sample, first=replicate, target=data.truth)

    def synthetic_table(self, guesses: Any, n: int, rng: np.random.Generator) -> SyntheticTable:
        """Return rows of the model, whose design is public."""
        sizes = self.sizes(n)
        rows, settings = min(n, SYNTHETIC_ROWS), evaluate_all(self.settings, sizes)
        data = simulator(self.model)(rng, rows, sizes["d"], **settings)
        assert data.y is not None
        return SyntheticTable(data.X, data.y, np.eye(len(data.truth)), data.truth)

    def rates(self, task: str, n: int, epsilon: float, delta: float) -> dict[str, float]:
        sizes = self.sizes(n)
        if self.public_rows:
            return local_rates(n, sizes["d"], sizes["s"], epsilon, delta)
        rates = (
            sparse_rates(task, n, sizes["d"], sizes["s"], epsilon, delta)
            if "s" in sizes
            else dense_rates(task, n, sizes["d"], epsilon, delta)
        )
        return {label: self._rate_unit(sizes) * value for label, value in rates.items()}

    def _rate_unit(self, sizes: dict[str, int]) -> float:
        """Return what a unit of the rate is in ℓ2: the rates of regression are in the norm of the design.

        Entries uniform on ±h have second moments h²/3.
        """
        if self.model != "uniform_regression":
            return 1.0
        settings = evaluate_all(self.settings, sizes)
        design = settings.get("design", "literal")
        return math.sqrt(3) / half_width(design, sizes["d"], settings.get("sparsity", sizes["d"]))


KINDS = {"simulation": Kind(SimulatedRows, ESTIMATION, intervals=INTERVALS)}
