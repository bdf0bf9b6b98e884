"""A chart of each estimator's error against n, on simulated rows, with the keywords of its example."""

from __future__ import annotations

from functools import cache

import altair as alt
import numpy as np
import pandas as pd
import vl_convert

import dpalgos
from dpalgos.catalog import Estimator

SIZES = (500, 1000, 2000, 4000, 8000)
EPSILONS = (0.5, 2.0)
DELTA, REPLICATES = 1e-6, 10
COEF = np.array([1.0, -0.5, 0.25])
CAPTION = (
    f"ℓ2 distance to the true value, median of {REPLICATES} repetitions: rows uniform in three columns, "
    "keywords as in the example of the API reference (sparse ones keep one or two of three columns), "
    f"δ = {DELTA:g}. It shows a shape; for real tables see :doc:`/guide/choosing`."
)


def error_chart(entry: Estimator) -> str:
    rows = [(n, "without privacy", error) for n, error in _open_errors(entry.task == "mean")]
    rows += [(n, "zero", float(np.linalg.norm(_truth(entry.task == "mean")))) for n in SIZES]
    for epsilon in EPSILONS if entry.private else (None,):
        label = entry.name if epsilon is None else f"{entry.name}, ε = {epsilon:g}"
        rows += [(n, label, _error(entry, n, epsilon)) for n in SIZES]
    table = pd.DataFrame(rows, columns=["rows n", "answer", "error"]).dropna()
    order = list(dict.fromkeys(table.answer))
    color = alt.Color(
        "answer", sort=order, scale=alt.Scale(range=["#555555", "#bbbbbb", "#d55e00", "#0072b2"])
    )
    chart = (
        alt.Chart(table)
        .mark_line(point=True)
        .encode(
            alt.X("rows n", scale=alt.Scale(type="log", nice=False), axis=alt.Axis(values=list(SIZES))),
            alt.Y("error", scale=alt.Scale(type="log"), title="error"),
            color,
        )
        .properties(width=420, height=240, padding={"left": 5, "top": 5, "bottom": 5, "right": 40})
    )
    return str(vl_convert.vegalite_to_svg(chart.to_json()))


def _truth(means: bool) -> np.ndarray:
    return 0.4 * COEF if means else COEF


def _rows(n: int, means: bool) -> tuple[np.ndarray, np.ndarray | None]:
    rng = np.random.default_rng(n)
    X = rng.uniform(-1, 1, (n, 3))
    return (0.6 * X + _truth(means), None) if means else (X, X @ COEF + 0.1 * rng.standard_normal(n))


@cache
def _open_errors(means: bool) -> list[tuple[int, float]]:
    entry = dpalgos.get_estimator("sample_mean" if means else "ols")
    return [(n, _error(entry, n, None)) for n in SIZES]


def _error(entry: Estimator, n: int, epsilon: float | None) -> float:
    """Return the median error, or NaN where the estimator refuses so few rows."""
    means = entry.task == "mean"
    X, y = _rows(n, means)
    keywords = dict(entry.example)
    if epsilon is not None:
        keywords |= {"epsilon": epsilon, "delta": DELTA}
    if entry.privacy_model == "user":
        keywords["user_ids"] = np.arange(n) // 2
    try:
        result = dpalgos.estimate(
            entry.name, X, y, rng=np.random.default_rng(1), replicates=REPLICATES, **keywords
        )
    except dpalgos.InputError:
        return float("nan")
    return float(np.median(np.linalg.norm(result.estimate - _truth(means)[:, None], axis=0)))
