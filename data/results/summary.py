"""The summary of a results table: a row per cell and metric, with mean and standard error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from data.results.table import GROUP_COLUMNS, SUMMARY_COLUMNS

if TYPE_CHECKING:
    import pandas as pd


def summarize(df: pd.DataFrame) -> pd.DataFrame:
    """Return a row per cell and metric of a valid results table, in the order of first appearance.

    `mean, median, q10, q90` and the standard error `se` = sd / √n_ok come from the repetitions that
    succeeded; `se` is NaN for a single one. Certified and audited ε are the largest over repetitions,
    `message` every distinct message, `status` "ok" or the first other status.
    """
    if df.empty:
        return type(df)(columns=list(SUMMARY_COLUMNS))
    code = df.groupby(list(GROUP_COLUMNS), dropna=False, sort=False).ngroup().to_numpy()
    ok = (df["status"] == "ok").to_numpy(dtype=bool)
    value = df["value"].where(ok)
    by_cell = value.groupby(code)
    out = df.groupby(code)[list(GROUP_COLUMNS)].nth(0).reset_index(drop=True)
    for name in ("certified_epsilon", "estimator_epsilon", "audited_epsilon"):
        out[name] = df[name].groupby(code).max().to_numpy()
    out["status"] = "ok"
    out["message"] = ""
    remarked = ~ok | (df["message"] != "").to_numpy(dtype=bool)
    if remarked.any():
        messages = df["message"][remarked].groupby(code[remarked]).agg(_distinct)
        out.loc[messages.index, "message"] = messages.to_numpy()
    if not ok.all():
        bad = df["status"][~ok].groupby(code[~ok]).first()
        out.loc[bad.index, "status"] = bad.to_numpy()
    out["mean"] = by_cell.mean().to_numpy()
    out["se"] = (by_cell.std(ddof=1) / np.sqrt(by_cell.count())).to_numpy()
    out["median"] = by_cell.median().to_numpy()
    out["q10"] = by_cell.quantile(0.1).to_numpy()
    out["q90"] = by_cell.quantile(0.9).to_numpy()
    out["n_ok"] = np.bincount(code, weights=ok).astype("int64")
    out["n_failed"] = np.bincount(code, weights=~ok).astype("int64")
    return out.loc[:, list(SUMMARY_COLUMNS)]


def _distinct(messages: pd.Series) -> str:
    return "; ".join(dict.fromkeys(text for text in messages if text))


def summary_csv(summary: pd.DataFrame) -> str:
    return summary.to_csv(index=False, lineterminator="\n", float_format="%.10g")


class Mean(NamedTuple):
    """A mean, its standard error (NaN: unknown) and the number of repetitions."""

    value: float
    error: float
    repetitions: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        spread = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else math.nan
        return cls(float(np.mean(values)), spread, len(values))


def fitted_slope(points: Sequence[tuple[float, float, float]]) -> tuple[float, float] | None:
    """Return the slope of log value against log size by least squares, and its standard error or NaN.

    Points are (size, value, standard error of the value); None for fewer than three sizes.
    """
    usable = [(x, y, se) for x, y, se in points if x > 0 and y > 0 and math.isfinite(y)]
    if len({x for x, _, _ in usable}) < 3:
        return None
    x, y, se = (np.array(column, dtype=float) for column in zip(*usable, strict=True))
    centered = np.log(x) - np.log(x).mean()
    weights = centered / (centered**2).sum()
    return float(weights @ np.log(y)), float(np.sqrt(((weights * se / y) ** 2).sum()))
