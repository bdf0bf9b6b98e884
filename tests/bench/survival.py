"""Times to an event: the price of periods next to Cox regression.

The tables are read from the folder ``SURVIVAL_TABLES``: ``lung.csv``, ``rossi.csv``,
``gbsg2.csv`` and ``larynx.csv`` of the package lifelines, and ``veteran.csv`` of the R package survival.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm

from dpalgos.formula import phreg
from tests.bench.goals import Measurement, at_most

# time, the event as an expression, numbers with their bounds
TABLES = {
    "lung": ("time", "status == status.max()", {"age": (39, 82), "sex": (1, 2)}),
    "rossi": ("week", "arrest == 1", {"fin": (0, 1), "age": (17, 44), "prio": (0, 18)}),
    "gbsg2": ("time", "cens == 1", {"age": (21, 80), "tsize": (3, 120), "pnodes": (1, 51)}),
    "larynx": ("time", "death == 1", {"age": (41, 86), "Stage_III": (0, 1), "Stage_IV": (0, 1)}),
    "veteran": ("time", "status == 1", {"trt": (1, 2), "karno": (10, 99), "age": (34, 81)}),
}
PERIODS = 4, 8, 16, 32


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
