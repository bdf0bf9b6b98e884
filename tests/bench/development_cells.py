"""Development cells of the own estimator: tables, sizes and budgets on which its constants were chosen.

The rule for the cells was written before the first fit. Tables: those of the league on which estimators may
be tuned, housing, elevators and kin40k, and synthetic ones of 20,000 rows. A table is the population. A cell
draws n rows without replacement, fits, and is judged on the whole table. Groups of cells:

| group | rows | ε | what |
|---|---|---|---|
| today | half, at most 10,000 | 0.3, 1, 3 | the table as declared |
| few | nμ/√(d + 1) = 7, 14, 28, 50 | 0.3 or 1 | as declared; every size that half of the rows allow |
| crude | half, at most 5,000; 50 | 1 | columns shifted and scaled by 10^±3; bounds ×10 to ×1,000 |
| none | 14, 50; half, at most 5,000 | 1 | the response is permuted |
| narrow | 14, 28, 50, 200 | 0.3 or 1 | linear tables whose response fills 2, 5 or 10% of its bounds |
| synthetic | 7, 14, 28, 50, 300; half | 0.3 or 1 | leverage (t of 2 degrees), skew, rare categories |
| large | half, at most 5,000 | 10, 100, 1,000 | as declared, and synthetic |

The error is the excess loss over that of the best coefficients, over what the columns explain. If they
explain less than a quarter of the loss, they count as if they explained that. A mean error below 0.002
counts as 0.002. A cell is above the private constant if the mean error exceeds 1.05 times that of the
constant by two standard errors.

A part stays in the estimator if leaving it out costs 3% in the mean of any group, or makes a cell 1.5 times
worse: :mod:`tests.bench.ablation` measures that.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy

import dpalgos
from data.collections.league import GROUPS, declarations, developed_on
from data.datasets import load
from data.fetch.raw import fetch
from data.store.folders import home, mirror_from_environment
from dpalgos.accounting.gaussian_dp import gaussian_mu
from tests.bench.unseen import prepared_table

FAMILIES = {"linear": "gaussian", "logistic": "logistic", "counts": "poisson"}
SMALLEST, LEAST_EXPLAINED, ABOVE, N_SYNTHETIC = 0.002, 0.25, 1.05, 20_000
UCI = "elevators", "kin40k"
SHAPES = "leverage", "skew", "rare"


class Table(NamedTuple):
    """Rows in public units; the last column is the constant. ``group`` is linear, logistic or counts."""

    X: np.ndarray
    y: np.ndarray
    group: str


@dataclass(frozen=True, kw_only=True)
class DevelopmentCell:
    """A cell; ``size`` is nμ/√(d + 1), or infinite for half of the rows, at most ``most``."""

    group: str
    table: str
    change: str
    epsilon: float
    size: float
    repetitions: int
    most: int = 5000

    @property
    def name(self) -> str:
        return f"{self.group}/{self.table}/{self.change}/{self.size:g}/{self.epsilon:g}"


def digest(name: str) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)


# Tables.


def table_names() -> list[str]:
    league = [name for name, about in declarations().items() if developed_on(name) and "rows" in about]
    return [*league, "housing", *UCI]


def synthetic_names() -> list[str]:
    return [f"{shape} {group}" for shape in SHAPES for group in FAMILIES]


@cache
def table(name: str) -> Table:
    if name in synthetic_names():
        return synthetic(*name.split())
    if name in UCI or name == "housing":
        return rounded(name)
    about = declarations()[name]
    _, prepared = prepared_table(name, about)
    return Table(prepared.X, prepared.y, GROUPS[about.get("family", "")])


def rounded(name: str) -> Table:
    """Return a table in units with one significant digit, as a person would declare them."""
    module = load("housing" if name == "housing" else f"wang2018_{name}")
    raw = fetch(module.DATASET, home=home(), mirror=mirror_from_environment(), offline=False)
    values = np.asarray(module.PARSERS[raw.layout](Path(raw.path)), dtype=float)
    values = values[np.random.default_rng(0).permutation(len(values))[:N_SYNTHETIC]]
    kept: list[np.ndarray] = []
    for column in (*values[:, :-1].T, values[:, -1]):
        center, scale = (float(f"{number:.0e}") for number in (column.mean(), column.std()))
        z = (column - center) / scale if scale else np.zeros_like(column)
        basis = np.column_stack([*kept, np.ones(len(z))])
        residual = z - basis @ np.linalg.lstsq(basis, z, rcond=None)[0]
        if residual.var() > 0.001:  # neither constant nor nearly collinear
            kept.append(z)
    return Table(np.column_stack([*kept[:-1], np.ones(len(values))]), kept[-1], "linear")


def synthetic(shape: str, group: str) -> Table:
    """Return a synthetic table of 8 columns, with errors of the same shape."""
    rng = np.random.default_rng(digest(shape + group))
    n, d = N_SYNTHETIC, 8
    if shape == "leverage":
        X, errors = np.clip(rng.standard_t(2, (n, d)), -50, 50), rng.standard_t(3, n)
    elif shape == "skew":
        X, errors = np.exp(rng.normal(size=(n, d))) - 1, np.exp(rng.normal(size=n))
    else:
        X, errors = 2.0 * (rng.random((n, d)) < np.geomspace(0.02, 0.4, d)) - 1, rng.normal(size=n)
    signal = np.clip(X, -6, 6) @ rng.normal(size=d)
    signal = (signal - signal.mean()) / signal.std()
    X = np.column_stack([X, np.ones(n)])
    if group == "linear":
        y = np.sqrt(0.3) * signal + np.sqrt(0.7) * (errors - errors.mean()) / errors.std()
        return Table(X, np.clip(y, -20, 20), group)
    if group == "logistic":
        return Table(X, (rng.random(n) < scipy.special.expit(1.2 * signal - 1)) * 1.0, group)
    noise = {"leverage": 0.5, "skew": 1.0, "rare": 0.0}[shape] * rng.normal(size=n)
    return Table(X, rng.poisson(np.exp(np.clip(0.5 * signal + noise, -4, 4))).astype(float), group)


def changed(name: str, change: str) -> Table:
    """Return a table in other units, without signal, or with a narrow response."""
    X, y, group = table(name)
    rng, linear = np.random.default_rng(digest(name)), group == "linear"
    what, _, number = change.partition(" ")
    if what == "units":
        d = X.shape[1] - 1
        Z = (X[:, :-1] + 10 * rng.choice([-1, 1], d)) * 10.0 ** rng.choice([-3, 0, 3], d)
        return Table(np.column_stack([Z, X[:, -1]]), y, group)
    if what == "bounds":
        wide = np.append(np.full(X.shape[1] - 1, float(number)), 1.0)
        return Table(X / wide, y / float(number) if linear else y, group)
    if what == "permuted":
        return Table(X, rng.permutation(y), group)
    if what == "narrow":  # the standard deviation of a response that fills its bounds is about 0.7
        return Table(X, 0.7 * float(number) * (y - y.mean()) / y.std() + rng.uniform(-1, 1), group)
    return Table(X, y, group)


# Cells.


def n_rows(cell: DevelopmentCell, n_table: int, d: int) -> int | None:
    """Return the rows of a cell; None if half of the table has not as many."""
    half = n_table // 2
    if np.isinf(cell.size):
        return min(half, cell.most)
    wanted = cell.size * np.sqrt(d + 1)

    def excess(log_n: float) -> float:
        return float(np.exp(log_n)) * gaussian_mu(cell.epsilon, float(np.exp(-2 * log_n))) - wanted

    if excess(np.log(half)) < 0:
        return None
    return int(np.exp(scipy.optimize.brentq(excess, np.log(8), np.log(half))))


def cells() -> Iterator[DevelopmentCell]:
    """Yield all cells in order."""
    for name in (*table_names(), *synthetic_names()):
        place, is_real = digest(name), name in table_names()
        sizes = (7.0, 14.0, 28.0, 50.0)
        for epsilon in (0.3, 1.0, 3.0) if is_real else ():
            yield DevelopmentCell(
                group="today", table=name, change="", epsilon=epsilon, size=np.inf, repetitions=5, most=10_000
            )
        for k, size in enumerate(sizes if is_real else (*sizes, 300.0, np.inf)):
            yield DevelopmentCell(
                group="few" if is_real else "synthetic",
                table=name,
                change="",
                epsilon=(0.3, 1.0)[(place + k) % 2],
                size=size,
                repetitions=30 if size <= 50 else 6,
            )
        wide = f"bounds {10 ** (1 + place % 3)}"
        for change, size in (("units", np.inf), ("units", 50.0), (wide, np.inf), ("bounds 10", 50.0)):
            repetitions = 4 if np.isinf(size) else 12
            yield DevelopmentCell(
                group="crude", table=name, change=change, epsilon=1.0, size=size, repetitions=repetitions
            )
        for size in (14.0, 50.0, np.inf):
            repetitions = 4 if np.isinf(size) else 24
            yield DevelopmentCell(
                group="none", table=name, change="permuted", epsilon=1.0, size=size, repetitions=repetitions
            )
        for k, size in enumerate((14.0, 28.0, 50.0, 200.0)):
            part = (0.02, 0.05, 0.1)[(place + k) % 3]
            epsilon = (0.3, 1.0)[(place // 3 + k) % 2]
            yield DevelopmentCell(
                group="narrow",
                table=name,
                change=f"narrow {part:g}",
                epsilon=epsilon,
                size=size,
                repetitions=24,
            )
        for epsilon in (10.0, 100.0, 1000.0):
            yield DevelopmentCell(
                group="large", table=name, change="", epsilon=epsilon, size=np.inf, repetitions=6
            )


def chosen_cells(only: str = "") -> list[DevelopmentCell]:
    named = [cell for cell in cells() if only in cell.name]
    return [cell for cell in named if cell.group != "narrow" or table(cell.table).group == "linear"]


# Errors.


def loss_of(X: np.ndarray, y: np.ndarray, group: str, coef: np.ndarray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        u = X @ coef
        if group == "linear":
            found = np.mean((y - u) ** 2) / 2
        elif group == "logistic":
            found = np.mean(np.logaddexp(0, u) - y * u)
        else:
            found = np.mean(np.exp(u) - y * u)
    return float(np.nan_to_num(found, nan=1e30, posinf=1e30))


def best_of(X: np.ndarray, y: np.ndarray, group: str) -> np.ndarray:
    """Return least squares' or the maximum likelihood coefficients."""
    units = np.maximum(np.abs(X).max(axis=0), 1e-300)
    Z = X / units
    if group == "linear":
        return np.linalg.lstsq(Z, y, rcond=None)[0] / units
    inverse = scipy.special.expit if group == "logistic" else np.exp
    coef = np.linalg.lstsq(Z, np.ones(len(y)), rcond=None)[0]
    mean = float(np.clip(y.mean(), 1e-3, None))
    coef *= np.log(mean / (1 - mean)) if group == "logistic" else np.log(mean)
    for _ in range(50):
        m = inverse(Z @ coef)
        weight = m * (1 - m) if group == "logistic" else m
        H = (Z * weight[:, None]).T @ Z + 1e-9 * len(y) * np.eye(Z.shape[1])
        step, now = np.linalg.solve(H, Z.T @ (y - m)), loss_of(Z, y, group, coef)
        while loss_of(Z, y, group, coef + step) > now + 1e-12 * abs(now) and np.abs(step).max() > 1e-9:
            step /= 2
        coef = coef + step
        if np.abs(step).max() < 1e-8:
            break
    return coef / units


