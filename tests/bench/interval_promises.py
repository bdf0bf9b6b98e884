"""What intervals promise and what they cost, per estimator: the table of the guide, from measurements.

``python -m tests.bench.interval_promises --repetitions 200 --out docs/intervals.csv`` writes it. Half-widths
are over 1.96 times the plain answer's root mean squared error at the same ε; so is the error of the answer
with an interval.
"""

import argparse
import csv
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dpalgos

COEF = np.array([0.5, -0.5, 0.25, 0.0, 0.3])
COLUMNS = "estimator,covers,rows,n,ε,slopes %,intercept %,no interval %,half-width,error,runs"
MEAN = "mean"

Drawn = tuple[np.ndarray, np.ndarray | None, np.ndarray]
Law = Callable[[np.random.Generator, int], Drawn]


def _means(rng: np.random.Generator, n: int) -> Drawn:
    return COEF + rng.standard_normal((n, len(COEF))), None, COEF


def _linear(X: np.ndarray, coef: np.ndarray, error: np.ndarray) -> Drawn:
    return X, X @ coef + error, coef


def _with_one(X: np.ndarray) -> np.ndarray:
    return np.column_stack([X, np.ones(len(X))])


def normal(rng, n, spread=0.7):
    return _linear(_with_one(rng.standard_normal((n, 4))), COEF, spread * rng.standard_normal(n))


def uniform(d):
    coef = np.linspace(1, -1, d) / np.sqrt(d)
    return lambda rng, n: _linear(rng.uniform(-1, 1, (n, d)), coef, 0.5 * rng.standard_normal(n))


def rare_column(rng, n):
    X = rng.standard_normal((n, 4))
    X[:, 3] = rng.random(n) < 0.02
    return _linear(_with_one(X), np.array([0.5, -0.5, 0.25, 0.5, 0.3]), 0.7 * rng.standard_normal(n))


def costs(rng, n):
    columns = [rng.uniform(18, 64, n) / 14 - 40 / 14, rng.integers(0, 2, n), rng.standard_normal(n)]
    columns += [np.minimum(rng.poisson(1.1, n), 5) / 2, rng.random(n) < 0.2, rng.random(n) < 0.25]
    coef = np.array([0.48, -0.07, 0.08, 0.2, 1.55, -0.12, -0.3])
    return _linear(_with_one(np.column_stack(columns)), coef, 0.44 * rng.standard_normal(n))


def log_normal_errors(rng, n):
    error = 0.7 * (np.exp(rng.standard_normal(n)) - np.exp(0.5)) / 2.16
    return _linear(_with_one(rng.standard_normal((n, 4))), COEF, error)


def gross_errors(share):
    def law(rng, n):
        X, y, coef = normal(rng, n)
        return X, y + 30 * (rng.random(n) < share), coef + share * 30 * np.eye(len(coef))[-1]

    return law


def leverage(share):
    """Rows of 15 times the length with responses of another line: least squares follows them."""
    slopes = COEF[:-1] * (1 - share + 15 * share) / (1 - share + 15**2 * share)
    truth = np.append(slopes, COEF[-1] + 8 * share)

    def law(rng, n):
        X, y, _ = normal(rng, n)
        far = rng.random(n) < share
        X[far, :-1] *= 15
        return X, y + 8 * far, truth

    return law


def events(intercept):
    def law(rng, n):
        coef = np.append(0.6 * np.linspace(1, -1, 4), intercept)
        X = _with_one(rng.standard_normal((n, 4)))
        return X, (rng.random(n) < 1 / (1 + np.exp(-X @ coef))).astype(float), coef

    return law


LAWS: dict[str, Law] = {
    "normal": normal,
    "uniform, 3 columns": uniform(3),
    "uniform, 8 columns": uniform(8),
    "a column 1 in 2% of rows": rare_column,
    "medical costs, simulated": costs,
    "log-normal errors": log_normal_errors,
    "0.1% of y at +30": gross_errors(0.001),
    "0.2% of y at +30": gross_errors(0.002),
    "0.3% of 15-fold rows, y + 8": leverage(0.003),
    "half events": events(0.0),
    "4% events": events(-3.6),
}
Case = tuple[str, str, str, int, float, dict[str, Any]]
CASES: list[Case] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["cases"]


def measured(case: Case, repetitions: int) -> dict[str, str]:
    name, covers, words, n, epsilon, keywords = case
    law = _means if covers == MEAN else LAWS[words]
    plain, told, ends = [], [], []
    for rng in np.random.default_rng(2026).spawn(repetitions):
        X, y, truth = law(rng, n)
        asked = {"epsilon": epsilon, "delta": n**-2.0, "rng": rng, **keywords}
        without = {key: value for key, value in asked.items() if key != "interval_target"}
        plain.append(dpalgos.estimate(name, X, y, **without).estimate - truth)
        result = dpalgos.estimate(name, X, y, interval=0.95, **asked)
        told.append(result.estimate - truth)
        ends.append(result.interval - truth)
    lower, upper = np.stack(ends, axis=1)
    there = np.isfinite(lower)
    hits = (lower <= 0) & (upper >= 0) & there
    size = np.sqrt(np.mean(np.square(plain), axis=0))
    has_intercept = covers != MEAN and "uniform" not in words
    slopes = slice(None, -1) if has_intercept else slice(None)

    def percent(part: slice) -> str:
        n_intervals = there[:, part].sum()
        return f"{100 * hits[:, part].sum() / n_intervals:.1f}" if n_intervals else "–"

    cells = (
        f"`{name}`",
        covers,
        words,
        f"{n:,}",
        f"{epsilon:g}",
        percent(slopes),
        percent(slice(-1, None)) if has_intercept else "–",
        f"{100 * (1 - there.mean()):.1f}",
        f"{np.nanmean((upper - lower) / 2 / (1.96 * size)):.2f}" if there.any() else "–",
        f"{np.sqrt(np.mean(np.square(told)) / np.mean(np.square(plain))):.2f}",
        str(repetitions),
    )
    return dict(zip(COLUMNS.split(","), cells, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    with asked.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS.split(","), lineterminator="\n")
        writer.writeheader()
        for case in CASES:
            row = measured(case, asked.repetitions)
            writer.writerow(row)
            print(*row.values(), sep="  ", flush=True)


if __name__ == "__main__":
    main()
