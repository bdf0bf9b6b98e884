"""Keywords of an estimator: frozen dataclasses whose fields declare the allowed values.

A field is declared with one of the helpers below. The base class checks every field once, on construction.
Therefore an estimator can trust its parameters.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from dpalgos.errors import InputError, shown
from dpalgos.release.checks import LARGEST_BOUND, check_bound, check_probability
from dpalgos.rows.blocks import float_array, largest_magnitude
from dpalgos.typing import FloatArray

Check = Callable[[str, Any], Any]
_MOST = 1_000_000  # the maximum number of rounds, rows or columns of a keyword
_NOTHING: Mapping[str, float] = MappingProxyType({})

# The caller of an estimator sets these; a configuration of its settings must not.
_OF_THE_RUN = ("epsilon", "delta", "calibration", "rng", "replicates", "row_mask")


def positive(doc: str, *, default: Any = MISSING, optional: bool = False) -> Any:
    """Declare a positive number of a sensible size; ``optional``, or a default of None, also allows None."""
    return checked(doc, check_bound, default=default, optional=optional or default is None)


def count(doc: str, *, default: Any = MISSING) -> Any:
    """Declare a whole number from 1 to a million; a default of None also allows None."""
    return checked(doc, partial(check_how_many, most=_MOST), default=default, optional=default is None)


def choice(doc: str, options: tuple[Any, ...], *, default: Any = MISSING) -> Any:
    """Declare one of a few values."""

    def check(name: str, value: Any) -> Any:
        if np.ndim(value) or not any(value is option or value == option for option in options):
            allowed = ", ".join(repr(option) for option in options)
            raise InputError(f"{name} must be one of {allowed}, got {shown(value)}")
        return value

    return checked(doc, check, default=default)


def checked(doc: str, check: Check, *, default: Any = MISSING, optional: bool = False) -> Any:
    """Declare a field whose ``check(name, value)`` returns the clean value; ``optional`` also allows None."""

    def check_or_none(name: str, value: Any) -> Any:
        return None if value is None else check(name, value)

    metadata = {
        "doc": doc,
        "check": check_or_none if optional else check,
        "per_column": check is check_for_columns,
    }
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


def interval_level() -> Any:
    """Declare the keyword ``interval``."""
    doc = "confidence level of an interval per coordinate, e.g. 0.95; None: none"
    return checked(doc, check_probability, default=None, optional=True)


def check_settings(where: str, settings: Mapping[str, Any], instead: str) -> None:
    """Refuse settings from a file that would override decisions of the run, such as its budget.

    For the message, ``where`` is the name of their table, and ``instead`` says how to set those keywords.
    """
    for name in _OF_THE_RUN:
        if name in settings:
            raise InputError(f"{where}.{name} must be left out, got {settings[name]!r}; {instead}")


def describe_keywords(estimator: type[Any]) -> list[dict[str, Any]]:
    """Return name, documentation and default of each keyword, for catalogs."""
    return [
        {
            "name": item.name,
            "doc": item.metadata.get("doc", ""),
            "required": item.default is MISSING,
            **({} if item.default is MISSING else {"default": item.default}),
        }
        for item in dataclasses.fields(estimator)
    ]


def check_for_columns(name: str, value: Any) -> tuple[float, ...]:
    """Return a public number, or one per column, as a tuple."""
    array = np.asarray(value)
    numbers = array.dtype.kind in "iuf" and array.ndim <= 1 and array.size
    if numbers and (np.abs(array) <= LARGEST_BOUND).all():
        return tuple(float(entry) for entry in np.atleast_1d(array))
    raise InputError(
        f"{name} must be a public finite number, or one per column, within ±{LARGEST_BOUND:g}, "
        f"got {shown(value)}"
    )


def for_columns(name: str, values: tuple[float, ...], d: int) -> FloatArray:
    """Return one public number per column, (d, 1)."""
    if len(values) not in (1, d):
        raise InputError(
            f"{name} must be a number or one per column ({d}), got {len(values)}; pass {d} numbers"
        )
    return np.broadcast_to(np.array(values)[:, None], (d, 1))


def check_how_many(name: str, value: object, most: float = np.inf) -> int:
    """Return a whole number between 1 and ``most``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= most:
        allowed = "of at least 1" if most == np.inf else f"from 1 to {most}"
        raise InputError(f"{name} must be a whole number {allowed}, got {shown(value)}")
    return int(value)


def check_std_bounds(name: str, value: Any) -> tuple[float, float]:
    """Return (low, high), or refuse what is not a pair of positive numbers in this order."""
    if isinstance(value, tuple | list) and len(value) == 2:
        numbers = [v for v in value if isinstance(v, int | float | np.number) and not isinstance(v, bool)]
        if len(numbers) == 2 and 0 < numbers[0] <= numbers[1] < np.inf:
            return check_bound(name, numbers[0]), check_bound(name, numbers[1])
    raise InputError(
        f"{name} must be a pair (low, high) of positive numbers, low <= high, got {shown(value)}; "
        f"pass e.g. {name}=(1.0, 1.0) for a known standard deviation"
    )


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
