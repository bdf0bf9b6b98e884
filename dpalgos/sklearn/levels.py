"""Categorical columns with declared levels, as indicator columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpalgos.coefficients import frame_of
from dpalgos.errors import InputError, shown
from dpalgos.release.checks import as_levels, check_levels


def level_columns(levels: Mapping[str, Sequence[Any]] | None) -> dict[str, tuple[str, ...]]:
    """Return the names of the indicator columns of each category: all levels except the first."""
    return {name: tuple(f"{name}={level}" for level in each[1:]) for name, each in (levels or {}).items()}


def coded_levels(X: Any, levels: Mapping[str, Sequence[Any]]) -> Any:
    """Return a data frame with indicator columns for all levels except the first, in place of categories."""
    if not hasattr(X, "columns"):
        raise InputError(f"levels by column needs X as a data frame, got {type(X).__name__}; pass a frame")
    if not isinstance(levels, Mapping):
        raise InputError(
            f"levels must be a dictionary, {{'region': ['north', 'south']}}, got {shown(levels)}"
        )
    columns: dict[str, Any] = {}
    for name in levels:
        if name not in X.columns:
            raise InputError(f"levels must be of columns of X, got {name!r}; correct the name")
        check_levels(name, levels[name])
    coded = level_columns(levels)
    names = [*map(str, X.columns), *(column for each in coded.values() for column in each)]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"X would have two columns {twice[0]!r} with the levels; rename a column")
    for name in X.columns:
        values = np.asarray(X[name])
        if name not in levels:
            columns[name] = values
            continue
        if (found := as_levels(values, levels[name])) is None:
            raise InputError(f"column {name!r} must hold its declared levels only; declare all levels")
        columns |= {
            column: (found == level) * 1.0
            for column, level in zip(coded[name], levels[name][1:], strict=True)
        }
    return frame_of(columns)
