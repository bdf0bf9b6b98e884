"""A last Newton step on released curvature, or second moments, with intervals.

    β̂ = θ + Ĥ⁻¹ ĝ,   Ĥ = H + N, the mean of the units' curvatures + noise
                      ĝ = mean of their scores + noise, at a released (or public) θ

Units are rows, or users with all of theirs. Where the curvature is the same everywhere ĝ = H (β* − θ) + ξ,
with ξ the sampling error of the scores plus their noise, and exactly

    β̂ − β* = H⁻¹ (ξ − N Δ),   Δ = β̂ − θ  the step that was taken,

so that with known noise in N and ĝ and released second moments S of the scores (their mean square, hence
robust to errors whose spread depends on the row) the variance is that of Ĥ⁻¹(ξ − N Δ):

    T_j = l_j'(S/n + s² I) l_j + (σ²/2) (‖Δ‖² ‖l_j‖² + (l_j'Δ)²)

with l_j row j of what brings scores to coefficients, Ĥ⁻¹, s the scores' noise and N of standard deviation σ
in svec (σ on the diagonal, σ/√2 off it). To second order Ĥ⁻¹ N Δ has the mean (σ²/2) Ĥ⁻¹ (tr(Ĥ⁻¹) I + Ĥ⁻¹) Δ,
whose square is added. What the curvature changes over the step is not known and counted as a bias.

    quantity                                      sensitivity
    how many curvatures exceed a level            1
    Ĥ, of Frobenius norm at most L each unit      √2 L/n (:func:`curvature_sensitivity`)
    score moments, shares of units by size        (:mod:`dpalgos.intervals.half_widths`), scores of norm ≤ C

:func:`step_with_interval` is for models whose L and C are public. The curvature changes by at most
½ |ψ'''| (x'δ)² x for δ = θ − β. With |ψ'''| ≤ ψ'' (logistic, Poisson), p the mean of ψ'' and rows no more
skewed than a column of ones, that moves coefficient j by at most ½ √((H⁻¹)_jj / p) δ'Hδ. The curvature tells
p from below: tr H ≤ p c_x².

:func:`last_step` is for whitened rows u = W x, and scores clipped to a released norm. L is a level that few
of the ψ''‖u‖² exceed; a row beyond it is shortened to it. The answer is W times the step's, and the bias
½ ‖Δ‖² |ψ'''|/ψ'' for a step Δ, in a white direction, at a typical predictor.

Clipping moves the mean score by at most a reach times what the released sizes bound
(:mod:`dpalgos.intervals.tails`): by the clip level where scores are clipped; where rows and responses are, by
c_x times 1.5 of the residuals' root mean square for a row of size 1, and by the square of the size beyond. Of
that a coefficient takes the part that the second moments of the scores show along its lever
(:func:`dpalgos.intervals.half_widths.reach_along`).

A direction whose eigenvalue in Ĥ is not well above the noise's spectral norm, about √(2d) σ, is unresolved,
and a coefficient that takes part in one is flagged.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dpalgos.intervals.bounded_scores import BoundedScores
from dpalgos.intervals.half_widths import (
    BENT,
    CLIPPED,
    CURVATURE,
    ScoreMoments,
    note_interval,
    reach_along,
    release_score_moments,
)
from dpalgos.intervals.tails import shares_above
from dpalgos.mechanisms.clip_levels import counts_needed, search_level
from dpalgos.models.families import Family
from dpalgos.models.whitened_scores import WhitenedScores
from dpalgos.release.transcript import Transcript
from dpalgos.steps.moments import svec, unsvec
from dpalgos.typing import BoolArray, FloatArray

CURVATURE_SHARES = {"curvature levels": 0.03, "curvature": 0.21}  # of μ², in the last step
CURVATURE_COUNTS = "curvatures above a level"

_CLIPPED = 0.02  # of the rows: what that takes from H only changes a step that is short by then
_LEVELS = np.geomspace(0.3, 30, 16)  # times d and the curvature at the middle
_RESOLVED = 2.2  # eigenvalues above this many √d σ
_RESIDUALS = 1.5  # root mean squares of the residuals that a clipped row's is taken to have
_LARGEST_PART = 0.01  # of a unit coefficient's squared length, in unresolved directions


def curvature_sensitivity(level: FloatArray, n_rows: FloatArray) -> FloatArray:
    """Return √2 L/n, (R,): ψ'' u u' of norm L each, of rows whose u are orthogonal."""
    return np.asarray(np.sqrt(2) * level / n_rows)


