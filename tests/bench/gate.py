"""The gate of the own estimator: errors by cell, over those of version 4.0, on development tables only.

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
explain less than a quarter of the loss, they count as if they explained that. Three numbers judge a change:

- the geometric mean of error over error of 4.0 on the cells of today;
- the worst ratio of all cells. Errors below 0.002 count as that;
- cells above the private constant: the mean error exceeds 1.05 times that of the constant by two standard
  errors.

``python -m tests.bench.gate`` measures all cells, ``quick`` a quarter of them. ``keep`` stores a full run in
``gate.csv`` as that of a version; it is for a release. A part stays in the estimator if leaving it out costs
3% in the mean of any group, or makes a cell 1.5 times worse.
"""

import csv
import hashlib
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
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
from tests.bench.goals import Measurement, at_most
from tests.bench.unseen import prepared_table

STORED = Path(__file__).with_suffix(".csv")
FAMILIES = {"linear": "gaussian", "logistic": "logistic", "counts": "poisson"}
SMALLEST, LEAST_EXPLAINED, ABOVE, N_SYNTHETIC = 0.002, 0.25, 1.05, 20_000
QUICK = 4  # a quick run has every fourth cell of a group, in the order of digests
UCI = "elevators", "kin40k"
SHAPES = "leverage", "skew", "rare"


class Table(NamedTuple):
    """Rows in public units; the last column is the constant. ``group`` is linear, logistic or counts."""

    X: np.ndarray
    y: np.ndarray
    group: str


@dataclass(frozen=True, kw_only=True)
class GateCell:
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


def n_rows(cell: GateCell, n_table: int, d: int) -> int | None:
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


