"""The results table: its columns and its rules.

One long table holds everything a study measured: a row per study × cell × replicate × metric. Times are in a
separate file, ``timings.parquet`` (study, cell, replicate, seconds). Therefore the same run gives the same
table.

A study's file declares which of its results repeat a printed figure or table (:class:`PrintedFigure`).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as pydantic_dataclass

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "study": "str",
        "panel": "str",
        "dataset": "str",
        "data_source": "str",
        "estimator": "str",
        "form": "str",
        "steps": "Int64",
        "cell": "str",
        "calibration": "str",
        "privacy_model": "str",
        "epsilon": "float64",
        "delta": "float64",
        "delta_rule": "str",
        "certified_epsilon": "float64",
        "estimator_epsilon": "float64",
        "audited_epsilon": "float64",
        "n": "int64",
        "d": "int64",
        "s": "Int64",
        "replicate": "int64",
        "seed": "Int64",
        "metric": "str",
        "value": "float64",
        "status": "str",
        "message": "str",
    }
)

PRIVACY_COLUMNS = ("epsilon", "delta", "certified_epsilon", "estimator_epsilon", "audited_epsilon")
_OF_REPLICATE = ("replicate", "seed", "value")
_OF_CELL = tuple(name for name in COLUMNS if name not in _OF_REPLICATE)
GROUP_COLUMNS = tuple(
    name
    for name in _OF_CELL
    if name not in {"certified_epsilon", "estimator_epsilon", "audited_epsilon", "status", "message"}
)
SUMMARY_COLUMNS = (*_OF_CELL, "mean", "se", "median", "q10", "q90", "n_ok", "n_failed")

_ALLOWED = {
    "data_source": ("real", "stand-in", "simulated"),
    "calibration": ("none", "paper", "tight"),
    "privacy_model": ("none", "central", "local", "user"),
    "status": ("ok", "failed", "refused"),
}
_LEAST = {"n": 1, "d": 0, "replicate": 0}
AUC, POOLED_AUC = "auc", "pooled_auc"  # metrics of an attack
# The true positive rate at the false positive rate 0.01 is tpr_at_fpr_01, and so on.
TRUE_POSITIVE_RATES = {
    f"tpr_at_fpr_{digits}": float(f"0.{digits}")
    for digits in ["001", "002", "005", "01", "02", "05", "1", "2", "5"]
}
SIGNS = "signs_right"  # the metric that counts coefficients with the sign that they have without privacy
EXHIBITS = "exhibits.json"  # next to a results table: what a problem shows in addition
LIMIT = 1000.0  # the ε of limit cells, whose noise is next to none: what remains is the method's own error
_SLACK = 1e-9  # by which a tight certificate may exceed its ε
_AS_WRITTEN = ConfigDict(extra="forbid")


def with_form(title: str, form: str) -> str:
    """Name an estimator's form: "Noisy gradient descent (residual-clipped)"."""
    return f"{title} ({form})" if form else title


class ResultsError(ValueError):
    """A results table that breaks a rule; the message is one sentence."""


def validate_results(df: pd.DataFrame) -> pd.DataFrame:
    """Return a results table in the contract's order and types; refuse one that breaks a rule."""
    missing = [name for name in COLUMNS if name not in df.columns]
    unknown = [str(name) for name in df.columns if name not in COLUMNS]
    for fault, names in (("lacks the", missing), ("has unknown", unknown)):
        if names:
            raise ResultsError(f"the results table {fault} column{'s' * (len(names) > 1)} {', '.join(names)}")
    df = df.loc[:, list(COLUMNS)].reset_index(drop=True)
    for name, dtype in COLUMNS.items():
        if dtype in ("str", "int64"):
            _require(df, df[name].notna(), "must not be empty", name)
        if dtype.lower() == "int64" and df[name].dtype.kind == "f":
            _require(df, df[name].isna() | (df[name] % 1 == 0), "must be a whole number", name)
    try:
        df = df.astype(dict(COLUMNS))
    except (TypeError, ValueError):
        name = next(name for name, dtype in COLUMNS.items() if not _can_be(df[name], dtype))
        raise ResultsError(f"{name} must be of type {COLUMNS[name]}, got {df[name].iloc[0]!r}") from None
    for name, allowed in _ALLOWED.items():
        _require(df, df[name].isin(allowed), f"must be one of {', '.join(allowed)}", name)
    for name, least in _LEAST.items():
        _require(df, df[name] >= least, f"must be at least {least}", name)
    for holds, text in _rules(df):
        _require(df, holds, text)
    return df


