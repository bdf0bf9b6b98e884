"""How often unflagged intervals cover on laws that were written down before any rule was tuned.

Run as ``python -m tests.bench.interval_shapes``, with ``--repetitions 50 --only TEXT --seed 0 --out FILE``. A
cell is an estimator on rows of one law at one n and ε. The truth is known, or it is the mean, the
least-squares or maximum-likelihood answer of two million rows of the law. A cell fails if its unflagged
coordinates cover less than 94 % by more than two standard errors.

Where errors are skewed and depend on the rows, least squares' coefficient is asked for
(``interval_target="least squares"``): the robust one is another number.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import dpalgos
from data.simulations import Simulated
from data.simulations.hard_shapes import hard_events, hard_mean, hard_regression
from tests.bench.goals import write_facts

Rows = tuple[np.ndarray, np.ndarray | None]
Law = Callable[[np.random.Generator, int], Rows]


@dataclass(frozen=True)
class HardShape:
    """A law of the study `intervals`, whose answer is known."""

    model: Callable[..., Simulated]
    n_columns: int
    law: str = ""

    def _drawn(self, rng: np.random.Generator, n: int) -> Simulated:
        return self.model(rng, n, self.n_columns, **({"law": self.law} if self.law else {}))

    def __call__(self, rng: np.random.Generator, n: int) -> Rows:
        """Return rows and responses."""
        drawn = self._drawn(rng, n)
        return drawn.X, drawn.y

    @property
    def truth(self) -> np.ndarray:
        """Return the population's answer."""
        return self._drawn(np.random.default_rng(0), 2).truth


def hard(law: str) -> HardShape:
    return HardShape(hard_regression, 4, law)


def hard_means(law: str) -> HardShape:
    return HardShape(hard_mean, 2, law)


_TRUTH_ROWS, _TRUTH_PIECES = 250_000, 8


def _normal(rng: np.random.Generator, n: int, d: int = 5) -> np.ndarray:
    return rng.standard_normal((n, d))


def _linear(X: np.ndarray, error: np.ndarray) -> Rows:
    return X, X @ (np.linspace(1, -1, X.shape[1]) / np.sqrt(X.shape[1])) + 0.7 * error


def _logistic(rng: np.random.Generator, X: np.ndarray, intercept: float = 0.0) -> Rows:
    X = np.column_stack([X, np.ones(len(X))])
    u = X[:, :-1] @ (np.linspace(1, -1, X.shape[1] - 1) / np.sqrt(X.shape[1] - 1)) + intercept
    return X, (rng.random(len(X)) < 1 / (1 + np.exp(-u))).astype(float)


# Regressions.


def gaussian(rng, n):
    return _linear(_normal(rng, n), rng.standard_normal(n))


def outliers(rng, n):
    X, y = gaussian(rng, n)
    return np.column_stack([X, np.ones(n)]), y + 10 * (rng.random(n) < 0.01)


def heteroscedastic(rng, n):
    X = _normal(rng, n)
    return _linear(X, rng.standard_normal(n) * (0.2 + X[:, 0] ** 2))


def correlated_copies(rng, n):
    X = _normal(rng, n, 4)
    return _linear(np.column_stack([X, X[:, 3] + 0.3 * rng.standard_normal(n)]), rng.standard_normal(n))


def beta_edge(rng, n):
    X = rng.beta(0.3, 3.0, (n, 4)) / 0.2
    return np.column_stack([X - 0.45, np.ones(n)]), np.sqrt(X[:, 0]) + 0.5 * rng.standard_normal(n)


def mixture_scale(rng, n):
    scale = np.where(rng.random((n, 1)) < 0.05, 4.0, 1.0)
    X = scale * _normal(rng, n)
    return X, np.tanh(X[:, 0]) + 0.5 * rng.standard_normal(n)


# Means.


def rare(p):
    return lambda rng, n: ((rng.random((n, 2)) < p).astype(float), None)


def one_column(draw):
    return lambda rng, n: (draw(rng, (n, 2)), None)


def normal_mean(rng, n):
    return np.linspace(-0.5, 0.5, 5) + _normal(rng, n), None


# Generalized linear models.


def logistic(rng, n):
    return _logistic(rng, _normal(rng, n))


def logistic_skewed(rng, n):
    return _logistic(rng, rng.standard_exponential((n, 3)) - 1, -1.0)


