"""Who is better in the league: errors, ratios to the smallest, and comparisons that count both errors.

A setting is a table at an ε. In it the method of this project is compared with one rival: the one whose
mean error is smallest in one half of the repetitions. The comparison uses the other half, which is
independent of that choice. A method whose claim an attack or a replay violates is no rival.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from data.results.comparison import TWO_ERRORS, p_value
from data.results.summary import Mean

LEAST_ERROR = 1e-3  # an error below counts as that
MOST_ERROR = 100.0  # at which errors are cut off
# What this project recommends where units are public, or the bounds of columns.
OURSELVES = "this project"  # the library of estimators in the catalog
OURS = ("preconditioned_regression", "preconditioned_glm", "box_mean")
_VALUES = ("epsilon", "value", "standard_error", "seconds", "repetitions", "halves")
_SETTING = ["family", "table", "epsilon"]

Verdict = Literal["better", "worse", "undecided"]


@dataclass(frozen=True)
class Comparison:
    """The method of this project against the best rival in a setting; None is no answer."""

    family: str
    table: str
    epsilon: float
    rival: str
    own: Mean | None
    other: Mean | None
    verdict: Verdict

    @property
    def ratio(self) -> tuple[float, float]:
        """Return our error over the rival's, and its standard error."""
        if self.own is None or self.other is None:
            return (math.inf if self.own is None else 0.0), math.nan
        own, other = (max(each.value, LEAST_ERROR) for each in (self.own, self.other))
        return own / other, own / other * math.hypot(self.own.error / own, self.other.error / other)


