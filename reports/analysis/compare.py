"""Differences between two results tables beyond their error bars."""

from typing import Any

import numpy as np
import pandas as pd

from reports.analysis.results import summarize

_KEYS = ["study", "cell", "metric"]
_CLEAR = 3.0  # standard errors of the difference


def compare_results(first: pd.DataFrame, second: pd.DataFrame) -> dict[str, Any]:
    """Compare two results tables cell by cell.

    ``different`` are cells whose means differ by more than three standard errors of the difference, or whose
    status or certified ε differs.
    """
    left, right = (summarize(table).set_index(_KEYS) for table in (first, second))
    both = left.index.intersection(right.index)
    found = {key: _reasons(left.loc[key], right.loc[key]) for key in both}
    different = [
        {
            **dict(zip(_KEYS, key, strict=True)),
            "first": _number(left.loc[key, "mean"]),
            "second": _number(right.loc[key, "mean"]),
            "reasons": reasons,
        }
        for key, reasons in found.items()
        if reasons
    ]
    order = [*_KEYS, "replicate"]
    one, other = (table.sort_values(order, ignore_index=True) for table in (first, second))
    return {
        "identical": one.equals(other),
        "cells": len(both),
        "only_first": sorted(str(key[1]) for key in left.index.difference(right.index)),
        "only_second": sorted(str(key[1]) for key in right.index.difference(left.index)),
        "different": different,
    }


def describe(differences: dict[str, Any]) -> str:
    if differences["identical"]:
        return f"identical in all {differences['cells']} cells"
    lines = [
        f"{differences['cells']} cells in both, {len(differences['different'])} of them differ beyond "
        f"{_CLEAR:g} standard errors; {len(differences['only_first'])} only in the first, "
        f"{len(differences['only_second'])} only in the second"
    ]
    lines += [
        f"{row['cell']} {row['metric']}: {row['first']} → {row['second']} ({'; '.join(row['reasons'])})"
        for row in differences["different"]
    ]
    return "\n".join(lines)


def _reasons(a: pd.Series, b: pd.Series) -> list[str]:
    reasons = []
    if a["status"] != b["status"]:
        reasons.append(f"status {a['status']} → {b['status']}")
    if not np.isclose(a["certified_epsilon"], b["certified_epsilon"], rtol=1e-6, equal_nan=True):
        reasons.append("certified ε differs")
    gap, error = b["mean"] - a["mean"], np.hypot(np.nan_to_num(a["se"]), np.nan_to_num(b["se"]))
    if np.isfinite(gap) and abs(gap) > _CLEAR * error + 1e-12 * abs(a["mean"]):
        reasons.append(f"{gap:+.3g}, standard error {error:.2g}")
    return reasons


def _number(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None
