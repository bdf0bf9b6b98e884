"""All that is released of a regression for its intervals, and what follows of linear combinations of it.

    Cov(L β̃) = Λ ( s² I + S/n + Cov(N δ) ) Λ'  +  Λ ( Cov(N r) + κ r'Qr Q/(p n) ) Λ',   Λ = L W Q⁻¹

Λ brings noise of the weighted gradients, s, and of scores, whose second moments are S, to the combinations;
N is the noise of Q, of which the variance of each entry is known, and δ the step from the points to β̃. The
second part is of nested models alone (:mod:`dpalgos.answers.nested`).
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpalgos.interval import BENT, CLIPPED, GROSS, HIDDEN, Interval
from dpalgos.intervals.half_widths import interval_by_variance, reach_along
from dpalgos.mechanisms.for_intervals.mean_residual import InterceptShift
from dpalgos.mechanisms.for_intervals.score_curvature import UNSEEN_NOISE, ScoreCurvature
from dpalgos.mechanisms.for_intervals.tails import Tail
from dpalgos.models.families import Family
from dpalgos.steps.denoising import ReleasedSteps, combination_weights
from dpalgos.typing import BoolArray, FloatArray

_LARGEST_PART = 0.02  # of a unit coefficient's squared length, in unresolved directions
_LOWER = 0.6  # standard deviations of an eigenvalue
_WHITE = 0.0025  # variance of entries that the whitening leaves
_BENT_MARGIN = 1.2  # of the variance, for curvature that differs among steps
_UNSURE = 0.5  # of what clipping, or a second order, does to normal rows
_ROUNDING = 1e-9  # the relative weight below which a coefficient is no part of a combination


class Center(NamedTuple):
    """White coefficients that released steps lead to."""

    theta: FloatArray  # (d, R)
    step: FloatArray  # from the weighted points to it
    score_std: FloatArray  # of the noise in the weighted gradients, (R,)


class CoefError(NamedTuple):
    """What is known of the error of k combinations; ``lever`` (R, k, d) brings scores to them.

    ``scores`` (R, d, d) is the covariance of noise and sampling in the scores' coordinates, ``sampling``
    (k, R) the variance of sampling alone.
    """

    scores: FloatArray
    variance_std: FloatArray
    sampling: FloatArray
    lever: FloatArray

    @property
    def variance(self) -> FloatArray:
        """The variances, (k, R)."""
        return _squares(self.lever, self.scores)

    def moved(self, tail: Tail, level: FloatArray, moments: FloatArray, n_rows: FloatArray) -> FloatArray:
        """Return how far clipping the scores may have moved combinations, (k, R)."""
        length = (self.lever**2).sum(axis=2).T
        reach = reach_along(self.sampling * n_rows, np.einsum("rjj->r", moments), length)
        return tail.moved(level * np.sqrt(length) * reach)


class Away(NamedTuple):
    """How far a nested model is from the whole one: r (d, R), in white coordinates.

    ``moved`` (k, R) is what its second order adds to its coefficients, or combinations of them, ``unsure``
    (k, R) a bound on the bias that is left.
    """

    white: FloatArray
    moved: FloatArray
    unsure: FloatArray

    def along(self, combinations: FloatArray) -> "Away":
        """Return the same of combinations (q, k) of its coefficients."""
        return self._replace(moved=combinations @ self.moved, unsure=np.abs(combinations) @ self.unsure)


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleasedRegression:
    """What intervals of linear combinations of coefficients follow from: all released, or public."""

    level: float
    family: Family
    curvature: ScoreCurvature
    center: Center
    moments: FloatArray
    moments_std: FloatArray
    outer: FloatArray
    middle: FloatArray
    coef: FloatArray  # (d, R)
    shift: InterceptShift
    tail: Tail | None
    clip: FloatArray
    n_rows: FloatArray
    lost: FloatArray  # by which clipping has moved white coefficients, as far as rows are normal, (d, R)
    has_offset: bool = False  # before the coefficients, with one of 1

    def after_offset(self) -> "ReleasedRegression":
        """Return what is released of a regression whose first column is an offset, of coefficient 1."""
        return replace(self, has_offset=True)

    @property
    def coefficients(self) -> FloatArray:
        """The centers of the coefficients' intervals, (d, R), an offset's among them."""
        found = self.coef + self.shift.moved
        return np.insert(found, 0, 1.0, axis=0) if self.has_offset else found

    def along(
        self, combinations: FloatArray, level: float | None = None, away: Away | None = None
    ) -> Interval:
        """Return the intervals of the combinations L β, of the rows of ``combinations`` (k, d)."""
        known, own = np.hsplit(combinations, [int(self.has_offset)])
        shift, size, everywhere = self.shift, np.abs(own), np.zeros_like(self.coef)
        outer = np.einsum("kj,rji->rki", own, self.outer)
        error = self._error(own)
        hidden: FloatArray = np.zeros_like(own @ self.coef)
        if self.tail is not None:
            hidden = error.moved(self.tail, self.clip, self.moments, self.n_rows)
        hidden = hidden + _UNSURE * np.abs(np.einsum("rij,jr->ir", outer, self.lost))
        bent = _bent(self.family, self.curvature, self.center, outer, self.middle)
        center = own @ self.coef + own @ (shift.moved + everywhere) + known.sum(axis=1, keepdims=True)
        unknown: FloatArray = np.zeros_like(center)
        variance, sampling = error.variance, error.sampling
        if away is not None:
            lever = outer @ self.curvature.inverse()
            blurred, sampled = self._metric_error(away)
            center, bent = center + away.moved, bent + away.unsure
            variance = variance + _squares(lever, blurred + sampled)
            sampling = sampling + _squares(lever, sampled)
            unknown = self._unknown(lever, away)
        return interval_by_variance(
            self.level if level is None else level,
            variance=self._margin * variance + own**2 @ (shift.variance + everywhere),
            variance_std=error.variance_std,
            sampling=sampling,
            biases={CLIPPED: size @ (shift.bias + everywhere) + hidden, BENT: bent, HIDDEN: unknown},
            flags={
                HIDDEN: unresolved(self.curvature, outer),
                GROSS: (size > _ROUNDING * size.max(axis=1, keepdims=True, initial=0)).astype(float)
                @ (shift.gross | (everywhere > 0))
                > 0,
            },
            center=center,
        )

    def covariance(self, combinations: FloatArray, away: Away | None = None) -> FloatArray:
        """Return the covariances of the combinations (k, d) of one answer, (k, k)."""
        own = combinations[:, int(self.has_offset) :]
        error = self._error(own)
        found = error.lever[0] @ error.scores[0] @ error.lever[0].T
        if away is not None:
            lever = own @ self.outer[0] @ self.curvature.inverse()[0]
            blurred, sampled = self._metric_error(away)
            found = found + lever @ (blurred + sampled)[0] @ lever.T
        of_shift = (self.shift.variance + np.zeros_like(self.coef))[:, 0]
        return np.asarray(self._margin * found + (own * of_shift) @ own.T)

    @property
    def _margin(self) -> float:
        return 1.0 if self.family.is_linear else _BENT_MARGIN

    def _error(self, own: FloatArray) -> CoefError:
        rows = np.einsum("kj,rji->rki", own, self.outer - self.shift.image)
        return error_of(self.curvature, self.center, self.moments, self.moments_std, rows, self.n_rows)

    def _metric_error(self, away: Away) -> tuple[FloatArray, FloatArray]:
        """Return the covariances of what noise and sampling of Q do to Q r, (R, d, d) each."""
        curvature = self.curvature
        explained = (curvature.along(away.white) ** 2 * curvature.values).sum(axis=1) * curvature.heavy
        explained = explained / (curvature.total if self.family.is_linear else 1.0) / self.n_rows
        return curvature.blurred(away.white), explained[:, None, None] * curvature.matrix

    def _unknown(self, lever: FloatArray, away: Away) -> FloatArray:
        """Return what directions of which only a bound is known may change in a nested model, (k, R)."""
        curvature = self.curvature
        bound = np.where(curvature.hidden, curvature.values, 0.0) * np.abs(curvature.along(away.white))
        return np.asarray(np.einsum("rkj,rj->kr", np.abs(lever @ curvature.vectors), bound))


def _squares(lever: FloatArray, scores: FloatArray) -> FloatArray:
    """Return the variances (k, R) to which levers (R, k, d) bring covariances (R, d, d)."""
    return np.asarray(np.einsum("rjk,rkl,rjl->jr", lever, scores, lever))


def center_of(curvature: ScoreCurvature, steps: ReleasedSteps) -> Center:
    """Return the mean of Newton steps from all points, with the weights of least noise."""
    moved = np.einsum("rij,tjr->tir", curvature.inverse(), steps.gradients)
    weights = combination_weights(steps, _WHITE + (UNSEEN_NOISE * curvature.noise / curvature.total) ** 2 / 2)
    step = np.einsum("rt,tjr->jr", weights, moved)
    theta = np.einsum("rt,tjr->jr", weights, steps.points) + step
    return Center(theta, step, np.sqrt(np.einsum("rt,tr->r", weights**2, steps.variances)))


def error_of(
    curvature: ScoreCurvature,
    center: Center,
    moments: FloatArray,
    moments_std: FloatArray,
    rows: FloatArray,
    n_rows: FloatArray,
) -> CoefError:
    """Return the error of combinations, to which ``rows`` (R, k, d) bring white coordinates.

    Eigenvalues count as somewhat less than they were released: those that stand out of the noise are more
    often too high than too low, and then a step along them was too short.
    """
    low = curvature._replace(values=curvature.values - _LOWER * curvature.std)
    step = curvature.along(center.step) * curvature.values / low.values
    lever = rows @ low.inverse()
    parts = (lever @ curvature.vectors) ** 2
    length = parts.sum(axis=2).T
    sampling = _squares(lever, moments) / n_rows
    noise = (center.score_std**2)[:, None, None] * np.eye(len(center.step))
    doubt = np.einsum("rjk,rk->jr", parts, (2 * curvature.std / curvature.values) ** 2)
    doubt = doubt / np.maximum(length, np.finfo(float).tiny)
    unsure = (moments_std * length / n_rows) ** 2 + 2 * sampling**2 / n_rows
    unsure += doubt * (length * center.score_std**2 + sampling) ** 2
    blurred = curvature.blurred(np.einsum("rki,ri->kr", curvature.vectors, step))
    scores = noise + blurred + moments / n_rows[:, None, None]
    return CoefError(scores, np.sqrt(unsure), sampling, lever)


def _bent(
    family: Family, curvature: ScoreCurvature, center: Center, outer: FloatArray, middle: FloatArray
) -> FloatArray:
    """Return what the curvature may change on the way, (d, R): along the intercept."""
    if family.is_linear:
        return np.zeros((outer.shape[1], len(outer)))
    width = 1e-3
    low, high = (family.second_derivative((middle + side * width)[None])[0] for side in (-1, 1))
    skew = np.abs(high - low) / (width * np.maximum(high + low, 1e-12))
    size = (center.step**2).sum(axis=0) + center.score_std**2 * (1 / curvature.values**2).sum(axis=1)
    return np.asarray(np.abs(np.einsum("rij,jr->ir", outer, curvature.ones)) * skew * size / 2)


def unresolved(curvature: ScoreCurvature, outer: FloatArray) -> BoolArray:
    """Return which coefficients, (d, R), take part in a direction whose eigenvalue noise may have made."""
    part = (outer @ curvature.vectors) ** 2
    hidden = np.einsum("rjk,rk->jr", part, curvature.hidden.astype(float))
    return np.asarray(hidden > _LARGEST_PART * part.sum(axis=2).T)