class Judge:
    """Measures errors on a whole table."""

    def __init__(self, judged: Table) -> None:
        self.table = judged
        X, y, group = judged
        self.least = loss_of(*judged, best_of(X, y, group))
        mean, constant = float(y.mean()), np.zeros(X.shape[1])
        constant[-1] = {"linear": mean, "logistic": scipy.special.logit(mean), "counts": np.log(mean)}[group]
        whole = loss_of(*judged, constant)
        spread = whole
        if group == "counts":  # half of the deviance of the constant
            spread += float(np.mean(scipy.special.xlogy(y, y) - y))
        self.scale = max(whole - self.least, LEAST_EXPLAINED * spread)

    def error(self, coef: np.ndarray) -> float:
        return max((loss_of(*self.table, coef) - self.least) / self.scale, 0.0)


class Errors(NamedTuple):
    own: np.ndarray
    constant: np.ndarray  # empty for groups with large ε

    @property
    def mean(self) -> float:
        return max(float(self.own.mean()), SMALLEST)

    @property
    def is_above(self) -> bool:
        """Whether the error exceeds 1.05 times that of the private constant by two standard errors."""
        limit = ABOVE - 1
        excess = self.own - self.constant - limit * np.maximum(self.constant, 1.0)
        return bool(excess.mean() > 2 * excess.std(ddof=1) / np.sqrt(len(excess)))


