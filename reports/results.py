"""The results table: its columns, its rules, and its summary.

One long table holds everything a study measured: a row per study × cell × replicate × metric. Times are in a
separate file, ``timings.parquet`` (study, cell, replicate, seconds). Therefore the same run gives the same
table.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

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
SIGNS = "signs_right"  # the metric that counts coefficients with the sign of the answer without privacy
EXHIBITS = "exhibits.json"  # next to a results table: what a problem shows in addition
_SLACK = 1e-9  # by which a tight certificate may exceed its ε

_KEYS = ["study", "cell", "metric"]
_FEWEST_REPETITIONS = 10  # below, Welch's test finds up to 20 times as many differences as it should
_FAR_APART, _SPLITS = 0.1, 3_999  # Welch's p-value that asks for an exact one; random splits for that
# The p-values of so many standard errors where repetitions are many.
TWO_ERRORS, THREE_ERRORS = (math.erfc(z / math.sqrt(2)) for z in (2, 3))


def noise_off_metric(metric: str) -> str:
    """Return the name of a metric of private cells whose noise is switched off: a diagnostic, not private."""
    return f"{metric}_noise_off"


class ResultsError(ValueError):
    """A results table that breaks a rule; the message is one sentence."""


def validate_results(df: pd.DataFrame) -> pd.DataFrame:
    """Return a results table in the contract's order and types; refuse one that breaks a rule."""
    missing = [name for name in COLUMNS if name not in df.columns]
    unknown = [str(name) for name in df.columns if name not in COLUMNS]
    for what, names in (("lacks the", missing), ("has unknown", unknown)):
        if names:
            raise ResultsError(f"the results table {what} column{'s' * (len(names) > 1)} {', '.join(names)}")
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


def compare_results(first: pd.DataFrame, second: pd.DataFrame) -> dict[str, Any]:
    """Compare two results tables, as `compare_summaries` does; ``identical`` says that all rows are."""
    order = [*_KEYS, "replicate"]
    one, other = (table.sort_values(order, ignore_index=True) for table in (first, second))
    samples = [dict(list(table[table["status"] == "ok"].groupby(_KEYS)["value"])) for table in (one, other)]

    def exact(key: tuple[str, ...]) -> float:
        return _permuted(*(np.asarray(each[key], dtype=float) for each in samples))

    return {"identical": one.equals(other), **compare_summaries(summarize(first), summarize(second), exact)}


def compare_summaries(
    first: pd.DataFrame, second: pd.DataFrame, exact: Callable[[tuple[str, ...]], float] | None = None
) -> dict[str, Any]:
    """Compare two tables of means cell by cell.

    ``different`` are cells whose means differ by more than three standard errors of the difference, or whose
    status or certified ε differs. Means are compared by Welch's test, and those that it finds far apart by
    ``exact``, a p-value by cell that holds for any distribution. ``by_chance`` is the expected number of
    such differences between runs that differ only in their seeds. ``unknown`` are cells with fewer than ten
    repetitions, or without spread: their means differ, and nothing says by how much they would by chance.
    """
    left, right = (
        {tuple(row[key] for key in _KEYS): row for row in table.to_dict("records")}
        for table in (first, second)
    )
    different, unknown, by_chance = [], set(), 0.0
    for key in [key for key in left if key in right]:
        one, other = left[key], right[key]
        chance = _chance(one, other)
        if exact and chance < _FAR_APART:
            chance = exact(key)
        reasons = _reasons(one, other, chance)
        by_chance += THREE_ERRORS * (chance < 1)
        if reasons:
            means = {"first": _number(one["mean"]), "second": _number(other["mean"])}
            different.append({**dict(zip(_KEYS, key, strict=True)), **means, "reasons": reasons})
        elif math.isnan(chance):
            unknown.add(key[1])
    return {
        "cells": len(left.keys() & right.keys()),
        "only_first": sorted(str(key[1]) for key in left.keys() - right.keys()),
        "only_second": sorted(str(key[1]) for key in right.keys() - left.keys()),
        "different": different,
        "by_chance": round(by_chance, 2),
        "unknown": sorted(unknown),
    }


