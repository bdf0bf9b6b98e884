"""Intervals of generalized linear models whose rows and residuals are bounded by public constants.

    β̂ = θ − Ĥ⁻¹ ĝ,   Ĥ = mean of w_i x_i x_i' + noise,   ĝ = mean of r_i x_i + noise, at a released θ

with rows clipped to c_x, residuals r = ψ'(x'θ) − y to ± R, and curvatures w = ψ''(x'θ) cut at a public cap
K, 0 where the residual is clipped. The error of β̂ is that of :mod:`dpalgos.regression_intervals`, besides
what the curvature changes over the step.

    quantity                                sensitivity
    Ĥ, of norm at most K c_x² each          √2 K c_x²/n (:func:`dpalgos.glm_intervals.curvature_sensitivity`)
    score moments, share of rows clipped    (:mod:`dpalgos.intervals`), of scores at most R c_x long

That change, at most ½ |ψ'''| (x'δ)² x for δ = θ − β, is not known; with |ψ'''| ≤ ψ'' (logistic, Poisson)
and rows that are nearly symmetric it is well below ¼ δ'Hδ in a white direction, and coefficients are flagged
where half of that exceeds a quarter of their standard error.
"""

from collections.abc import Callable

import numpy as np

from dpalgos.catalog import Neighbors
from dpalgos.errors import InputError
from dpalgos.families import Family
from dpalgos.glm_intervals import CURVATURE, curvature_sensitivity
from dpalgos.intervals import SCORE_MOMENTS, SHARE_CLIPPED, release_score_moments
from dpalgos.mechanisms.clipping import clip_rows_l2
from dpalgos.mechanisms.symmetric import svec, unsvec, weighted_moments
from dpalgos.mechanisms.transcript import Transcript
from dpalgos.regression_intervals import note_step_interval, resolved_floor, unresolved_coordinates
from dpalgos.sample import Sample
from dpalgos.typing import FloatArray


def check_has_interval(family: Family, interval: float | None) -> None:
    """Refuse intervals of coefficients of classes."""
    if interval is not None and family.needs_classes:
        raise InputError(
            f"interval must be None for family={family.name!r}, got {interval!r}: its coefficients are known "
            "up to a common vector"
        )


def curvature_cap(family: Family) -> float:
    """Return K: the bound on ψ'', or where there is none the largest residual, at least 1."""
    return float(min(family.curvature_bound, max(family.residual_bound, 1.0)))


def mean_curvature(sample: Sample, family: Family, coef: FloatArray, row_bound: float) -> FloatArray:
    """Return the mean of w x x' at coefficients (d, R), (R, d, d)."""
    cap = curvature_cap(family)

    def weights(u: FloatArray, y: FloatArray) -> FloatArray:
        inside = ~_residual_clipped(family, u, y)
        return np.asarray(np.minimum(family.second_derivative(u), cap) * inside)

    return _mean_products(sample, family, coef, row_bound, weights)


def score_moments(
    sample: Sample, family: Family, coef: FloatArray, row_bound: float
) -> tuple[FloatArray, FloatArray]:
    """Return the mean of r² x x', (R, d, d), and the share of rows with anything clipped, (R,)."""
    moments = _mean_products(
        sample, family, coef, row_bound, lambda u, y: np.asarray(family.residual(u, y) ** 2)
    )
    cap, clipped = curvature_cap(family), np.zeros(sample.n_replicates)
    for group, y in sample.grouped(lambda group: family.encode(group.y)):
        u = clip_rows_l2(group.X, row_bound) @ coef[:, group.replicates]
        cut = _residual_clipped(family, u, y) | (family.second_derivative(u) > cap)
        cut |= (np.linalg.norm(group.X, axis=1) > row_bound)[:, None]
        clipped[group.replicates] += (cut * group.weights).sum(axis=0)
    return moments, clipped / sample.n_rows


def step_witnesses(family: Family, row_bound: float, theta: FloatArray) -> dict[str, Neighbors]:
    """Return rows along different axes, with responses as predicted at θ (d, 1) or far beyond the clip."""
    axes, zero = row_bound * np.eye(len(theta)), np.zeros(1)
    predicted = [np.floor(family.mean(axes[[j]] @ theta))[:, 0] for j in (0, -1)]
    far = np.full(1, np.ceil(10 * family.residual_bound) + 10 if family.needs_response_bound else 0.0)
    return {
        CURVATURE: (axes[:1], predicted[0], axes[-1:], predicted[1]),
        SCORE_MOMENTS: (axes[:1], far, axes[-1:], far),
        SHARE_CLIPPED: (2 * axes[:1], far, 0 * axes[:1], zero),
    }