def counts_skewed(rng, n):
    X = np.column_stack([rng.standard_exponential((n, 3)) - 1, np.ones(n)])
    u = 0.4 * X[:, 0] - 0.2 * X[:, 1] + 0.2
    return X, rng.poisson(np.exp(u) * rng.gamma(1.0, 1.0, n)).astype(float)


# Local reports.


def local_heavy(rng, n):
    X = rng.choice([-1.0, 1.0], (n, 3))
    return X, X @ [0.5, -0.3, 0.2] + 0.5 * rng.standard_t(2.5, n) * (1 + 0.5 * X[:, 0])


def local_outside(rng, n):
    X = rng.standard_normal((n, 3))
    return X, X @ [0.5, -0.3, 0.2] + rng.uniform(-0.5, 0.5, n)


# Users: five rows each, in order.


def users_skewed(rng, n):
    scale = np.repeat(rng.standard_exponential((n, 1)), 5, axis=0)
    X = scale * rng.standard_normal((5 * n, 3))
    return X, X[:, 0] ** 3 / 3 + X[:, 0] + 0.5 * rng.standard_normal(5 * n)


def users_gaussian(rng, n):
    X = rng.standard_normal((5 * n, 3))
    return X, X @ [0.5, -0.5, 0.0] + 0.5 * rng.standard_normal(5 * n)


@dataclass(frozen=True)
class Cell:
    """An estimator on one law: how many rows, or users, at which ε."""

    law_name: str
    law: Law
    estimator: str
    n: int
    epsilon: float
    keywords: dict[str, Any] = field(default_factory=dict)
    per_user: int = 0

    @property
    def name(self) -> str:
        """Return the words for the cell."""
        return f"{self.estimator}, {self.law_name}, n {self.n}, ε {self.epsilon:g}"

    def draw(self, rng: np.random.Generator) -> dpalgos.Result:
        """Return one answer on new rows."""
        X, y = self.law(rng, self.n)
        users = {"user_ids": np.repeat(np.arange(self.n), self.per_user)} if self.per_user else {}
        public = {"public_X": self.law(rng, 20_000)[0]} if self.estimator == "ldp_nldp_public" else {}
        keywords = {"epsilon": self.epsilon, "delta": self.n**-2.0, **self.keywords, **users, **public}
        return dpalgos.estimate(self.estimator, X, y, rng=rng, interval=0.95, **keywords)


@cache
def truth(law: Law, task: str, family: str) -> np.ndarray:
    """Return the population's answer."""
    if isinstance(law, HardShape):
        return law.truth
    rng = np.random.default_rng(12345)
    pieces = [law(rng, _TRUTH_ROWS) for _ in range(_TRUTH_PIECES)]
    if task == "mean":
        return np.mean([X.mean(axis=0) for X, _ in pieces], axis=0)
    if task == "linear_regression":
        gram, cross = (
            sum(X.T @ other(X, y) for X, y in pieces) for other in (lambda X, y: X, lambda X, y: y)
        )
        return np.linalg.solve(gram, cross)
    X, y = (np.concatenate(parts) for parts in zip(*pieces[:4], strict=True))
    return dpalgos.estimate("glm", X, y, rng=rng, family=family).estimate