class ReleasedCurvature(NamedTuple):
    """A released mean curvature (R, d, d): its eigenvalues, raised to what stands out from the noise.

    ``vectors`` (R, d, d) are the eigenvectors, as columns, ``inverse`` uses the raised eigenvalues, and
    ``noise_std`` (R,) is σ of the noise in svec.
    """

    eigenvalues: FloatArray
    vectors: FloatArray
    raised: FloatArray
    inverse: FloatArray
    noise_std: FloatArray


def raised_curvature(
    released: FloatArray, noise_std: FloatArray, ridge: FloatArray | None = None
) -> ReleasedCurvature:
    """Return released curvature (R, d, d), its eigenvalues raised by a ``ridge`` (R,) and to the noise."""
    eigenvalues, vectors = np.linalg.eigh(released)
    ridged = eigenvalues if ridge is None else eigenvalues + ridge[:, None]
    raised = np.maximum(ridged, _resolved_floor(released.shape[-1], noise_std)[:, None])
    inverse = (vectors / raised[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return ReleasedCurvature(eigenvalues, vectors, raised, inverse, noise_std)


def release_curvature(
    transcript: Transcript,
    curvature: FloatArray,
    largest: FloatArray,
    n_units: FloatArray,
    multiplier: float,
    label: str = CURVATURE,
) -> ReleasedCurvature:
    """Release the mean (R, d, d) of units' curvatures, of Frobenius norms at most ``largest`` (R,)."""
    sensitivity = curvature_sensitivity(largest, n_units)
    released = transcript.gaussian(
        svec(curvature), l2_sensitivity=sensitivity, noise_multiplier=multiplier, label=label
    )
    noise_std = transcript.noise_std(sensitivity, multiplier, len(released))
    return raised_curvature(unsvec(released, curvature.shape[-1]), noise_std)


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
        θ and −ĝ, released, and the noise in ĝ.
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
        label,
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
        curvature=curvature,
        step=step,
        score_std=score_std,
        scores=scores,
        n_rows=n_units,
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


def last_step(
    transcript: Transcript,
    level: float,
    *,
    family: Family,
    scores: WhitenedScores,
    theta: FloatArray,
    score: FloatArray,
    score_std: FloatArray,
    score_level: FloatArray,
    middle: FloatArray,
    mu: float,
    multiplier: Callable[[str], float],
) -> FloatArray:
    """Return β̂ (d, R), and note the half-widths of its intervals.

    Parameters
    ----------
    theta, score, score_std, score_level : (d, R), (d, R), (R,) and (R,) arrays
        θ, the mean score released at it, its noise, and the norm to which scores were clipped.
    middle : (R,) array
        A typical predictor, released or public.
    mu : float
        μ(ε, δ) of the whole estimate, on which depends of how many rows the curvature is clipped.
    multiplier : callable
        Part of the budget → its noise multiplier for all of it.
    """
    sample, n_rows = scores.sample, scores.sample.n_rows
    d, curvature = sample.n_features, scores.curvature(theta)
    typical = np.maximum(family.second_derivative(middle[None])[0], 1e-3)
    times = float(np.sqrt(counts_needed(len(_LEVELS))))
    largest = search_level(
        transcript,
        d * typical * _LEVELS[:, None],
        np.minimum(np.maximum(_CLIPPED * n_rows, 5 * np.sqrt(d) / mu), 0.2 * n_rows),
        curvature.norms(),
        noise_multiplier=times * multiplier("curvature levels"),
        label=CURVATURE_COUNTS,
    )
    released = release_curvature(
        transcript, curvature.clipped_mean(largest), largest, n_rows, multiplier("curvature")
    )
    step = np.einsum("rij,jr->ir", released.inverse, score)

    at = scores.at(theta)
    moments = release_score_moments(
        transcript,
        at.clipped_second_moments(score_level),
        shares_above(sample, at.norms(), score_level),
        bound=score_level,
        n_rows=n_rows,
        multiplier=multiplier,
    )
    bent = 0.0 if family.is_linear else 0.5 * _skew(family, middle) * (step**2).sum(axis=0)
    note_step_interval(
        transcript,
        level,
        curvature=released,
        outer=scores.whitening,
        step=step,
        score_std=score_std,
        scores=moments,
        n_rows=n_rows,
        bias=np.linalg.norm(scores.whitening, axis=2).T * bent,
        score_level=score_level,
    )
    return np.asarray(np.einsum("rij,jr->ir", scores.whitening, theta + step))


def _skew(family: Family, middle: FloatArray) -> FloatArray:
    """Return |ψ'''|/ψ'' at a typical predictor (R,), at least ¼ since predictors differ."""
    width = 1e-3
    low, high = (family.second_derivative((middle + side * width)[None])[0] for side in (-1, 1))
    ratio = np.abs(high - low) / (width * np.maximum(high + low, 1e-12))
    return np.asarray(np.maximum(ratio, 0.25))


def note_step_interval(
    transcript: Transcript,
    level: float,
    *,
    curvature: ReleasedCurvature,
    step: FloatArray,
    score_std: FloatArray,
    scores: ScoreMoments,
    n_rows: FloatArray,
    ridge: FloatArray | None = None,
    bias: FloatArray | float = 0.0,
    outer: FloatArray | None = None,
    score_level: FloatArray | None = None,
    row_bound: float = 0.0,
    power: float = 2.0,
) -> None:
    """Note the half-widths of θ + Ĥ⁻¹ĝ.

    Parameters
    ----------
    step : (d, R) array
        Δ.
    score_std, ridge : (R,) arrays
        s, and the ridge with which the curvature was raised.
    bias : (d, R) array or float
        By how much a ridge or an early end moves each coefficient, about.
    outer : (R, d, d) array, optional
        What brings the coordinates of curvature and step to coefficients; omitted if they are the same.

    score_level : (R,) array, optional
        The norm to which scores are clipped.
    row_bound : float
        c_x, where rows are clipped and not scores.
    power : float
        2 where a row's residual grows with its size, 1 where it is bounded.
    """
    inverse, gram_std, vectors = curvature.inverse, curvature.noise_std, curvature.vectors
    lever = inverse if outer is None else outer @ inverse
    spread = np.einsum("rjk,rkl,rjl->jr", lever, scores.moments, lever)
    length = np.einsum("rjk,rjk->jr", lever, lever)
    across = length * (step**2).sum(axis=0)
    along = np.einsum("rjk,kr->jr", lever, step) ** 2
    inner = np.einsum("rjj->r", inverse) * step + np.einsum("rjk,kr->jr", inverse, step)
    second = gram_std**2 / 2 * np.einsum("rjk,kr->jr", lever, inner)
    variance = second**2 + spread / n_rows + score_std**2 * length + gram_std**2 / 2 * (across + along)
    unsure = (scores.std * length) ** 2 + 2 * spread**2 / n_rows
    along = np.sqrt(length) * reach_along(spread, np.einsum("rjj->r", scores.moments), length)
    if score_level is not None:
        moved = scores.tail.moved(score_level * along)
    else:
        gram = np.linalg.inv(inverse)
        residual = np.sqrt(np.einsum("rjj->r", scores.moments) / np.einsum("rjj->r", gram))
        moved = scores.tail.moved(row_bound * _RESIDUALS * residual * along, power)
    # A ridge of a quarter of an eigenvalue hides how far it moves the answer along it.
    seen = curvature.eigenvalues if ridge is None else curvature.eigenvalues - 4 * ridge[:, None]
    note_interval(
        transcript,
        level,
        variance=variance,
        variance_std=np.sqrt(unsure) / n_rows,
        sampling=spread / n_rows,
        biases={CLIPPED: moved, BENT: np.abs(bias) + np.zeros_like(moved)},
        hidden=unresolved_coordinates(seen, vectors if outer is None else outer @ vectors, gram_std),
    )


def unresolved_coordinates(eigenvalues: FloatArray, vectors: FloatArray, gram_std: FloatArray) -> BoolArray:
    """Return which coefficients, (d, R), take part in a direction whose eigenvalue noise may have made.

    ``vectors`` (R, d, d) are eigenvectors of released second moments, as columns; ``gram_std`` (R,) is σ.
    """
    floor = _resolved_floor(eigenvalues.shape[1], gram_std)
    squares = vectors**2 / (vectors**2).sum(axis=2, keepdims=True)
    part = np.einsum("rjk,rk->jr", squares, (eigenvalues < floor[:, None]).astype(float))
    return np.asarray(part > _LARGEST_PART)


def _resolved_floor(d: int, gram_std: FloatArray) -> FloatArray:
    """Return the least eigenvalue, (R,), that stands out from noise of ``gram_std`` (R,) in svec."""
    return np.asarray(_RESOLVED * np.sqrt(d) * gram_std)
