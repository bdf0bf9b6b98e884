"""Curvature of normal rows, corrected by what two released scores tell of it along the step between them.

With m = θ_t − θ_{t−1} the released scores g differ by m'(g_{t−1} − g_t) = m' H m + noise, H the curvature of
the loss as it is. Where rows are far from normal (a rare group with many events, few large counts) that of
normal rows is wrong, and steps swing about the answer or creep towards it. The noise is known,

    m'(g_{t−1} − g_t) ~ m' H m + η s² tr(H⁻¹) ± s ‖m‖ √2,   s that of a coordinate of a score,

the second term since m follows g_{t−1}, and its noise. Where the difference from the model is beyond three
standard deviations and a factor of 1.5, H is scaled along m: up to ten times, or, after short steps, down to
a half; in linear models, where clipped rows add no curvature, after any step. What is scaled up stays so in
later steps, which would swing along m again; in linear models all that is scaled. All of it is made of
released quantities.
"""

from typing import NamedTuple

import numpy as np

from dpalgos.models.families import Family
from dpalgos.models.normal_curvature import normal_curvature
from dpalgos.steps.denoising import james_stein
from dpalgos.typing import FloatArray

_SURE, _OFF = 3.0, 1.5
_LEAST, _MOST = 0.5, 10.0
_SHORT = 0.6  # in white units


class _Known(NamedTuple):
    theta: FloatArray
    score: FloatArray
    noise_std: FloatArray
    curvature: FloatArray
    own_noise: FloatArray


class SecantCurvature:
    """The curvature at the points of Newton-like steps, of families without classes.

    ``center`` (d, R) is the mean white row, of norm at most 1; ``origin`` (R,) the predictor where θ = 0.
    """

    def __init__(self, family: Family, center: FloatArray, origin: FloatArray | float) -> None:
        self._family, self._center, self._origin = family, center, origin
        self._before: _Known | None = None
        self._steeper: list[tuple[FloatArray, FloatArray]] = []  # directions (d, R) and factors (R,)

    def at(self, theta: FloatArray, score: FloatArray, noise_std: FloatArray) -> FloatArray:
        """Return the curvature (R, d, d) at θ (d, R), where a score is released with that noise, (R,)."""
        curvature = self.model(theta)
        before = self._before
        self._before = _Known(theta, score, noise_std, curvature, np.zeros_like(noise_std))
        if before is None:
            return curvature
        move = theta - before.theta
        length = np.linalg.norm(move, axis=0)

        def along(matrix: FloatArray) -> FloatArray:
            return np.asarray(np.einsum("ir,rij,jr->r", move, matrix, move))

        found = (move * (before.score - score)).sum(axis=0) - before.own_noise
        expected = along(before.curvature + curvature) / 2
        sure = np.abs(found - expected) > _SURE * np.hypot(before.noise_std, noise_std) * length
        near = self._family.is_linear | (length < _SHORT)
        sure = sure & ((found > _OFF * expected) | ((found < expected / _OFF) & near))
        with np.errstate(over="ignore"):  # a flat model has next to no curvature: any found is the most
            factor = np.clip(found / np.maximum(expected, np.finfo(float).tiny), _LEAST, _MOST)
        unit = move / np.maximum(length, np.finfo(float).tiny)
        factor = np.where(sure, factor, 1.0)
        kept = factor if self._family.is_linear else np.maximum(factor, 1.0)
        if (kept != 1).any():
            self._steeper.append((unit, kept))
        return _scaled(curvature, unit, factor)

    def over(self, step: FloatArray, noise_std: FloatArray, curvature: FloatArray) -> FloatArray:
        """Return the mean of a ``curvature`` at the last point and that at the end of a step (d, R).

        As much of the step counts as noise of ``noise_std`` (R,) does not explain.
        """
        assert self._before is not None
        end = self._before.theta + james_stein(step, noise_std**2)
        return np.asarray((curvature + self.model(end)) / 2)

    def model(self, theta: FloatArray) -> FloatArray:
        """Return the curvature (R, d, d) of normal rows at θ, steeper where scores so far have shown it."""
        curvature = normal_curvature(self._family, theta, self._center, self._origin)
        for direction, times in self._steeper:
            curvature = _scaled(curvature, direction, times)
        return curvature

    def moved_to(self, theta: FloatArray, center: FloatArray) -> None:
        """Note that rows, of mean ``center``, were whitened again, so that the last point is now θ (d, R)."""
        self._center = center
        if self._before is not None:
            self._before = self._before._replace(theta=theta)

    def moved(self, own_noise: FloatArray) -> None:
        """Note how much of the last score's noise the step along it has, m'(noise), on average, (R,)."""
        assert self._before is not None
        self._before = self._before._replace(own_noise=own_noise)


def _scaled(curvature: FloatArray, unit: FloatArray, factor: FloatArray) -> FloatArray:
    """Return the curvature (R, d, d) scaled by ``factor`` (R,) along ``unit`` (d, R)."""
    change = (factor - 1) * np.einsum("ir,rij,jr->r", unit, curvature, unit)
    return np.asarray(curvature + np.einsum("r,ir,jr->rij", change, unit, unit))
