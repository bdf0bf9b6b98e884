"""X'X with its smallest eigenvalue, and the ridge regression that follows: AdaSSP, and its boosted form.

Both release the smallest eigenvalue first. The ridge raises it above the noise in X'X.
"""

import numpy as np

from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import eigenvalue_sensitivity, outer_product_sum
from dpalgos.rows.products import from_upper_triangles
from dpalgos.typing import FloatArray

SMALLEST_EIGENVALUE, GRAM = "smallest eigenvalue", "X'X"


def release_gram(
    spend: Spend, gram: FloatArray, row_bound: float, calibration: str
) -> tuple[FloatArray, FloatArray]:
    """Release X'X (…, d, d) and its smallest eigenvalue (…,)."""
    eigenvalue = np.linalg.eigvalsh(gram)[..., 0]
    smallest = spend(SMALLEST_EIGENVALUE, eigenvalue_sensitivity.of(eigenvalue, row_bound)).value
    if calibration == "tight":
        return spend.symmetric(GRAM, outer_product_sum.of(gram, row_bound)).value, smallest
    # As printed: independent noise of one size on the upper triangle, whose sensitivity is √2 B² too.
    d = gram.shape[-1]
    first, second = np.triu_indices(d)
    triangle = spend(GRAM, outer_product_sum.of(gram[..., first, second], row_bound)).value
    return from_upper_triangles(triangle, d), smallest


def solve_ridge(gram: FloatArray, ridge: FloatArray, cross: FloatArray) -> FloatArray:
    """Return (G + λI)⁻¹ c for matrices (…, d, d), numbers (…,) and vectors (…, d)."""
    system = gram + np.asarray(ridge)[..., None, None] * np.eye(gram.shape[-1])
    return np.asarray(np.linalg.solve(system, cross[..., None])[..., 0])
