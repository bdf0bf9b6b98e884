"""The mean of a regression's cut residuals, which moves an intercept towards the mean of the errors.

Released are means of (t, t²), t = residual/Λ cut to [−1, 1], 2/n (:func:`residual_sensitivity`), and how many
rows are far, |residual| max(1, ‖u‖/√d) > 6Λ with white rows u, 1: gross errors, and rows of great leverage
that do not fit. Λ follows from released scores: a few of the residuals' standard deviations.

The intercept is the coefficient of a column of ones, which the released mean of white rows shows. By 1.4
times what the mean exceeds its noise errors may be skewed beyond Λ, too, and so many rows as stand out may
lie at 12Λ: a bias. More far rows than noise makes leave it without an interval; still more, all coefficients
of a linear model. In models of counts some residuals are far by nature.
"""

from typing import NamedTuple

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.mechanisms.for_intervals.score_curvature import ScoreCurvature
from dpalgos.mechanisms.sensitivity import count
from dpalgos.models.white_rows import ScoresAt
from dpalgos.release.transcript import Transcript
from dpalgos.typing import BoolArray, FloatArray

RESIDUAL, FAR = "mean residual", "rows far away"

_LAMBDA, _REFERENCE_SIZE = 1.8, 500.0  # Λ in residual standard deviations at the reference nμ
_FAR_AWAY, _FARTHEST = 6.0, 2.0  # times Λ: where residuals count as far, and beyond that how far
_UNSEEN_SKEW = 1.4  # how much of a skewed tail lies beyond Λ, in what lies within
_SKEWED, _DOUBTFUL, _GROSS, _GROSS_FOR_ALL = 1.0, 0.8, 1.4, 3.0  # standard deviations


class InterceptShift(NamedTuple):
    """What the mean residual changes at a column of ones, (d, R); ``image`` (R, d, d) leaves its rows."""

    moved: FloatArray
    image: FloatArray | float = 0.0
    variance: FloatArray | float = 0.0
    bias: FloatArray | float = 0.0
    gross: BoolArray | bool = False


def residual_sensitivity(n_rows: FloatArray) -> FloatArray:
    """Return 2/n: (t, t²) and (s, s²), t and s in [−1, 1], are at most 2 apart.

    With a = |t − s| ≤ 2 and |t + s| ≤ 2 − a their squared distance is a² (1 + (t + s)²) ≤ a² (1 + (2 − a)²),
    at most 4, attained by t = 1 and s = −1.
    """
    return np.asarray(2 / n_rows)


def release_mean_residual(
    transcript: Transcript,
    budget: SplitBudget,
    at: ScoresAt,
    curvature: ScoreCurvature,
    moments: FloatArray,
    outer: FloatArray,
) -> InterceptShift:
    """Release the mean of cut residuals, and a count of far rows; apply them where a column is one."""
    n_rows, level = at.sample.n_rows, _cut_level(budget, at, curvature, moments)
    sensitivity, multiplier = residual_sensitivity(n_rows), budget.gaussian_multiplier(RESIDUAL)
    released = transcript.gaussian(
        at.residual_moments(level), l2_sensitivity=sensitivity, noise_multiplier=multiplier, label=RESIDUAL
    )
    std, mean = level * transcript.noise_std(sensitivity, multiplier, 2), level * released[0]
    far, noise = _count_far_rows(transcript, budget, at, level)
    one, image = _column_of_ones(curvature, outer)
    for_all = _GROSS_FOR_ALL if at.family.is_linear else np.inf
    skewed = _UNSEEN_SKEW * np.maximum(np.abs(mean) - _SKEWED * std, 0)
    hidden = _FAR_AWAY * _FARTHEST * level * np.maximum(far - _DOUBTFUL * noise, 0) / n_rows
    return InterceptShift(
        moved=one * mean,
        image=one.T[:, :, None] * image[:, None, :],
        variance=one * (std**2 + level**2 * np.maximum(released[1], 0) / n_rows),
        bias=one * (skewed + hidden),
        gross=(one & (far > _GROSS * noise)) | (far > for_all * noise),
    )


def far_rows_stand_out(
    transcript: Transcript,
    budget: SplitBudget,
    at: ScoresAt,
    curvature: ScoreCurvature,
    moments: FloatArray,
) -> BoolArray:
    """Release a count of far rows alone, and return where it exceeds its noise by far, (R,)."""
    far, noise = _count_far_rows(transcript, budget, at, _cut_level(budget, at, curvature, moments))
    return np.asarray(far > _GROSS * noise)


def _cut_level(
    budget: SplitBudget, at: ScoresAt, curvature: ScoreCurvature, moments: FloatArray
) -> FloatArray:
    """Return Λ, (R,), from released scores."""
    size = at.sample.n_rows * gaussian_mu(budget.epsilon, budget.delta) / _REFERENCE_SIZE
    variance = np.einsum("rjj->r", moments) / (at.sample.n_features * curvature.total)
    scale = np.sqrt(np.maximum(variance, np.finfo(float).tiny))
    return np.asarray(scale * np.clip(_LAMBDA * size**0.25, 1.5, 6.0))


def _count_far_rows(
    transcript: Transcript, budget: SplitBudget, at: ScoresAt, level: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Release how many rows are far, (R,), and return it with the standard deviation of its noise."""
    multiplier = budget.gaussian_multiplier(FAR)
    released = transcript.gaussian(
        at.far_rows(_FAR_AWAY * level),
        l2_sensitivity=count(),
        noise_multiplier=multiplier,
        label=FAR,
    )
    return released[0], transcript.noise_std(count(), multiplier, 1)


def _column_of_ones(curvature: ScoreCurvature, outer: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Return which coefficient, (d, R), is of a column of ones, if any, and the mean white row, (R, d)."""
    columns, replicate = np.linalg.inv(outer), np.arange(len(outer))
    length = np.linalg.norm(columns, axis=1)
    alike = np.einsum("rij,ir->rj", columns, curvature.ones) / length
    j, unsure = alike.argmax(axis=1), curvature.noise / curvature.total
    found = (alike[replicate, j] > 0.6 + 0.5 * unsure) & (
        np.abs(length[replicate, j] ** 2 - 1) < 0.2 + unsure
    )
    one = np.zeros((outer.shape[1], len(outer)), dtype=bool)
    one[j[found], replicate[found]] = True
    along = curvature.along(columns[replicate, :, j].T) * curvature.values / curvature.total[:, None]
    return one, np.einsum("rik,rk->ri", curvature.vectors, along)
