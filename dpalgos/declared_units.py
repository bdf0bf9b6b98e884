"""The unit of a column of which only bounds are declared."""


def unit_of_bounds(lower: float, upper: float) -> tuple[float, float]:
    """Return the middle and a quarter of the width: values lie within ±2 units, most of them within ±1."""
    return (lower + upper) / 2, (upper - lower) / 4
