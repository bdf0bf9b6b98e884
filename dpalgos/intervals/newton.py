"""A last Newton step on released curvature, with intervals, for all models of bounded scores.

    β̂ = θ − Ĥ⁻¹ ĝ,   Ĥ = mean of the units' curvatures + noise,   ĝ = mean of their scores + noise

at a released θ. Units are rows, or users with all of theirs. The error of β̂ is that of
:mod:`dpalgos.intervals.regression`, besides what the curvature changes over the step.

    quantity                                     sensitivity
    Ĥ, of Frobenius norm at most L each unit     √2 L/n (:func:`curvature_sensitivity`)
    score moments, shares of units by size       (:mod:`dpalgos.intervals.half_widths`), scores of norm ≤ C

That change, at most ½ |ψ'''| (x'δ)² x for δ = θ − β, is not known. With |ψ'''| ≤ ψ'' (logistic, Poisson), p
the mean of ψ'' and rows no more skewed than a column of ones, it moves coefficient j by at most
½ √((H⁻¹)_jj / p) δ'Hδ, which is counted as bias. The curvature tells p from below: tr H ≤ p c_x².
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from dpalgos.intervals.glm import CURVATURE, ReleasedCurvature, release_curvature
from dpalgos.intervals.half_widths import release_score_moments
from dpalgos.intervals.regression import note_step_interval, unresolved_coordinates
from dpalgos.release.transcript import Transcript
from dpalgos.typing import FloatArray


class BoundedScores(Protocol):
    """Units whose curvatures and scores are bounded by public constants.

    Attributes
    ----------
    n_units : (R,) array
    curvature_bound : float
        L: of the Frobenius norm of a unit's curvature, which is positive semidefinite.
    score_bound : float
        C: of the ℓ2 norm of a unit's score.
    bend : float
        ψ'' at 0, by which the change of curvature over a step is judged; 0 where it is constant.
    row_bound : float
        c_x, to which rows are clipped; 0 where they are not, but scores.
    """

    @property
    def n_units(self) -> FloatArray: ...
    @property
    def curvature_bound(self) -> float: ...
    @property
    def score_bound(self) -> float: ...
    @property
    def bend(self) -> float: ...
    @property
    def row_bound(self) -> float: ...

    def mean_curvature(self, coef: FloatArray) -> FloatArray:
        """Return the mean of the units' curvatures, (R, d, d)."""
        ...

    def score_moments(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return second moments of the units' scores, (R, d, d), and shares of units above sizes, (6, R)."""
        ...


def step_with_interval(
    transcript: Transcript,
    level: float,
    *,
    model: BoundedScores,
    theta: FloatArray,
    gradient: FloatArray,
    gradient_std: FloatArray,
    multiplier: Callable[[str], float],
    output_std: FloatArray | float = 0.0,
    ridge: FloatArray | float = 0.0,
    label: str = CURVATURE,
) -> FloatArray:
    """Return β̂ (d, R), and note the half-widths of its intervals.

    Parameters
    ----------
    theta, gradient, gradient_std : (d, R), (d, R) and (R,) arrays
        θ and ĝ, released, and the noise in ĝ.
    multiplier : callable
        Part of the budget → its noise multiplier: the curvature, and those of
        :func:`dpalgos.intervals.half_widths.release_score_moments`.
    output_std, ridge : (R,) arrays or float
        Noise in θ itself, of which ĝ does not know, and the ridge with which θ was found.
    """
    n_units = model.n_units
    curvature = release_curvature(
        transcript,
        model.mean_curvature(theta),
        np.full_like(n_units, model.curvature_bound),
        n_units,
        multiplier(CURVATURE),
        label=label,
    )
    step = -np.einsum("rij,jr->ir", curvature.inverse, gradient)
    answer = theta + step
    scores = release_score_moments(
        transcript,
        *model.score_moments(answer),
        bound=np.full_like(n_units, model.score_bound),
        n_rows=n_units,
        multiplier=multiplier,
    )
    score_std = np.hypot(gradient_std, output_std * (curvature.raised[:, -1] + ridge))
    note_step_interval(
        transcript,
        level,
        inverse=curvature.inverse,
        lever=curvature.inverse,
        step=step,
        gram_std=curvature.noise_std,
        score_std=score_std,
        scores=scores,
        n_rows=n_units,
        unresolved=unresolved_coordinates(curvature.eigenvalues, curvature.vectors, curvature.noise_std),
        bias=_bent(model, curvature, step, score_std, scores.moments),
        score_level=None if model.row_bound else np.full_like(n_units, model.score_bound),
        row_bound=model.row_bound * np.sqrt(model.bend or 1.0),  # the curvature is ψ'' times second moments
        power=1.0 if model.bend else 2.0,
    )
    return np.asarray(answer)


def _bent(
    model: BoundedScores,
    curvature: ReleasedCurvature,
    step: FloatArray,
    score_std: FloatArray,
    moments: FloatArray,
) -> FloatArray:
    """Return the bound on what the curvature changes over the step, (d, R); 0 where it is constant."""
    if model.bend == 0:
        return np.zeros_like(step)
    along, raised = np.einsum("rij,ir->rj", curvature.vectors, step), curvature.raised
    size = (raised * along**2).sum(axis=1) + score_std**2 * (1 / raised).sum(axis=1)
    size += np.einsum("rij,rji->r", curvature.inverse, moments) / model.n_units
    largest = model.row_bound**2 or model.curvature_bound / model.bend
    weight = np.minimum(raised.sum(axis=1) / largest, model.bend)
    return np.asarray(np.sqrt(np.einsum("rjj->jr", curvature.inverse) / weight) * size / 2)
