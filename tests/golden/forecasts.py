"""Settings that forecasts choose for the examples of estimators, at five sizes and budgets.

``python -m tests.golden.forecasts`` writes the settings of today.
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import dpalgos
from tasks.study.forecast_steps import settings_of_example

FILE = Path(__file__).with_name("forecasts.csv")
SIZES = ((200, 0.3), (600, 3.0), (3_000, 1.0), (20_000, 0.3), (100_000, 4.0))  # n, ε
COLUMNS = ("estimator", "n", "epsilon", "settings")
Settings = dict[str, dict[str, float]]


def forecasts() -> Iterator[tuple[str, int, float, Settings]]:
    """Yield the settings by calibration of each estimator with a rule."""
    for estimator in dpalgos.catalog():
        for n, epsilon in SIZES:
            budget = {"epsilon": epsilon, "delta": 1e-6}
            if chosen := settings_of_example(estimator.name, {"n": n, "d": 4}, budget):
                yield estimator.name, n, epsilon, chosen


def stored() -> list[tuple[str, int, float, Settings]]:
    """Return the stored settings."""
    with FILE.open(encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    return [(name, int(n), float(epsilon), json.loads(text)) for name, n, epsilon, text in rows]


def is_same(found: Settings, known: Settings) -> bool:
    """Return whether settings differ by rounding only."""
    if {kind: sorted(each) for kind, each in found.items()} != {
        kind: sorted(each) for kind, each in known.items()
    }:
        return False
    return all(np.isclose(found[kind][name], value) for kind in known for name, value in known[kind].items())


if __name__ == "__main__":
    with FILE.open("w", encoding="utf-8") as target:
        rows = [(name, n, epsilon, json.dumps(chosen)) for name, n, epsilon, chosen in forecasts()]
        csv.writer(target, lineterminator="\n").writerows([COLUMNS, *rows])