def _rules(t: pd.DataFrame) -> Iterator[tuple[pd.Series, str]]:
    """Yield where each rule of whole rows holds, and what it says."""
    private, proved, certified = t["privacy_model"] != "none", t["estimator_epsilon"], t["certified_epsilon"]
    yield (
        (t["calibration"] != "none") == private,
        "calibration must be none exactly where privacy_model is none",
    )
    yield (
        private | t[list(PRIVACY_COLUMNS)].isna().all(axis=1),
        f"a non-private row (privacy_model none) must leave {', '.join(PRIVACY_COLUMNS)} empty",
    )
    yield (
        ~private | (t["epsilon"].gt(0) & t["delta"].ge(0) & t["delta"].lt(1)),
        "a private row must state a positive epsilon and a delta in [0, 1)",
    )
    yield (
        (t["calibration"] != "tight") | proved.isna() | (proved <= t["epsilon"] * (1 + _SLACK)),
        "where calibration is tight, estimator_epsilon must not exceed epsilon",
    )
    yield (
        (certified == proved) | (certified == np.inf) | (certified.isna() & proved.isna()),
        "certified_epsilon must be estimator_epsilon, or infinite where preparing the data is not private",
    )
    yield (
        (t["status"] == "ok") | (t["message"] != ""),
        "a row that failed or was refused must say why in message",
    )
    yield (
        ~t.duplicated(["study", "cell", "replicate", "metric"]),
        "there must be one row per study, cell, replicate and metric",
    )


def _can_be(column: pd.Series, dtype: Any) -> bool:
    try:
        column.astype(dtype)
    except (TypeError, ValueError):
        return False
    return True


def _require(df: pd.DataFrame, holds: pd.Series, text: str, column: str = "") -> None:
    """Refuse a table in which a rule does not hold in every row."""
    if holds.all():
        return
    first = df.loc[~holds].iloc[0]
    n = int((~holds).sum())
    place = f" ({n:,} row{'s' * (n > 1)}, the first in cell {str(first['cell'])!r})"
    if column:
        raise ResultsError(f"{column} {text}, got {first[column]!r}{place}")
    raise ResultsError(f"the results table breaks a rule{place}: {text}")


def to_parquet_bytes(df: pd.DataFrame) -> bytes:
    """Return the table as a Parquet file; the same table gives the same bytes."""
    buffer = io.BytesIO()
    df.reset_index(drop=True).to_parquet(buffer, engine="pyarrow", compression="zstd", index=False)
    return buffer.getvalue()


@pydantic_dataclass(frozen=True, config=_AS_WRITTEN)
class FigureLine:
    """A line of our run for a figure that a paper prints; what is left out is that of the figure."""

    estimator: str
    form: str = ""
    calibration: Literal["paper", "tight", "none"] = "none"
    panel: str = ""
    epsilon: float = 0.0  # 1,000 has next to no noise, as the papers' ε = ∞ has none
    label: str = ""  # the estimator's name if left out


@pydantic_dataclass(frozen=True, config=_AS_WRITTEN)
class PrintedFigure:
    """A figure or table that a paper prints, and what of a study repeats it.

    ``lines`` make our picture of it. With ``columns``, it is a table: each of the ``values`` of this quantity
    has a column. The paper's rows are ``printed``: a rule for δ, an ε and the entries. Without lines, no run
    repeats it, and ``differs`` says why.
    """

    paper: str  # a key of the papers in claims.toml
    name: str  # as the paper calls it: Figure 4b
    panel: str
    same_settings: bool  # whether all that the paper states is as it states it
    differs: str  # one sentence: what differs from the paper
    instead: str = ""  # the panel that takes the place of one whose data no source has
    epsilon: float = 0.0
    delta: str = ""
    metric: str = ""  # the page's if left out
    x_range: tuple[float, float] | None = None  # of sizes that the paper shows
    lines: tuple[FigureLine, ...] = ()
    columns: str = ""
    values: tuple[float, ...] = ()
    printed: tuple[tuple[str | float, ...], ...] = ()
    claims: tuple[str, ...] = ()  # the claims that say whether its shape is the same
    shape: str = ""  # why no claim does

    @property
    def file(self) -> str:
        """The name of its picture's file, without ending."""
        return self.name.lower().replace(" ", "-")
