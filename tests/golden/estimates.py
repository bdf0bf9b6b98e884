"""Estimates and intervals at fixed seeds: a row per form of an estimator, and the time of its last change.

``python -m tests.golden.estimates`` computes them again and writes the current time to each row that changed.
"""

import csv
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import dpalgos
from tests.contract.forms import EVERY, FAMILIES, answered

FILE = Path(__file__).with_name("estimates.csv")
COLUMNS = ("estimator", "form", "calibration", "estimate", "half_width", "changed")
ROWS, COLUMNS_OF_X = 400, 5
Numbers = tuple[float, float]


def estimates() -> Iterator[tuple[str, str, str, Numbers]]:
    """Yield each form of an estimator with the norms of its estimate and of its known half-widths."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (ROWS, COLUMNS_OF_X))
    y = X @ np.linspace(1, -1, COLUMNS_OF_X) + 0.1 * rng.standard_normal(ROWS)
    for estimator, calibration in EVERY + FAMILIES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = answered(estimator, calibration, X, y)
            except dpalgos.InputError:  # its example fixes another number of columns
                found = answered(estimator, calibration, X[:, :3], y)
        limits = np.full((2, 1), np.nan) if found.interval is None else found.interval
        norms = np.linalg.norm(found.estimate), np.linalg.norm(np.nan_to_num(limits[1] - limits[0])) / 2
        yield estimator.name, estimator.form, calibration or "", tuple(map(float, norms))


def stored() -> dict[tuple[str, str, str], tuple[Numbers, str]]:
    """Return the stored numbers of each form, and the time of its last change."""
    with FILE.open(encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    return {tuple(key): ((float(one), float(other)), at) for *key, one, other, at in rows}


def is_same(found: Numbers, known: Numbers) -> bool:
    """Return whether the numbers of a form differ by rounding only."""
    return bool(np.allclose(found, known, rtol=1e-4, atol=1e-9, equal_nan=True))


def renew(now: str) -> None:
    """Write today's estimates; one that is the same keeps its row."""
    known = stored() if FILE.exists() else {}
    rows = []
    for *key, found in estimates():
        before, at = known.get(tuple(key), ((np.inf, np.inf), now))
        kept = is_same(found, before)
        numbers = before if kept else [float(f"{each:.6g}") for each in found]
        rows.append((*key, *numbers, at if kept else now))
    with FILE.open("w", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


if __name__ == "__main__":
    renew(datetime.now(UTC).isoformat(timespec="seconds"))