MEANS: tuple[tuple[str, Law, dict[str, dict[str, Any]]], ...] = (
    (
        "normal",
        normal_mean,
        {
            "dp_mean": {"value_bound": 5.0},
            "box_mean": {"lower": -5.0, "upper": 5.0},
            "karwa_vadhan_mean": {"mean_bound": 2.0, "std_bounds": (1.0, 1.0)},
            "clipped_mean": {"mean_bound": 2.0, "std_bounds": (1.0, 1.0)},
            "coinpress_mean": {"mean_bound": 2.0, "std_bound": 1.0},
        },
    ),
    (
        "log-normal 1.5 beyond the bound",
        hard_means("lognormal"),
        {"dp_mean": {"value_bound": 30.0}, "box_mean": {"lower": 0.0, "upper": 11.8}},
    ),
    (
        "log-normal 1.2",
        one_column(lambda rng, s: np.exp(1.2 * rng.standard_normal(s))),
        {
            "box_mean": {"lower": 0.0, "upper": 20.0},
            "clipped_mean": {"mean_bound": 10.0, "std_bounds": (1.0, 10.0)},
            "coinpress_mean": {"mean_bound": 10.0, "std_bound": 4.0},
            "karwa_vadhan_mean": {"mean_bound": 10.0, "std_bounds": (0.5, 5.0)},
        },
    ),
    (
        "Pareto 2.5",
        hard_means("pareto"),
        {
            "dp_mean": {"value_bound": 10.0},
            "clipped_mean": {"mean_bound": 5.0, "std_bounds": (0.5, 2.0)},
            "coinpress_mean": {"mean_bound": 5.0, "std_bound": 1.5},
        },
    ),
    (
        "Student 3",
        hard_means("student_three"),
        {"dp_mean": {"value_bound": 6.0}, "clipped_mean": {"mean_bound": 5.0, "std_bounds": (0.5, 2.0)}},
    ),
    ("2 % at the cap", hard_means("at_the_cap"), {"box_mean": {"lower": 0.0, "upper": 1.0}}),
    (
        "1 % at 8",
        one_column(lambda rng, s: np.where(rng.random(s) < 0.01, 8.0, rng.standard_normal(s))),
        {"dp_mean": {"value_bound": 5.0}, "clipped_mean": {"mean_bound": 2.0, "std_bounds": (1.0, 1.0)}},
    ),
    (
        "0.1 % at 30",
        hard_means("outliers"),
        {"dp_mean": {"value_bound": 5.0}, "coinpress_mean": {"mean_bound": 2.0, "std_bound": 1.0}},
    ),
    ("uniform within", one_column(lambda rng, s: rng.random(s)), {"box_mean": {"lower": 0.0, "upper": 1.0}}),
    ("binary .3", rare(0.3), {"box_mean": {"lower": 0.0, "upper": 1.0}, "dp_mean": {"value_bound": 1.0}}),
)

_LOGISTIC = {"family": "logistic"}
REGRESSIONS: tuple[tuple[str, Law, tuple[int, ...]], ...] = (
    ("gaussian", gaussian, (2_000, 20_000)),
    ("log-normal, y = 3 log x", hard("lognormal"), (20_000, 100_000)),
    ("exponential, y = z²/2", hard("square"), (2_000, 20_000, 100_000)),
    ("Student 8, cubic", hard("cubic"), (20_000, 100_000)),
    ("zero-inflated", hard("zero_inflated"), (20_000,)),
    ("1 % outliers", outliers, (20_000,)),
    ("0.1 % outliers", hard("outliers"), (20_000,)),
    ("exponential response", hard("growing_errors"), (20_000,)),
    ("heteroscedastic", heteroscedastic, (20_000,)),
    ("rare binary .5 %", hard("rare_column"), (20_000,)),
    ("correlated copies", correlated_copies, (20_000,)),
    ("counts", hard("counts"), (20_000,)),
    ("beta near its edge", beta_edge, (20_000,)),
    ("mixture of scales", mixture_scale, (20_000,)),
    ("dummies", hard("dummies"), (20_000,)),
)
_SKEWED = {"log-normal, y = 3 log x", "exponential, y = z²/2", "Student 8, cubic", "zero-inflated"}
_SKEWED |= {"1 % outliers", "0.1 % outliers", "exponential response", "mixture of scales"}
_BOUNDED = {"covariate_bound": 5.0, "response_bound": 5.0}
_OTHER_REGRESSIONS = ("gaussian", "log-normal, y = 3 log x", "exponential, y = z²/2", "Student 8, cubic")


def _target(name: str) -> dict[str, str]:
    return {"interval_target": "least squares"} if name in _SKEWED else {}


