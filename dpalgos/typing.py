"""Types used in signatures."""

from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]
BoolArray = npt.NDArray[np.bool_]

Number = float | FloatArray

_NUMBERS = (int, float, np.integer, np.floating)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number; a truth value is none."""
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)
