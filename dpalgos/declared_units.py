"""The unit of a column of which public bounds are declared."""

from math import inf

from dpalgos.errors import InputError
from dpalgos.release.checks import LARGEST_BOUND, SMALLEST_BOUND


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
