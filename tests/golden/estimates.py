"""Estimates at fixed seeds: a row per form of an estimator, and the time of its last change.

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
COLUMNS = ("estimator", "form", "calibration", "estimate", "changed")
ROWS, COLUMNS_OF_X = 400, 5


def estimates() -> Iterator[tuple[str, str, str, float]]:
    """Yield each form of an estimator with the norm of its estimate."""
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
        yield estimator.name, estimator.form, calibration or "", float(np.linalg.norm(found.estimate))


def stored() -> dict[tuple[str, str, str], tuple[float, str]]:
    """Return the stored estimate of each form, and the time of its last change."""
    with FILE.open(encoding="utf-8") as file:
        return {tuple(key): (float(estimate), at) for *key, estimate, at in list(csv.reader(file))[1:]}


def is_same(found: float, known: float) -> bool:
    """Return whether two estimates differ by rounding only."""
    return bool(np.isclose(found, known, rtol=1e-4, atol=1e-9, equal_nan=True))


def renew(now: str) -> None:
    """Write today's estimates; one that is the same keeps its row."""
    known = stored() if FILE.exists() else {}
    rows = []
    for *key, estimate in estimates():
        before, at = known.get(tuple(key), (np.inf, now))
        rows.append((*key, *((before, at) if is_same(estimate, before) else (float(f"{estimate:.6g}"), now))))
    with FILE.open("w", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


if __name__ == "__main__":
    renew(datetime.now(UTC).isoformat(timespec="seconds"))
