"""Arguments of mechanisms, checked; messages name public arguments and never a private value."""

from collections.abc import Collection, Iterable, Mapping, Set
from math import inf
from numbers import Number
from sys import float_info
from typing import Any, TypeGuard

import numpy as np

from dpalgos.errors import InputError, shown
from dpalgos.spelling import check_look_different, composed
from dpalgos.typing import FloatArray

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


def check_same_order(**values: Any) -> None:
    """Refuse rows of several arguments whose indexes have the same labels in another order."""
    indexes = {name: each.index for name, each in values.items() if hasattr(each, "iloc")}
    first = next(iter(indexes), "")
    for name, index in indexes.items():
        if index.equals(indexes[first]):  # nearly always, and much cheaper than what follows
            continue
        if index.is_unique and indexes[first].is_unique and set(index) == set(indexes[first]):
            raise InputError(f"{name} must have its rows in the order of {first}, by its index; reindex it")


def check_labels(settings: Mapping[str, Any], labels: Iterable[Any], reference: str) -> None:
    """Refuse a pandas object, or a pair of some, whose labels are those of ``reference`` in another order."""
    for name, value in settings.items():
        for part in value if isinstance(value, tuple | list) else [value]:
            own = list(getattr(part, "columns", part.index)) if hasattr(part, "iloc") else []
            if own and own != list(labels) and sorted(map(str, own)) == sorted(map(str, labels)):
                raise InputError(f"{name} must have its numbers in the order of {reference}; reindex it")


def check_by_column(name: str, value: Any) -> dict[str, Any]:
    """Return a public declaration by column as a dictionary, empty for None."""
    if value is not None and not hasattr(value, "items"):
        raise InputError(f"{name} must be a dictionary by the names of columns, got {shown(value)}")
    plain = {} if value is None else dict(value.items())
    if odd := [key for key in plain if not isinstance(key, str)]:
        raise InputError(f"{name} must be by the names of columns, which are text, got {shown(odd[0])}")
    check_look_different(f"names of columns in {name}", plain)
    return plain


def check_left_out(options: Collection[str], *names: str) -> None:
    """Refuse keywords of an estimator that a function sets by itself."""
    if extra_names := [name for name in names if name in options]:
        raise InputError(f"{extra_names[0]} must be left out here: it follows from the other arguments")


def as_levels(values: Any, levels: Collection[Any]) -> np.ndarray | None:
    """Return values (n,) as the levels that they equal, 1 for True; None if one equals no level."""
    known = {_comparable(level): level for level in levels}
    values, codes = np.asarray(values), None
    if values.dtype != object:
        values, codes = np.unique(values, return_inverse=True)
    try:
        plain = values.tolist()
        try:
            levels_of_values = np.fromiter(map(known.__getitem__, plain), dtype=object, count=len(values))
        except KeyError:  # a text in another Unicode form
            levels_of_values = np.fromiter(
                (known[_comparable(value)] for value in plain), object, len(values)
            )
        return levels_of_values if codes is None else levels_of_values[codes]
    except (KeyError, TypeError):  # a value that cannot be a key is no level either
        return None


def _comparable(value: Any) -> Any:
    return composed(value) if isinstance(value, str) and not value.isascii() else value


def check_levels(name: object, levels: Any) -> tuple[Any, ...]:
    """Return the public levels of a category in order; refuse missing, equal and equally written ones."""
    is_ordered = np.iterable(levels) and hasattr(levels, "__len__")
    is_ordered = is_ordered and not isinstance(levels, str | bytes | Set | Mapping)
    listed = tuple(levels) if is_ordered else ()
    are_plain = all(isinstance(each, str | Number | np.bool_) and each == each for each in listed)  # no NaN
    if not are_plain or not 2 <= len(listed) == len({composed(str(each)) for each in set(listed)}):
        raise InputError(
            f"levels must be like {{{name!r}: ['a', 'b']}}: two or more texts, numbers or truth values in "
            f"order, each written differently and none missing, got {shown(levels)}"
        )
    return listed


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


def check_probability(name: str, value: Any) -> float:
    """Return a number strictly between 0 and 1."""
    if not is_number(value) or not 0 < value < 1:  # compared as it is: it may be too long for a float
        example = 0.95 if name == "interval" else 0.1
        raise InputError(
            f"{name} must lie strictly between 0 and 1, got {shown(value)}; pass e.g. {name}={example}"
        )
    return float(value)


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


def unit_of_bounds(
    lower: float, upper: float, center: float | None = None, scale: float | None = None
) -> tuple[float, float]:
    """Return center and scale, by default the middle and a quarter of the width.

    Values then lie within ±2 units, most of them within ±1. Numbers so far from 1 that products of them
    vanish or overflow are refused; bounds may be infinite.
    """
    lower, upper = float(lower), float(upper)  # NumPy's would warn of an overflow
    is_far = any(LARGEST_BOUND < abs(each) < inf for each in (lower, upper))
    unit = (lower + upper) / 2 if center is None else center, (upper - lower) / 4 if scale is None else scale
    if is_far or (lower < upper and unit[1] < SMALLEST_BOUND) or LARGEST_BOUND < unit[1] < inf:
        raise InputError(
            f"bounds must lie within ±{LARGEST_BOUND:g}, and a unit between {SMALLEST_BOUND:g} and "
            f"{LARGEST_BOUND:g}, got {lower:g} and {upper:g} with unit {unit[1]:g}; change the unit of "
            "the data"
        )
    return unit
