"""Public rows without responses, as keywords of estimators."""

from typing import Any

from dpalgos.errors import InputError
from dpalgos.rows.blocks import float_array, largest_magnitude
from dpalgos.typing import FloatArray


def check_public_rows(name: str, value: Any) -> FloatArray:
    """Return public rows (m, d), or refuse what is none."""
    rows = float_array(name, value, n_dimensions=2).astype(float)
    if len(rows) == 0:
        raise InputError(f"{name} must have at least one row, got none; leave it out")
    largest_magnitude(name, [rows])
    return rows


def check_public_columns(rows: FloatArray | None, n_features: int) -> FloatArray:
    """Return public rows, or refuse those that are missing or have other columns than X."""
    if rows is None:
        raise InputError("public_X must be given, got none; pass public rows with the columns of X")
    if rows.shape[1] != n_features:
        raise InputError(f"public_X must have the columns of X, {n_features}, got {rows.shape[1]}")
    return rows