def cells() -> Iterator[GateCell]:
    """Yield all cells in order."""
    for name in (*table_names(), *synthetic_names()):
        place, is_real = digest(name), name in table_names()
        sizes = (7.0, 14.0, 28.0, 50.0)
        for epsilon in (0.3, 1.0, 3.0) if is_real else ():
            yield GateCell(
                group="today", table=name, change="", epsilon=epsilon, size=np.inf, repetitions=5, most=10_000
            )
        for k, size in enumerate(sizes if is_real else (*sizes, 300.0, np.inf)):
            yield GateCell(
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
            yield GateCell(
                group="crude", table=name, change=change, epsilon=1.0, size=size, repetitions=repetitions
            )
        for size in (14.0, 50.0, np.inf):
            repetitions = 4 if np.isinf(size) else 24
            yield GateCell(
                group="none", table=name, change="permuted", epsilon=1.0, size=size, repetitions=repetitions
            )
        for k, size in enumerate((14.0, 28.0, 50.0, 200.0)):
            part = (0.02, 0.05, 0.1)[(place + k) % 3]
            epsilon = (0.3, 1.0)[(place // 3 + k) % 2]
            yield GateCell(
                group="narrow",
                table=name,
                change=f"narrow {part:g}",
                epsilon=epsilon,
                size=size,
                repetitions=24,
            )
        for epsilon in (10.0, 100.0, 1000.0):
            yield GateCell(group="large", table=name, change="", epsilon=epsilon, size=np.inf, repetitions=6)


def chosen_cells(*, quick: bool, only: str = "") -> list[GateCell]:
    named = [cell for cell in cells() if only in cell.name]
    kept = [cell for cell in named if cell.group != "narrow" or table(cell.table).group == "linear"]
    if not quick:
        return kept
    order = sorted(kept, key=lambda cell: (cell.group, digest(cell.name)))
    return order[::QUICK]


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


# Strong and weak signals of few normal rows: n, d, ε, δ, R², and the largest error.
SIGNALS = (
    (300, 1, 0.5, 1e-6, 0.8, 0.5),
    (800, 8, 0.3, 800.0**-2, 0.4, 0.9),
    (500, 6, 0.5, 500.0**-2, 0.5, 0.45),
    (300, 1, 0.5, 1e-6, 0.03, 1.05),
    (500, 6, 0.5, 500.0**-2, 0.03, 1.05),
    (1000, 4, 0.1, 1e-6, 0.03, 1.05),
)
N_SIGNALS = 40


def signal_errors(n: int, d: int, epsilon: float, delta: float, explained: float) -> np.ndarray:
    """Return mean squared errors of prediction over the variance of the response, (40,)."""
    errors = []
    for seed in range(N_SIGNALS):
        rng = np.random.default_rng(100 + seed)
        slopes = rng.normal(size=d)
        slopes *= np.sqrt(explained) / np.linalg.norm(slopes)
        Z = rng.normal(size=(n, d))
        y = Z @ slopes + np.sqrt(1 - explained) * rng.normal(size=n) + 0.3
        X = np.column_stack([Z + 0.3, np.ones(n)])
        budget = {"epsilon": epsilon, "delta": delta, "family": "gaussian", "intercept": True}
        fit = dpalgos.estimate("preconditioned_glm", X, y, rng=np.random.default_rng(seed), **budget)
        missed = fit.estimate[:-1] - slopes
        center = fit.estimate[-1] + 0.3 * fit.estimate[:-1].sum() - 0.3
        errors.append(missed @ missed + center**2 + 1 - explained)
    return np.array(errors)


class Errors(NamedTuple):
    own: np.ndarray
    constant: np.ndarray
    nonprivate: np.ndarray  # of groups with large ε, else empty

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


def measured(cell: GateCell) -> Errors | None:
    """Return the errors of a cell; None if its table is too short."""
    judge = judge_of(cell.table, cell.change)
    X, y, group = judge.table
    n = n_rows(cell, len(y), X.shape[1])
    if n is None:
        return None
    found: list[list[float]] = [[], [], []]
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
        if cell.group == "large":
            found[2].append(judge.error(best_of(X[rows], y[rows], group)))
    return Errors(*(np.array(each) for each in found))


# Figures.


def stored() -> dict[str, float]:
    """Return the errors of version 4.0 by cell."""
    with STORED.open(encoding="utf-8", newline="") as file:
        return {row["cell"]: float(row["error"]) for row in csv.DictReader(file)}


def means_by_group(ratios: Mapping[str, float]) -> dict[str, float]:
    """Return the geometric mean of the ratios of cells, by group of cells."""
    logs: dict[str, list[float]] = {}
    for name, ratio in ratios.items():
        logs.setdefault(name.split("/")[0], []).append(np.log(ratio))
    return {group: float(np.exp(np.mean(each))) for group, each in logs.items()}


def names_above(found: Mapping[str, Errors]) -> list[str]:
    """Return the cells above the private constant."""
    return [name for name, errors in found.items() if len(errors.constant) and errors.is_above]


def facts_of(found: dict[str, Errors], before: dict[str, float]) -> dict[str, str]:
    """Return the three numbers, means by group, the worst cells, and what is above a limit."""
    ratios = {name: errors.mean / before[name] for name, errors in found.items() if name in before}
    facts = {f"mean/{group}": f"{ratio:.3f}" for group, ratio in means_by_group(ratios).items()}
    for name in sorted(ratios, key=ratios.__getitem__, reverse=True)[:8]:
        facts[f"worst/{name}"] = f"{ratios[name]:.2f}: {found[name].mean:.3g} for {before[name]:.3g}"
    above = names_above(found)
    facts["above the constant"] = f"{len(above)} of {len(found)}"
    for name in above:
        errors = found[name]
        facts[f"above/{name}"] = f"{errors.own.mean():.3g} for {errors.constant.mean():.3g}"
    for low, high in pairwise((10, 100, 1000)):
        for name, errors in found.items():
            lower = (
                found.get(name.removesuffix(f"/{high}") + f"/{low}") if name.endswith(f"/{high}") else None
            )
            if lower and len(errors.nonprivate):
                rise = errors.own - 1.1 * lower.own
                if rise.mean() > 3 * rise.std(ddof=1) / np.sqrt(len(rise)):
                    facts[f"rises/{name}"] = f"{errors.own.mean():.3g} for {lower.own.mean():.3g}"
    for name, errors in found.items():
        if len(errors.nonprivate):
            own, best = errors.own.mean(), errors.nonprivate.mean()
            facts[f"floor/{name}"] = f"{own / max(best, 1e-12):.2f}: {own:.3g} for {best:.3g}"
    return facts


def signal_facts() -> dict[str, str]:
    facts = {}
    for n, d, epsilon, delta, explained, limit in SIGNALS:
        errors = signal_errors(n, d, epsilon, delta, explained)
        facts[f"signal/{n} × {d}, ε {epsilon:g}, R² {explained:g}"] = f"{errors.mean():.2f}, limit {limit:g}"
    return facts


def measured_cells(*, quick: bool, only: str = "") -> dict[str, Errors]:
    found = {cell.name: measured(cell) for cell in chosen_cells(quick=quick, only=only)}
    return {name: errors for name, errors in found.items() if errors is not None}


def bench_gate(small: bool = False) -> Measurement:
    """Measure all cells; the smallest size is two cells of one table of scikit-learn."""
    names = ("today/progression//inf/1", "few/progression//14/") if small else ("",)
    found: dict[str, Errors] = {}
    for name in names:
        found |= measured_cells(quick=False, only=name)
    facts, before = facts_of(found, stored()), stored()
    today = [found[name].mean / before[name] for name in found if name.startswith("today") and name in before]
    return Measurement(
        figure=f"{len(found)} cells",
        goals=[at_most(1.0, "×", "error on the cells of today", float(np.exp(np.mean(np.log(today)))))],
        data="development tables",
        facts=facts,
    )


def main(words: list[str]) -> None:
    warnings.simplefilter("ignore")
    quick = "quick" in words
    only = next((word for word in words if word not in ("quick", "keep")), "")
    found = measured_cells(quick=quick, only=only)
    if "keep" in words:
        with STORED.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["cell", "error"])
            writer.writerows([name, f"{errors.mean:.4g}"] for name, errors in found.items())
    facts = facts_of(found, stored() if STORED.exists() else {})
    for what, fact in (facts | (signal_facts() if "signal".startswith(only) else {})).items():
        print(f"{what:60s} {fact}")


if __name__ == "__main__":
    main(sys.argv[1:])
