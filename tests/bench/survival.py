"""Times to an event: the price of periods next to Cox regression, and the size and power of the logrank test.

The tables of `bench_periods` are read from the folder ``SURVIVAL_TABLES``: ``lung.csv``, ``rossi.csv``,
``gbsg2.csv`` and ``larynx.csv`` of the package lifelines, and ``veteran.csv`` of the R package survival.
"""

import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import scipy
import statsmodels.api as sm

import dpalgos
from dpalgos.answers.survival import SurvivalCurves
from dpalgos.central.cumulative_counts import noise_covariance
from dpalgos.formula import phreg
from dpalgos.rows.person_periods import cell_indicators
from tests.bench.goals import Goal, Measurement, at_most

# time, the event as an expression, numbers with their bounds
TABLES = {
    "lung": ("time", "status == status.max()", {"age": (39, 82), "sex": (1, 2)}),
    "rossi": ("week", "arrest == 1", {"fin": (0, 1), "age": (17, 44), "prio": (0, 18)}),
    "gbsg2": ("time", "cens == 1", {"age": (21, 80), "tsize": (3, 120), "pnodes": (1, 51)}),
    "larynx": ("time", "death == 1", {"age": (41, 86), "Stage_III": (0, 1), "Stage_IV": (0, 1)}),
    "veteran": ("time", "status == 1", {"trt": (1, 2), "karno": (10, 99), "age": (34, 81)}),
}
PERIODS = 4, 8, 16, 32
REPETITIONS = 1000
_SETTINGS = (500, 1.0), (1000, 1.0), (3000, 0.5), (3000, 1.0)


def _table(name: str) -> tuple[pd.DataFrame, dict[str, tuple[float, float]]]:
    time, event, bounds = TABLES[name]
    table = pd.read_csv(Path(os.environ["SURVIVAL_TABLES"]) / f"{name}.csv").rename(columns={time: "time"})
    table["died"] = table.eval(event).astype(int)
    return table[["time", "died", *bounds]].dropna(), bounds


def bench_periods(small: bool = False) -> Measurement:
    """Compare log hazard ratios of periods of equal length, almost without noise, with Cox regression."""
    if "SURVIVAL_TABLES" not in os.environ:
        return Measurement(
            figure="not measured: SURVIVAL_TABLES names no folder", goals=[], data="public tables"
        )
    apart: dict[int, list[float]] = {k: [] for k in PERIODS}
    for name in [*TABLES][: 1 if small else None]:
        table, bounds = _table(name)
        cox = sm.PHReg(table["time"], table[list(bounds)], table["died"], ties="efron").fit()
        for k in PERIODS:
            fit = phreg(
                f"Surv(time, died) ~ {' + '.join(bounds)}",
                table,
                periods=list(np.linspace(0, float(table["time"].max()), k + 1)),
                bounds=bounds,
                epsilon=1e6,
                delta=1e-6,
                interval=None,
                random_state=0,
            )
            off = np.abs(np.asarray(fit.params[list(bounds)]) - cox.params) / cox.bse
            apart[k].append(float(off.max()))
            print(f"{name} ({len(table)}), {k} periods: {off.round(3)}", flush=True)
    goals = [at_most(0.5, "se", f"{k} periods", *values) for k, values in apart.items()]
    return Measurement(
        figure="largest distance of log hazard ratios from Cox regression", goals=goals, data="5 tables"
    )


def _rejections(n: int, epsilon: float, ratio: float, repetitions: int) -> tuple[float, float, float]:
    """Return how often private and plain logrank tests reject, and what theory with noise predicts.

    The plain statistic has mean 1 + shift². Noise of variance σ² in all counts of events adds Kσ²/2 to the
    variance of the difference, which is about a quarter of the number of events.
    """
    cuts, private, plain = np.linspace(0, 4, 9), list[float](), list[float]()
    events, variance = list[float](), 0.0
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        group = rng.integers(0, 2, n)
        event, censored = rng.exponential(size=n) / np.where(group, 0.2 * ratio, 0.2), rng.uniform(1, 6, n)
        cells = cell_indicators(np.minimum(event, censored), event <= censored, group, 2, cuts)
        found = dpalgos.estimate("cumulative_counts", cells, epsilon=epsilon, delta=1e-6, chain=9, rng=rng)
        std, exact = float(np.max(found.events[0].noise_scale)), cells.sum(axis=0)
        events.append(exact.reshape(2, 2, 9)[:, 0, :-1].sum())
        variance = 8 * std**2 / 2
        for statistics, counts, noise in ((private, found.estimate, std), (plain, exact, 1e-9)):
            about = {"noise": noise_covariance(9, noise), "periods": tuple(cuts), "groups": (0, 1)}
            statistics.append(SurvivalCurves(counts=counts.reshape(2, 2, 9), **about).logrank().statistic)
    shift, information = np.sqrt(max(np.mean(plain) - 1, 0)), np.mean(events) / 4
    z = scipy.special.ndtri(0.975)
    expected = float(scipy.special.ndtr(shift * np.sqrt(information / (information + variance)) - z))
    return float(np.mean(np.array(private) > z**2)), float(np.mean(np.array(plain) > z**2)), expected


def bench_logrank(small: bool = False) -> Measurement:
    """Measure the size and the power of the logrank test from released counts."""
    goals: list[Goal] = []
    repetitions = 20 if small else REPETITIONS
    for n, epsilon in _SETTINGS[: 1 if small else None]:
        size, _, _ = _rejections(n, epsilon, 1.0, repetitions)
        goals.append(
            Goal(
                what=f"n = {n}, ε = {epsilon:g}: size",
                values=[100 * size],
                wanted=6,
                at_least=False,
                unit="%",
            )
        )
        power, plain, expected = _rejections(n, epsilon, 0.75, repetitions)
        what = f"n = {n}, ε = {epsilon:g}: power over {expected:.2f} of theory ({plain:.2f} without noise)"
        goals.append(Goal(what=what, values=[power / expected], wanted=0.8))
        print(*(goal.cells() for goal in goals[-2:]), flush=True)
    return Measurement(figure="logrank test at 5 %", goals=goals, data="exponential times, hazard ratio 0.75")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for bench in (bench_periods, bench_logrank):
        for goal in bench().goals:
            print(goal.cells())
