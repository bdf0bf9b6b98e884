"""The comparison of two runs of a study, and Welch's test of two means."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from data.results.summary import Mean, summarize

if TYPE_CHECKING:
    import pandas as pd

_KEYS = ["study", "cell", "metric"]
_FEWEST_REPETITIONS = 10  # below, Welch's test finds up to 20 times as many differences as it should
_FAR_APART, _SPLITS = 0.1, 3_999  # Welch's p-value that asks for an exact one; random splits for that
# The p-values of so many standard errors where repetitions are many.
TWO_ERRORS, THREE_ERRORS = (math.erfc(z / math.sqrt(2)) for z in (2, 3))


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
