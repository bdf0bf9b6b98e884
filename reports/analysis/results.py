"""The results table: its columns, its rules, and its summary.

One long table holds everything a study measured: a row per study × cell × replicate × metric. Times are kept
apart, in ``timings.parquet`` (study, cell, replicate, seconds), so that the same run gives the same table.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd
import pandera.pandas as pa

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

DATA_SOURCES = ("real", "stand-in", "simulated")
CALIBRATIONS = ("none", "paper", "tight")
PRIVACY_MODELS = ("none", "central", "local", "user")
STATUSES = ("ok", "failed", "refused")
PRIVACY_COLUMNS = ("epsilon", "delta", "certified_epsilon", "estimator_epsilon", "audited_epsilon")

GROUP_COLUMNS = (
    "study",
    "panel",
    "dataset",
    "data_source",
    "estimator",
    "form",
    "steps",
    "cell",
    "calibration",
    "privacy_model",
    "epsilon",
    "delta",
    "delta_rule",
    "n",
    "d",
    "s",
    "metric",
)
SUMMARY_COLUMNS = (
    *(name for name in COLUMNS if name not in {"replicate", "seed", "value"}),
    *("mean", "se", "median", "q10", "q90", "n_ok", "n_failed"),
)

_TIGHT_SLACK = 1e-9


class ResultsError(ValueError):
    """A results table that breaks a rule; the message is one sentence."""


def _one_of(allowed: tuple[str, ...]) -> pa.Check:
    return pa.Check.isin(allowed, error=f"must be one of {', '.join(allowed)}")


def _non_private_has_no_privacy(df: pd.DataFrame) -> pd.Series:
    blank = df[list(PRIVACY_COLUMNS)].isna().all(axis=1)
    return blank | (df["privacy_model"] != "none")


def _private_was_asked(df: pd.DataFrame) -> pd.Series:
    asked = df["epsilon"].gt(0) & df["delta"].ge(0) & df["delta"].lt(1)
    return asked | (df["privacy_model"] == "none")


def _tight_proves_what_it_says(df: pd.DataFrame) -> pd.Series:
    holds = df["estimator_epsilon"] <= df["epsilon"] * (1 + _TIGHT_SLACK)
    return holds | df["estimator_epsilon"].isna() | (df["calibration"] != "tight")


def _certifies_no_more_than_is_proved(df: pd.DataFrame) -> pd.Series:
    certified, alone = df["certified_epsilon"], df["estimator_epsilon"]
    return (certified == alone) | (certified == np.inf) | (certified.isna() & alone.isna())


def _calibration_fits_model(df: pd.DataFrame) -> pd.Series:
    return (df["calibration"] == "none") == (df["privacy_model"] == "none")


def _says_why(df: pd.DataFrame) -> pd.Series:
    return (df["status"] == "ok") | (df["message"].str.len() > 0)


def _unique(df: pd.DataFrame) -> pd.Series:
    return ~df.duplicated(["study", "cell", "replicate", "metric"])


_TABLE_RULES: tuple[tuple[Callable[[pd.DataFrame], pd.Series], str], ...] = (
    (_calibration_fits_model, "calibration must be none exactly where privacy_model is none"),
    (
        _non_private_has_no_privacy,
        f"a non-private row (privacy_model none) must leave {', '.join(PRIVACY_COLUMNS)} empty",
    ),
    (_private_was_asked, "a private row must state a positive epsilon and a delta in [0, 1)"),
    (
        _tight_proves_what_it_says,
        "where calibration is tight, estimator_epsilon must not exceed epsilon",
    ),
    (
        _certifies_no_more_than_is_proved,
        "certified_epsilon must be estimator_epsilon, or infinite where preparing the data is not private",
    ),
    (_says_why, "a row that failed or was refused must say why in message"),
    (_unique, "there must be one row per study, cell, replicate and metric"),
)

_ALLOWED = {
    "data_source": DATA_SOURCES,
    "calibration": CALIBRATIONS,
    "privacy_model": PRIVACY_MODELS,
    "status": STATUSES,
}


def _column(name: str, dtype: str) -> pa.Column:
    checks = [_one_of(_ALLOWED[name])] if name in _ALLOWED else []
    if name == "n":
        checks = [pa.Check.ge(1, error="must be at least 1")]
    if name in {"d", "replicate"}:
        checks = [pa.Check.ge(0, error="must not be negative")]
    may_be_missing = dtype in {"float64", "Int64"}
    return pa.Column(dtype, checks, nullable=may_be_missing, coerce=True)


SCHEMA = pa.DataFrameSchema(
    {name: _column(name, dtype) for name, dtype in COLUMNS.items()},
    checks=[pa.Check(rule, error=text) for rule, text in _TABLE_RULES],
    strict=True,
    ordered=False,
    name="results",
)


def validate_results(df: pd.DataFrame) -> pd.DataFrame:
    """Check a results table against the contract.

    Parameters
    ----------
    df : DataFrame
        A results table; the columns may come in any order.

    Returns
    -------
    DataFrame
        The same rows with columns in the contract's order and of the contract's types.

    Raises
    ------
    ResultsError
        If a column is missing or unknown, a value is not allowed, or a rule of the table is broken.
    """
    missing = [name for name in COLUMNS if name not in df.columns]
    if missing:
        raise ResultsError(f"the results table lacks the column{_s(missing)} {', '.join(missing)}")
    unknown = [str(name) for name in df.columns if name not in COLUMNS]
    if unknown:
        raise ResultsError(f"the results table has unknown column{_s(unknown)} {', '.join(unknown)}")
    for name in (name for name, dtype in COLUMNS.items() if dtype.lower() == "int64"):
        if pd.api.types.is_float_dtype(df[name]) and (df[name].dropna() % 1 != 0).any():
            raise ResultsError(f"{name} must be a whole number in every row")
    try:
        checked = SCHEMA.validate(df.loc[:, list(COLUMNS)].reset_index(drop=True))
    except pa.errors.SchemaError as error:
        raise ResultsError(_sentence(error, df.reset_index(drop=True))) from None
    except pa.errors.SchemaErrors as errors:  # what coercion raises
        raise ResultsError(_sentence(errors.schema_errors[0], df.reset_index(drop=True))) from None
    return checked.astype(dict(COLUMNS))


def _s(items: list[str]) -> str:
    return "s" if len(items) > 1 else ""


def _sentence(error: pa.errors.SchemaError, df: pd.DataFrame) -> str:
    """Turn a pandera error into one sentence."""
    column = error.schema.name if error.schema.name in COLUMNS else None
    cases = error.failure_cases
    rows = _failing_rows(cases)
    place = _place(rows, df)
    check = getattr(error, "check", None)
    text = getattr(check, "error", None) if not isinstance(check, str) else None
    if column is None:
        return f"the results table breaks a rule{place}: {text or _plain(error)}"
    if text is None:
        what = "must not be empty" if "not_nullable" in str(check) else f"must be of type {COLUMNS[column]}"
    else:
        what = text
    value = ""
    if rows and rows[0] < len(df):
        value = f", got {df[column].iloc[rows[0]]!r}"
    return f"{column} {what}{value}{place}"


def _failing_rows(cases: object) -> list[int]:
    if not isinstance(cases, pd.DataFrame) or "index" not in cases:
        return []
    index = pd.to_numeric(cases["index"], errors="coerce").dropna()
    return sorted({int(i) for i in index})


def _place(rows: list[int], df: pd.DataFrame) -> str:
    if not rows:
        return ""
    cell = str(df["cell"].iloc[rows[0]])
    count = "1 row" if len(rows) == 1 else f"{len(rows):,} rows"
    return f" ({count}, the first in cell {cell!r})"


def _plain(error: Exception) -> str:
    return str(error).splitlines()[0]


def timings_path(results: Path | str) -> Path:
    """Return the path of the measured times of a part of a results table."""
    return Path(results).with_suffix(".timings.parquet")


def selections_path(results: Path | str) -> Path:
    """Return the path of the selection counts of a part of a results table."""
    return Path(results).with_suffix(".selected.json")


def to_parquet_bytes(df: pd.DataFrame) -> bytes:
    """Return the table as a Parquet file; the same table gives the same bytes."""
    buffer = io.BytesIO()
    df.reset_index(drop=True).to_parquet(buffer, engine="pyarrow", compression="zstd", index=False)
    return buffer.getvalue()


def summarize(df: pd.DataFrame) -> pd.DataFrame:
    """Summarize the repetitions of every cell and metric.

    Parameters
    ----------
    df : DataFrame
        A valid results table.

    Returns
    -------
    DataFrame
        A row per cell × metric, in the order of first appearance. `mean, median, q10, q90` and the
        standard error `se` = sd / √n_ok come from the repetitions that succeeded; `se` is NaN for a
        single one. Certified and audited ε are the largest over repetitions, `message` every
        distinct message, `status` "ok" or the first other status.
    """
    if df.empty:
        return pd.DataFrame(columns=list(SUMMARY_COLUMNS))
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
