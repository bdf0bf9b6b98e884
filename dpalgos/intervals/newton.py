"""A last Newton step on released curvature, with intervals.

    β̂ = θ − Ĥ⁻¹ ĝ,   Ĥ = mean of the units' curvatures + noise,   ĝ = mean of their scores + noise

at a released θ. Units are rows, or users with all of theirs. The error of β̂ is that of
:mod:`dpalgos.intervals.regression`, besides what the curvature changes over the step, which is not known and
counted as a bias.

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
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from dpalgos.intervals.half_widths import release_score_moments
from dpalgos.intervals.regression import note_step_interval, resolved_floor, unresolved_coordinates
from dpalgos.intervals.tails import shares_above
from dpalgos.mechanisms.clip_levels import counts_needed, search_level
from dpalgos.models.families import Family
from dpalgos.models.whitened_scores import WhitenedScores
from dpalgos.release.transcript import Transcript
from dpalgos.steps.moments import svec, unsvec
from dpalgos.typing import FloatArray

CURVATURE_SHARES = {"curvature levels": 0.03, "curvature": 0.21}  # of μ², in the last step
CURVATURE_COUNTS = "curvatures above a level"
CURVATURE = "curvature"

_CLIPPED = 0.02  # of the rows: what that takes from H only changes a step that is short by then
_LEVELS = np.geomspace(0.3, 30, 16)  # times d and the curvature at the middle


def curvature_sensitivity(level: FloatArray, n_rows: FloatArray) -> FloatArray:
    """Return √2 L/n, (R,): ψ'' u u' of norm L each, of rows whose u are orthogonal."""
    return np.asarray(np.sqrt(2) * level / n_rows)


class ReleasedCurvature(NamedTuple):
    """A released mean curvature: its eigenvalues, raised to what stands out from the noise, and its inverse.

    ``vectors`` (R, d, d) are the eigenvectors, ``inverse`` uses the raised eigenvalues, and ``noise_std``
    (R,) is σ of the noise in svec.
    """

    eigenvalues: FloatArray
    vectors: FloatArray
    raised: FloatArray
    inverse: FloatArray
    noise_std: FloatArray


def release_curvature(
    transcript: Transcript,
    curvature: FloatArray,
    largest: FloatArray,
    n_units: FloatArray,
    multiplier: float,
    *,
    label: str = CURVATURE,
) -> ReleasedCurvature:
    """Release the mean (R, d, d) of units' curvatures, of Frobenius norms at most ``largest`` (R,)."""
    sensitivity = curvature_sensitivity(largest, n_units)
    released = transcript.gaussian(
        svec(curvature), l2_sensitivity=sensitivity, noise_multiplier=multiplier, label=label
    )
    d, std = curvature.shape[-1], transcript.noise_std(sensitivity, multiplier, len(released))
    eigenvalues, vectors = np.linalg.eigh(unsvec(released, d))
    raised = np.maximum(eigenvalues, resolved_floor(d, std)[:, None])
    inverse = (vectors / raised[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return ReleasedCurvature(eigenvalues, vectors, raised, inverse, std)


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
    inverse = released.inverse
    step = np.einsum("rij,jr->ir", inverse, score)

    at = scores.at(theta)
    moments = release_score_moments(
        transcript,
        at.clipped_second_moments(score_level),
        shares_above(sample, at.norms(), score_level),
        bound=score_level,
        n_rows=n_rows,
        multiplier=multiplier,
    )
    whitening = scores.whitening
    unresolved = unresolved_coordinates(
        released.eigenvalues, whitening @ released.vectors, released.noise_std
    )
    linear = np.isfinite(family.curvature_bound) and not np.isfinite(family.derivative_bound)
    bent = 0.0 if linear else 0.5 * _skew(family, middle) * (step**2).sum(axis=0)
    note_step_interval(
        transcript,
        level,
        inverse=inverse,
        outer=whitening,
        lever=whitening @ inverse,
        step=step,
        gram_std=released.noise_std,
        score_std=score_std,
        scores=moments,
        n_rows=n_rows,
        unresolved=unresolved,
        bias=np.linalg.norm(whitening, axis=2).T * bent,
        score_level=score_level,
    )
    return np.asarray(np.einsum("rij,jr->ir", whitening, theta + step))


def _skew(family: Family, middle: FloatArray) -> FloatArray:
    """Return |ψ'''|/ψ'' at a typical predictor (R,), at least ¼ since predictors differ."""
    width = 1e-3
    low, high = (family.second_derivative((middle + side * width)[None])[0] for side in (-1, 1))
    ratio = np.abs(high - low) / (width * np.maximum(high + low, 1e-12))
    return np.asarray(np.maximum(ratio, 0.25))