def describe_differences(differences: dict[str, Any]) -> str:
    if differences["identical"]:
        return f"identical in all {differences['cells']} means, one for each metric of a cell"
    lines = [
        f"{differences['cells']} means in both, one for each metric of a cell; "
        f"{len(differences['different'])} of them differ beyond three standard errors, where chance alone "
        f"predicts {differences['by_chance']:g}; "
        f"{len(differences['only_first'])} only in the first, "
        f"{len(differences['only_second'])} only in the second"
    ]
    if n_unknown := len(differences["unknown"]):
        lines.append(f"means that differ, of fewer than ten repetitions or without spread: {n_unknown}")
    lines += [
        f"{row['cell']} {row['metric']}: {row['first']} → {row['second']} ({'; '.join(row['reasons'])})"
        for row in differences["different"]
    ]
    return "\n".join(lines)


def _reasons(a: Mapping[Any, Any], b: Mapping[Any, Any], chance: float) -> list[str]:
    reasons = []
    if a["status"] != b["status"]:
        reasons.append(f"status {a['status']} → {b['status']}")
    if not np.isclose(a["certified_epsilon"], b["certified_epsilon"], rtol=1e-6, equal_nan=True):
        reasons.append("certified ε differs")
    if chance < THREE_ERRORS:
        reasons.append(f"{b['mean'] - a['mean']:+.3g}, standard error {np.hypot(a['se'], b['se']):.2g}")
    return reasons


def _chance(a: Mapping[Any, Any], b: Mapping[Any, Any]) -> float:
    """Return the p-value of two cells' means, 1 where one has none; NaN where no error is known well."""
    if a["mean"] == b["mean"] or not np.isfinite([a["mean"], b["mean"]]).all():
        return 1.0
    if min(a["n_ok"], b["n_ok"]) < _FEWEST_REPETITIONS or not (a["se"] > 0 and b["se"] > 0):
        return math.nan
    return p_value(*(Mean(each["mean"], each["se"], each["n_ok"]) for each in (a, b)))


def _permuted(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> float:
    """Return the p-value of the difference of means among random splits of all values into two groups."""
    values, n = np.concatenate([first, second]), len(first)
    rng, total = np.random.default_rng(0), values.sum()
    sums = np.array([rng.permutation(values)[:n].sum() for _ in range(_SPLITS)])
    distances = np.abs(sums / n - (total - sums) / (len(values) - n))
    observed = abs(float(first.mean() - second.mean()))
    return float((1 + np.sum(distances >= observed * (1 - 1e-12))) / (1 + _SPLITS))


def _number(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None


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
    """Return the slope of log value against log size by least squares, and its standard error.

    Points are (size, value, standard error of the value); None for fewer than three sizes.
    """
    usable = [(x, y, se) for x, y, se in points if x > 0 and y > 0 and math.isfinite(y)]
    if len({x for x, _, _ in usable}) < 3:
        return None
    x, y, se = (np.array(column, dtype=float) for column in zip(*usable, strict=True))
    centered = np.log(x) - np.log(x).mean()
    weights = centered / (centered**2).sum()
    return float(weights @ np.log(y)), float(np.sqrt(((weights * np.nan_to_num(se) / y) ** 2).sum()))


def p_value(first: Mean, second: Mean) -> float:
    """Return the p-value of Welch's test that two means are one; NaN where an error is unknown.

    It counts that errors of few repetitions are themselves uncertain. Means without errors are compared as
    they are.
    """
    if math.isnan(first.error) or math.isnan(second.error):
        return math.nan
    if first.error == second.error == 0:
        return float(math.isclose(first.value, second.value, rel_tol=1e-12))
    from scipy import stats  # takes as long to load as a small release

    one, other = (
        (each.value, each.error * math.sqrt(each.repetitions), each.repetitions) for each in (first, second)
    )
    return float(stats.ttest_ind_from_stats(*one, *other, equal_var=False).pvalue)
