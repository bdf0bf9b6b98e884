"""Plans of four budgets and sizes: a row per form of an estimator, and a number for each of its plans.

A plan follows from public numbers alone. Therefore many sizes can be compared, also those at which an
estimator changes its steps. ``python -m tests.golden.plans`` writes the numbers of today.
"""

import csv
from collections.abc import Iterator
from dataclasses import MISSING, astuple, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

import dpalgos
from dpalgos.api import build_params
from tests.contract.forms import EVERY, FAMILIES, keywords

FILE = Path(__file__).with_name("plans.csv")
INTERVALS = [
    (replace(form, form=f"{form.form}, interval", example={**form.example, "interval": 0.95}), calibration)
    for form, calibration in FAMILIES
    if form.takes("interval") and calibration != "paper"
]
# n, d, ε, and a factor on the public bounds of the example
SIZES = ((30, 3, 0.3, 1.0), (1_000, 3, 1.0, 2.0), (20_000, 30, 1.0, 0.5), (10**6, 3, 4.0, 3.0))
COLUMNS = ("estimator", "form", "calibration", *(f"n={n} d={d} epsilon={e:g}" for n, d, e, _ in SIZES))
Key = tuple[str, str, str]


def numbers(value: Any) -> Iterator[float]:
    """Yield the numbers of a plan in order."""
    if isinstance(value, np.ndarray | tuple | list):
        for each in value:
            yield from numbers(each)
    elif isinstance(value, int | float | np.number):
        yield float(np.nan_to_num(float(value), posinf=1e9, neginf=-1e9))


def private_forms() -> Iterator[tuple[Any, str | None]]:
    """Yield the private forms, and those of their examples whose numbers follow from n, d and the budget."""
    for form, calibration in EVERY + FAMILIES + INTERVALS:
        if not form.private:
            continue
        yield form, calibration
        optional = {item.name for item in fields(form.parameters) if item.default is not MISSING}
        left = {
            name: value
            for name, value in form.example.items()
            if name not in optional or type(value) not in (int, float)
        }
        if len(left) < len(form.example):
            yield replace(form, form=f"{form.form}, default numbers", example=left), calibration


def plans() -> Iterator[tuple[Key, tuple[float, ...]]]:
    """Yield each form with a weighted sum of all numbers of its plan at each size; NaN if it is refused."""
    for estimator, calibration in private_forms():
        found = []
        bounds = {name: value for name, value in estimator.example.items() if name.endswith("_bound")}
        for n, d, epsilon, factor in SIZES:
            scaled = {name: factor * value for name, value in bounds.items() if isinstance(value, float)}
            try:
                asked = keywords(estimator, calibration, epsilon=epsilon, delta=1e-6, **scaled)
                plan = build_params(estimator, asked).plan(n, d)
            except dpalgos.InputError:
                found.append(np.nan)
                continue
            content = [(label, *astuple(slot)) for label, slot in plan.items()]
            values = np.array(list(numbers(content)))
            found.append(float(np.log1p(np.abs(values)) @ (2 + np.sin(np.arange(len(values))))))
        yield (estimator.name, estimator.form, calibration or ""), tuple(found)


def stored() -> dict[Key, tuple[float, ...]]:
    """Return the stored numbers of each form."""
    with FILE.open(encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    return {(name, form, calibration): tuple(map(float, found)) for name, form, calibration, *found in rows}


def is_same(found: tuple[float, ...], known: tuple[float, ...]) -> bool:
    """Return whether the plans of a form differ by rounding only."""
    return bool(np.allclose(found, known, rtol=1e-8, atol=0, equal_nan=True))


if __name__ == "__main__":
    with FILE.open("w", encoding="utf-8") as target:
        rows = [(*key, *(f"{each:.10g}" for each in found)) for key, found in plans()]
        csv.writer(target, lineterminator="\n").writerows([COLUMNS, *rows])
