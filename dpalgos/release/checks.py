"""Arguments of mechanisms, checked; messages name public arguments and never a private value."""

from sys import float_info
from typing import Any, TypeGuard

import numpy as np

from dpalgos.errors import InputError, shown

# Products of a few public bounds, and their squares, are normal numbers: no sensitivity underflows.
SMALLEST_BOUND, LARGEST_BOUND = 1e-30, 1e30
# Beyond this, squares of squares overflow, and an overflow would show a single row through all clipping.
LARGEST_VALUE = 1e60

_NUMBERS = (int, float, np.integer, np.floating)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number; a truth value is none."""
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def unmasked(name: str, values: Any) -> Any:
    """Return values; refuse a masked array (or a list of some) with hidden ones, which would be used."""
    parts = [values, *values] if isinstance(values, list | tuple) else [values]
    if any(isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part) for part in parts):
        raise InputError(f"{name} must have no masked values; drop or repair those rows first")
    return values


def check_positive(name: str, value: object) -> float:
    """Return a positive finite number, or refuse it."""
    if not is_number(value) or not 0 < value <= float_info.max:
        raise InputError(f"{name} must be a positive finite number, got {shown(value)}; pass e.g. {name}=1.0")
    return float(value)


def check_bound(name: str, value: object) -> float:
    """Return a public bound, or refuse one so far from 1 that products of it vanish or overflow."""
    number = check_positive(name, value)
    if not SMALLEST_BOUND <= number <= LARGEST_BOUND:
        raise InputError(
            f"{name} must lie between {SMALLEST_BOUND:g} and {LARGEST_BOUND:g}, got {number:g}; "
            "change the unit of the data"
        )
    return number


def check_probability(name: str, value: Any) -> float:
    """Return a number strictly between 0 and 1."""
    if not is_number(value) or not 0 < value < 1:  # compared as it is: it may be too long for a float
        example = 0.95 if name == "interval" else 0.1
        raise InputError(
            f"{name} must lie strictly between 0 and 1, got {shown(value)}; pass e.g. {name}={example}"
        )
    return float(value)
