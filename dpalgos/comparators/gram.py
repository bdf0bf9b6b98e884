"""X'X with its smallest eigenvalue, the ridge regression that follows, and sketches of X.

AdaSSP and its boosted form release the smallest eigenvalue first. The ridge raises it above the noise in X'X.
"""

import numpy as np

from dpalgos.accounting.other_events import Sketch
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import lemma, outer_product_sum
from dpalgos.rows.symmetric import from_upper_triangles
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


def release_sketch(
    spend: Spend, label: str, gram: FloatArray, row_bound_squared: float, *, added: FloatArray
) -> FloatArray:
    """Release draws of N(0, A'A + added · I), (…, n_rows, p), for ``gram`` A'A, (…, p, p).

    ``added``, () or (R,), is the noise of the sketch. The smallest eigenvalue of that matrix is at least the
    slot's ridge times ``row_bound_squared``.
    """
    slot, p = spend.slot(label, Sketch), gram.shape[-1]
    every = gram if spend.is_batch else gram[None]
    every = np.broadcast_to(every, (spend.noise.n_replicates, p, p))
    ridge = 0.0 if spend.noise.silent else np.reshape(added, (-1, 1, 1))
    covariance = every + ridge * np.eye(p)

    def rows() -> FloatArray:
        normals = np.moveaxis(spend.noise.projection(slot.n_rows, p), -1, 0)
        return np.asarray(normals @ np.swapaxes(np.linalg.cholesky(covariance), -1, -2))

    drawn = spend.release(label, covariance, rows, sensitivity=row_bound_squared)
    return drawn if spend.is_batch else drawn[0]


def solve_ridge(gram: FloatArray, ridge: FloatArray, cross: FloatArray) -> FloatArray:
    """Return (G + λI)⁻¹ c for matrices (…, d, d), numbers (…,) and vectors (…, d)."""
    system = gram + np.asarray(ridge)[..., None, None] * np.eye(gram.shape[-1])
    return np.asarray(np.linalg.solve(system, cross[..., None])[..., 0])


@lemma("B²")
def eigenvalue_sensitivity(row_bound: float) -> FloatArray:
    """Return the sensitivity B² of the smallest eigenvalue of X'X under replacing one row.

    Removing a row lowers it by at most ‖x‖², adding one raises it by at most that, and the two do not add up.
    The only row along an axis against one along another attains it. The loss of a sketch depends on a row
    through the same B² over its ridge.
    """
    return np.asarray(row_bound**2)


@lemma("0, except with the charged probability")
def failure_sensitivity() -> FloatArray:
    """Return 0, of a failure probability: it is charged to δ, and nothing is released."""
    return np.zeros(())
