"""Estimates at fixed seeds at a large budget, of rows and of people.

With little noise an estimator takes steps that it leaves out at small budgets: it searches for thresholds,
whitens twice, and makes intervals. ``python -m tests.golden.large_budgets`` writes the numbers of today.
"""

import csv
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

import dpalgos
from tests.contract.forms import answered
from tests.golden.plans import private_forms

FILE = Path(__file__).with_name("large_budgets.csv")
NUMBERS = ("estimate", "half_width", "certified_epsilon", "diagnostics")
COLUMNS = ("estimator", "form", "calibration", "unit", *NUMBERS)
_N, _D, _ROWS_OF_A_PERSON = 900, 3, 3
_BUDGET = {"epsilon": 8.0, "delta": 1e-6}
Key = tuple[str, str, str, str]


def _units(estimator) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield rows, people with equal weights, and people whose rows count once each."""
    yield "rows", {}
    if estimator.takes_people:
        people = np.arange(_N) // _ROWS_OF_A_PERSON
        yield "people", {"user_ids": people}
        yield "rows of people", {"user_ids": people, "person_weight": "rows", "max_rows": _ROWS_OF_A_PERSON}


def _size(notes: Mapping[str, object]) -> float:
    """Return the sum of the norms of all diagnostics that are numbers."""
    total = 0.0
    for note in notes.values():
        try:
            numbers = np.asarray(note, dtype=float)
        except (TypeError, ValueError):
            continue
        total += float(np.linalg.norm(np.nan_to_num(numbers, posinf=1e6, neginf=-1e6)))
    return total


def estimates() -> Iterator[tuple[Key, tuple[float, ...]]]:
    """Yield each form's norms of estimate and half-widths, its certified ε, and its diagnostics."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (_N, _D))
    y = X @ np.linspace(1, -0.5, _D) + 0.3 + 0.3 * rng.standard_normal(_N)
    for estimator, calibration in private_forms():
        for unit, options in _units(estimator):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found = answered(estimator, calibration, X, y, **_BUDGET, **options)
                except dpalgos.InputError:
                    continue
            limits = np.zeros((2, 1)) if found.interval is None else found.interval
            numbers = (
                np.linalg.norm(found.estimate),
                np.linalg.norm(np.nan_to_num(limits[1] - limits[0])) / 2,
                found.certified_epsilon,
                _size(found.diagnostics),
            )
            key = (estimator.name, estimator.form, calibration or "", unit)
            yield key, tuple(map(float, numbers))


def stored() -> dict[Key, tuple[float, ...]]:
    """Return the stored numbers of each form."""
    with FILE.open(encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    return {(name, form, kind, unit): tuple(map(float, found)) for name, form, kind, unit, *found in rows}


def is_same(found: tuple[float, ...], known: tuple[float, ...]) -> bool:
    """Return whether the numbers of a form differ by rounding only."""
    return bool(np.allclose(found, known, rtol=1e-4, atol=1e-9, equal_nan=True))


if __name__ == "__main__":
    with FILE.open("w", encoding="utf-8") as target:
        rows = [(*key, *(f"{each:.6g}" for each in found)) for key, found in estimates()]
        csv.writer(target, lineterminator="\n").writerows([COLUMNS, *rows])