def step_with_interval(
    transcript: Transcript,
    level: float,
    *,
    sample: Sample,
    family: Family,
    row_bound: float,
    theta: FloatArray,
    gradient: FloatArray,
    gradient_std: FloatArray,
    multiplier: Callable[[str], float],
    output_std: FloatArray | float = 0.0,
    ridge: FloatArray | float = 0.0,
) -> FloatArray:
    """Return β̂ (d, R), whose half widths are told.

    Parameters
    ----------
    theta, gradient : (d, R) arrays
        θ and ĝ, released.
    gradient_std : (R,) array
        Standard deviation of the noise in ĝ.
    multiplier : callable
        Part of the budget → its noise multiplier: the curvature, and those of
        :func:`dpalgos.intervals.release_score_moments`.
    output_std, ridge : (R,) arrays or float
        Standard deviation of noise in θ itself, of which ĝ does not know, and the ridge with which θ was
        found.
    """
    d, n_rows = sample.n_features, sample.n_rows
    largest = np.full_like(n_rows, curvature_cap(family) * row_bound**2)
    sensitivity, z = curvature_sensitivity(largest, n_rows), multiplier(CURVATURE)
    value = svec(mean_curvature(sample, family, theta, row_bound))
    released = transcript.gaussian(value, l2_sensitivity=sensitivity, noise_multiplier=z, label=CURVATURE)
    gram_std = transcript.noise_std(sensitivity, z, len(released))
    eigenvalues, vectors = np.linalg.eigh(unsvec(released, d))
    raised = np.maximum(eigenvalues, resolved_floor(d, gram_std)[:, None])
    inverse = (vectors / raised[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    step = -np.einsum("rij,jr->ir", inverse, gradient)
    answer = theta + step
    scores = release_score_moments(
        transcript,
        *score_moments(sample, family, answer, row_bound),
        bound=np.full_like(n_rows, family.residual_bound * row_bound),
        n_rows=n_rows,
        multiplier=multiplier,
    )
    score_std = np.hypot(gradient_std, output_std * (raised[:, -1] + ridge))
    note_step_interval(
        transcript,
        level,
        inverse=inverse,
        lever=inverse,
        step=step,
        gram_std=gram_std,
        score_std=score_std,
        scores=scores,
        n_rows=n_rows,
        unresolved=unresolved_coordinates(eigenvalues, vectors, gram_std),
        bias=_bent(family, inverse, raised, vectors, step, score_std, scores.moments, n_rows) / 2,
    )
    return np.asarray(answer)


def _bent(
    family: Family,
    inverse: FloatArray,
    eigenvalues: FloatArray,
    vectors: FloatArray,
    step: FloatArray,
    score_std: FloatArray,
    moments: FloatArray,
    n_rows: FloatArray,
) -> FloatArray:
    """Return ¼ E δ'Hδ in units of a white direction, (d, R); 0 for Gaussian responses."""
    if np.isfinite(family.curvature_bound) and not np.isfinite(family.derivative_bound):
        return np.zeros_like(step)
    along = np.einsum("rij,ir->rj", vectors, step)
    size = (eigenvalues * along**2).sum(axis=1) + score_std**2 * (1 / eigenvalues).sum(axis=1)
    size += np.einsum("rij,rji->r", inverse, moments) / n_rows
    typical = float(family.second_derivative(np.zeros((1, 1)))[0, 0])
    return np.asarray(np.sqrt(np.einsum("rjj->jr", inverse) / typical) * size / 4)


def _residual_clipped(family: Family, u: FloatArray, y: FloatArray) -> np.ndarray:
    if not family.needs_response_bound:
        return np.zeros(np.broadcast_shapes(u.shape, y.shape), dtype=bool)
    return np.asarray(np.abs(family.mean(u) - y) > family.residual_bound)


def _mean_products(
    sample: Sample,
    family: Family,
    coef: FloatArray,
    row_bound: float,
    weights: Callable[[FloatArray, FloatArray], FloatArray],
) -> FloatArray:
    """Return the mean of x x' times weights of predictors and responses, (R, d, d); rows are clipped."""
    d = sample.n_features
    moments = np.zeros((sample.n_replicates, d, d))
    for group, y in sample.grouped(lambda group: family.encode(group.y)):
        X = clip_rows_l2(group.X, row_bound)
        made = weights(X @ coef[:, group.replicates], y) * group.weights
        moments[group.replicates] += weighted_moments(X, made)
    return np.asarray(moments / sample.n_rows[:, None, None])
