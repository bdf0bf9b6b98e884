"""Minimizing a risk with a ridge where columns are many: Newton's method by matrix–vector products.

Newton's equations are solved by conjugate gradients, for all replicates at once, as precisely as the distance
from the minimum warrants; a step is halved until the risk falls. Deterministic: the same rows give the same
answer, as objective perturbation asks.
"""

from collections.abc import Callable

import numpy as np

from dpalgos.risk import Risk
from dpalgos.typing import BoolArray, FloatArray

_MOST_PRODUCTS = 1000
_MOST_HALVINGS = 40
_LOOSEST = 0.1
_ROUNDING = 1e-13


def minimize_by_products(
    risk: Risk, tolerance: FloatArray, *, most_steps: int, step_size: float = 1.0
) -> FloatArray:
    """Return the coefficients at which Newton's method ends, from zero.

    Parameters
    ----------
    risk : Risk
        With a ridge, and without classes.
    tolerance : (R,) array
        Norm of the gradient at which a replicate is done.
    most_steps : int
        Newton steps at most; whether the tolerance was reached is for the caller to see.
    step_size : float
        Factor on a Newton step before it is halved.
    """
    coef: FloatArray = np.zeros(risk.shape)
    gradient, current = risk.gradient(coef), risk.loss(coef)
    first = np.linalg.norm(gradient, axis=0)
    for _ in range(most_steps):
        norm = np.linalg.norm(gradient, axis=0)
        active = norm > tolerance
        if not active.any():
            break
        precision = np.minimum(_LOOSEST, np.sqrt(norm / np.maximum(first, norm)))
        step = conjugate_gradients(risk.curvature_product(coef), gradient, precision * norm, active)
        size = np.where(active, step_size, 0.0)
        for _ in range(_MOST_HALVINGS):
            moved = coef - size * step
            after = risk.loss(moved)
            rising = active & ~(after <= current + _ROUNDING * (1 + np.abs(current)))
            if not rising.any():
                break
            size = np.where(rising, size / 2, size)
        coef, current = np.where(active, moved, coef), np.where(active, after, current)
        gradient = risk.gradient(coef)
    return coef


def conjugate_gradients(
    product: Callable[[FloatArray], FloatArray],
    target: FloatArray,
    tolerance: FloatArray,
    active: BoolArray,
) -> FloatArray:
    """Return V (d, R) with ‖product(V) − target‖ ≤ tolerance (R,) for positive definite products.

    Replicates that are not ``active`` stay zero.
    """
    solution, residual = np.zeros_like(target), target.copy()
    direction, squared = residual.copy(), (residual**2).sum(axis=0)
    for _ in range(_MOST_PRODUCTS):
        active = active & (np.sqrt(squared) > tolerance)
        if not active.any():
            break
        curved = product(direction)
        length = (direction * curved).sum(axis=0)
        along = np.where(active, squared / np.where(length > 0, length, np.inf), 0.0)
        solution += along * direction
        residual -= along * curved
        before, squared = squared, np.where(active, (residual**2).sum(axis=0), squared)
        direction = np.where(active, residual + squared / np.where(before > 0, before, 1.0) * direction, 0.0)
    return solution