@cache
def judge_of(name: str, change: str) -> Judge:
    return Judge(changed(name, change))


def measured(cell: DevelopmentCell) -> Errors | None:
    """Return the errors of a cell; None if its table is too short."""
    judge = judge_of(cell.table, cell.change)
    X, y, group = judge.table
    n = n_rows(cell, len(y), X.shape[1])
    if n is None:
        return None
    found: tuple[list[float], list[float]] = ([], [])
    for seed in range(cell.repetitions):
        rows = np.random.default_rng([seed, digest(cell.table), n]).permutation(len(y))[:n]
        budget: dict[str, Any] = {"epsilon": cell.epsilon, "delta": n**-2.0, "family": FAMILIES[group]}
        for k, (estimator, more) in enumerate(
            (("preconditioned_glm", {"intercept": True}), ("private_constant", {}))
        ):
            rng = np.random.default_rng([seed, digest(cell.name)])
            if k and cell.group == "large":
                continue
            fit = dpalgos.estimate(estimator, X[rows], y[rows], rng=rng, **budget, **more)
            found[k].append(judge.error(fit.estimate))
    return Errors(*(np.array(each) for each in found))


def means_by_group(ratios: Mapping[str, float]) -> dict[str, float]:
    """Return the geometric mean of the ratios of cells, by group of cells."""
    logs: dict[str, list[float]] = {}
    for name, ratio in ratios.items():
        logs.setdefault(name.split("/")[0], []).append(np.log(ratio))
    return {group: float(np.exp(np.mean(each))) for group, each in logs.items()}


def names_above(found: Mapping[str, Errors]) -> list[str]:
    """Return the cells above the private constant."""
    return [name for name, errors in found.items() if len(errors.constant) and errors.is_above]


def measured_cells(only: str = "") -> dict[str, Errors]:
    found = {cell.name: measured(cell) for cell in chosen_cells(only)}
    return {name: errors for name, errors in found.items() if errors is not None}