def rows_of(
    results: pd.DataFrame, panels: Mapping[str, tuple[str, str]], methods: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return a row per table, method and ε of a results table: its mean error and two halves', or why none.

    ``panels`` gives the table and its family by panel, ``methods`` the method by estimator.
    """
    rows = []
    of_methods = results[results["estimator"].isin(list(methods)) & results["epsilon"].notna()]
    for _, fits in of_methods.groupby(["panel", "estimator", "epsilon"], sort=False):
        first = fits.iloc[0]
        table, family = panels[str(first["panel"])]
        row: dict[str, Any] = {"table": table, "family": family, "epsilon": float(first["epsilon"])}
        row["method"] = methods[str(first["estimator"])]
        failed = fits[fits["status"] != "ok"]
        if len(failed):
            rows.append({**row, "error": str(failed["message"].iloc[0])})
            continue
        errors = fits.sort_values("replicate")["value"].tolist()
        whole = Mean.of(errors)
        halves = [_stored(Mean.of(errors[1::2])), _stored(Mean.of(errors[::2]))] if len(errors) > 1 else None
        more = dict(zip(("value", "standard_error", "repetitions"), _stored(whole), strict=True))
        rows.append({**row, **more, "halves": halves})
    return rows


def _stored(mean: Mean) -> list[Any]:
    """Return a mean, its standard error (None: unknown) and the number of repetitions."""
    return [mean.value, None if math.isnan(mean.error) else mean.error, mean.repetitions]


def _read(value: float, error: float | None, repetitions: int) -> Mean:
    return Mean(value, math.nan if error is None else error, repetitions)


def errors_of(results: Mapping[str, Any]) -> pd.DataFrame:
    """Return a row per family, table and ε and a column per method: its mean error.

    Infinite where a method failed, NaN where it was not tried.
    """
    rows = pd.DataFrame(results["rows"]).reindex(columns=[*_SETTING, "method", "value"])
    if rows.empty:
        index = pd.MultiIndex.from_tuples([], names=_SETTING)
        return pd.DataFrame(columns=list(results["methods"]), index=index)
    return rows.fillna({"value": np.inf}).pivot(index=_SETTING, columns="method", values="value")


def ratios_of(results: Mapping[str, Any]) -> pd.DataFrame:
    """Return errors as :func:`errors_of` does, over the smallest one of a method whose claim holds."""
    errors = errors_of(results).clip(lower=LEAST_ERROR)
    honest = errors.drop(columns=violated(results), errors="ignore")
    least = honest.min(axis=1).where(lambda each: np.isfinite(each), 1.0)
    return errors.div(least, axis=0)


def violated(results: Mapping[str, Any]) -> set[str]:
    """Return the methods whose claim an attack or a replay violates."""
    audits = results.get("audits", ())
    return {each["method"] for each in audits if each.get("violated") or each.get("violated_replay")}


def comparisons(results: Mapping[str, Any]) -> list[Comparison]:
    """Compare the method of this project with the best rival in each setting that both tried."""
    failed, methods = violated(results), results["methods"]
    settings: dict[tuple[str, str, float], list[Mapping[str, Any]]] = {}
    for row in results["rows"]:
        if row["method"] not in failed:
            settings.setdefault((row["family"], row["table"], row["epsilon"]), []).append(row)
    pairs = []
    for place, rows in sorted(settings.items()):
        our_rows = [row for row in rows if methods[row["method"]]["ours"]]
        others = [row for row in rows if not methods[row["method"]]["ours"]]
        if our_rows and others:
            mine, rival = _chosen(our_rows), _chosen(others)
            if mine.get("value") is not None or rival.get("value") is not None:
                verdict = _verdict(_judged(mine), _judged(rival))
                summaries = (_whole(mine), _whole(rival))
                pairs.append(Comparison(*place, rival["method"], *summaries, verdict))
    return pairs


def _chosen(rows: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the row whose error is least in the half of the repetitions that is not compared."""

    def error(row: Mapping[str, Any]) -> float:
        halves, value = row.get("halves"), row.get("value")
        return float(halves[0][0]) if halves else math.inf if value is None else float(value)

    return min(rows, key=error)


def _judged(row: Mapping[str, Any]) -> Mean | None:
    halves = row.get("halves")
    return _read(*halves[1]) if halves else _whole(row)


def _whole(row: Mapping[str, Any]) -> Mean | None:
    if row.get("value") is None:
        return None
    return _read(row["value"], row.get("standard_error"), row.get("repetitions", 1))


def _verdict(own: Mean | None, other: Mean | None) -> Verdict:
    """Compare two means at the level of two standard errors."""
    if own is None or other is None:
        return "worse" if own is None else "better"
    a, b = (each._replace(value=max(each.value, LEAST_ERROR)) for each in (own, other))
    if a.value == b.value or not p_value(a, b) < TWO_ERRORS:
        return "undecided"
    return "better" if a.value < b.value else "worse"


def with_others(results: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Add stored results of other libraries, in the settings of a run, to its results."""
    settings = {(row["table"], row["epsilon"]) for row in results["rows"]}
    others = {name for name, about in stored["methods"].items() if about["library"] != OURSELVES}
    rows = [r for r in stored["rows"] if r["method"] in others and (r["table"], r["epsilon"]) in settings]
    shown = {row["method"] for row in rows}
    return {
        **results,
        "rows": [*results["rows"], *rows],
        "audits": [*results["audits"], *(each for each in stored["audits"] if each["method"] in shown)],
        "methods": {**results["methods"], **{name: stored["methods"][name] for name in sorted(shown)}},
        "machines": {**stored["machines"], **results["machines"]},
    }


def measured_by(results: Mapping[str, Any]) -> str:
    """Say where the own estimators and the other libraries were measured."""
    return "; ".join(f"{methods}: {machine}" for methods, machine in results["machines"].items())


def shortened(results: dict[str, Any]) -> dict[str, Any]:
    """Return results with rows as lists by method and table, and numbers to four digits."""
    fits: dict[str, dict[str, list[Any]]] = {}
    for row in results["rows"]:
        of_table = fits.setdefault(row["method"], {}).setdefault(row["table"], [])
        if "value" in row:
            of_table.append([_rounded(row.get(key)) for key in _VALUES])
        else:
            of_table.append([row["epsilon"], row["error"]])
    return {**{key: value for key, value in results.items() if key != "rows"}, "fits": fits}


def lengthened(short: dict[str, Any]) -> dict[str, Any]:
    """Return the results that :func:`shortened` was given, except for the digits."""
    rows = [
        {"table": table, "method": method, "family": short["tables"][table]["family"], **_row(values)}
        for method, of_method in short["fits"].items()
        for table, fits in of_method.items()
        for values in fits
    ]
    return {**{key: value for key, value in short.items() if key != "fits"}, "rows": rows}


def _rounded(value: Any) -> Any:
    """Return a number to four digits, or the numbers of a list."""
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value if value is None or isinstance(value, int) else float(f"{value:.4g}")


def _row(values: list[Any]) -> dict[str, Any]:
    if len(values) == 2:
        return dict(zip(("epsilon", "error"), values, strict=True))
    return dict(zip(_VALUES, values, strict=True))