def cells() -> Iterator[Cell]:
    """Yield all cells."""
    for name, law, sizes in REGRESSIONS:
        for n in sizes:
            yield Cell(name, law, "preconditioned_regression", n, 1.0, _target(name))
    name = "log-normal, y = 3 log x"
    yield Cell(name, hard("lognormal"), "preconditioned_regression", 20_000, 3.0, _target(name))
    yield Cell("dummies", hard("dummies"), "preconditioned_regression", 20_000, 3.0)
    for name, law, _ in REGRESSIONS:
        if name in _OTHER_REGRESSIONS:
            bounds = _BOUNDED | _target(name)
            yield Cell(name, law, "adassp", 20_000, 3.0, bounds)
            yield Cell(name, law, "dp_linear_regression", 20_000, 3.0, {**bounds, "coef_bound": 3.0})
    for name, law, estimators in MEANS:
        for estimator, keywords in estimators.items():
            yield Cell(name, law, estimator, 10_000, 1.0, keywords)
    beyond = one_column(lambda rng, s: np.exp(rng.standard_normal(s)))
    for n in (300, 1_000):
        yield Cell("log-normal, 5 % beyond", beyond, "box_mean", n, 1.0, {"lower": 0.0, "upper": 5.18})
    incomes = one_column(lambda rng, s: 0.036 * np.exp(0.7 * rng.standard_normal(s)) * 1000)
    yield Cell("incomes", incomes, "dp_mean", 10_000, 1.0, {"value_bound": 150.0})
    for p, n in ((0.001, 50_000), (0.01, 10_000)):
        keywords = {"mean_bound": 1.0, "std_bounds": (0.01, 1.0)}
        yield Cell(
            f"binary {p:g}",
            rare(p) if p == 0.01 else hard_means("rare"),
            "karwa_vadhan_mean",
            n,
            1.0,
            keywords,
        )
    for name, law in (
        ("normal rows", logistic),
        ("2–3 % events", HardShape(hard_events, 4)),
        ("skewed rows", logistic_skewed),
    ):
        for estimator in ("preconditioned_glm", "objective_perturbation_glm", "dp_glm"):
            own = {} if estimator == "preconditioned_glm" else {"covariate_bound": 5.0}
            if estimator == "dp_glm":
                own |= {"n_iterations": 6, "step_size": 1.0}
            yield Cell(name, law, estimator, 20_000, 1.0, {**_LOGISTIC, **own})
    counts = {"family": "poisson", "interval_target": "least squares"}
    yield Cell("skewed counts", counts_skewed, "preconditioned_glm", 20_000, 1.0, counts)
    local = {"covariate_bound": 1.0, "response_bound": 2.0, "mechanism": "gaussian"}
    for name, law in (("t₂.₅ errors beyond τ₂", local_heavy), ("rows beyond τ₁", local_outside)):
        yield Cell(name, law, "ldp_nldp_public", 200_000, 4.0, local)
    users = {"loss": "squared", "aggregation": "clipped", "gradient_bound": 4.0, "concentration_radius": 1.0}
    users |= {"curvature_bound": 4.0, "radius": 1.5, "n_iterations": 2, "step_size": 0.7}
    for name, law in (("skewed users", users_skewed), ("normal users", users_gaussian)):
        yield Cell(name, law, "user_level_regression", 1_000, 1.0, users, 5)


def measured(cell: Cell, repetitions: int, seed: int = 0) -> dict[str, Any]:
    """Return coverage among unflagged coordinates with its standard error, flagged share, and width."""
    task = dpalgos.get_estimator(cell.estimator).task
    target = truth(cell.law, task, str(cell.keywords.get("family", "")))
    lower, upper = np.stack(
        [cell.draw(rng).interval for rng in np.random.default_rng(seed).spawn(repetitions)], axis=1
    )
    there = np.isfinite(lower)
    hits = (lower <= target) & (target <= upper) & there
    count = int(there.sum())
    rate = float(hits.sum() / count) if count else float("nan")
    # Coordinates of one repetition are not independent: repetitions are what is counted.
    per_run = there.sum(axis=1)
    spread = np.sqrt(((hits.sum(axis=1) - rate * per_run) ** 2).sum()) / count if count else float("nan")
    spread = max(spread, np.sqrt(0.94 * 0.06 / count)) if count else spread
    width = float(np.median((upper - lower)[there])) if count else float("nan")
    return {
        "cell": cell.name,
        "covered": rate,
        "se": float(spread),
        "flagged": float(1 - there.mean()),
        "width": width,
        "fails": bool(count and rate < 0.94 - 2 * spread),
    }


def main() -> None:
    """Measure all cells, or those whose name contains a text, and write them down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=50)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--facts", type=Path, help="what the documentation quotes, as JSON")
    asked = parser.parse_args()
    rows = []
    for cell in cells():
        if asked.only in cell.name:
            rows.append(measured(cell, asked.repetitions, asked.seed))
            row = rows[-1]
            verdict = "FAILS" if row["fails"] else "     "
            covered = f"{100 * row['covered']:5.1f} ± {100 * row['se']:4.1f}"
            flagged = f"flagged {100 * row['flagged']:3.0f} %, width {row['width']:.3g}"
            print(verdict, covered, flagged, row["cell"], sep="  ", flush=True)
    if asked.out:
        asked.out.write_text(json.dumps(rows, indent=1))
    if asked.facts:
        short = sum(row["fails"] for row in rows)
        told = {"shapes": len(rows), "repetitions": asked.repetitions, "short": short}
        write_facts(asked.facts, {f"interval_shapes/{name}": str(value) for name, value in told.items()})


if __name__ == "__main__":
    main()
