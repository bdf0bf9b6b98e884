"""Intervals of linear combinations of coefficients, from all that a regression released for them.

    Cov(L β̃) = Λ ( s² I + S/n + Cov(N δ) ) Λ'  +  Λ ( Cov(N r) + κ r'Qr Q/(p n) ) Λ',   Λ = L W Q⁻¹

Λ brings noise of the weighted gradients, s, and of scores, whose second moments are S, to the combinations. N
is the noise of Q, of which the variance of each entry is known, and δ the step from the points to β̃. The
second part is of nested models alone (:mod:`dpalgos.answers.nested`).

Nothing here reads a row: all follows from released and public numbers.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpalgos.interval import BENT, CLIPPED, DISPERSED, GROSS, HIDDEN, MOVED, OMITTED, Interval
from dpalgos.intervals.half_widths import interval_by_variance, part_along
from dpalgos.intervals.tails import Tail
from dpalgos.models.families import Family
from dpalgos.models.newton_steps import NewtonSteps, combination_weights
from dpalgos.typing import BoolArray, FloatArray

ROBUST_LOCATION = "robust location"
RESOLVED = 2.6  # noise standard deviations by which an eigenvalue stands out
_UNSEEN_NOISE = 0.3  # of the noise's standard deviation, along directions that look as expected
_LARGEST_PART = 0.02  # of a unit coefficient's squared length, in unresolved directions
_LOWER = 0.6  # standard deviations of an eigenvalue
_WHITE = 0.0025  # variance of entries that the whitening leaves
_CURVED_MARGIN = 1.1  # of the variance of counts, whose curvature differs among steps
_TOO_CURVED = 3.0  # half-widths without it
_ROUNDING = 1e-9  # the relative weight below which a coefficient is no part of a combination
_TINY = float(np.finfo(float).tiny)


class ScoreCurvature(NamedTuple):
    """The released curvature Q of the mean of clipped scores, and what is known of it.

    ``values`` (d,) are its eigenvalues along the columns of ``vectors`` (d, d). ``variances`` (d, d) are
    those of entries between the vectors: off the diagonal twice that. ``hidden`` (d,) marks the values that
    noise may have made. ``ones`` (d,) are the white coefficients of a column of ones. ``total`` is the mean
    weight of a row. ``heavy``, at least 1, is how heavy the tails of rows look next to normal ones.
    """

    vectors: FloatArray
    values: FloatArray
    variances: FloatArray
    hidden: BoolArray
    ones: FloatArray
    total: float
    noise: float
    heavy: float = 1.0

    @property
    def std(self) -> FloatArray:
        """The standard deviations of the values, (d,)."""
        return np.asarray(np.sqrt(self.variances.diagonal()))

    def of_values(self, values: FloatArray) -> FloatArray:
        """Return the matrix (d, d) of some values (d,) along the directions."""
        return np.asarray((self.vectors * values) @ self.vectors.T)

    @property
    def matrix(self) -> FloatArray:
        """Q, (d, d)."""
        return self.of_values(self.values)

    def inverse(self) -> FloatArray:
        return self.of_values(1 / self.values)

    def noise_covariance(self, vector: FloatArray) -> FloatArray:
        """Return the covariance (d, d) of the noise of Q times a vector (d,)."""
        coordinates = self.vectors.T @ vector
        crossed = self.variances * np.outer(coordinates, coordinates) / 2
        of_rows = self.variances @ coordinates**2 / 2
        return np.asarray(self.vectors @ (crossed + np.diag(of_rows)) @ self.vectors.T)

    def along(self, vector: FloatArray) -> FloatArray:
        """Return the coordinates (d,) of a vector along the directions."""
        return np.asarray(self.vectors.T @ vector)


class Center(NamedTuple):
    """White coefficients ``theta`` (d,) that released steps lead to.

    ``step`` (d,) leads from the weighted points to them; ``score_std`` is that of the noise in the weighted
    gradients.
    """

    theta: FloatArray
    step: FloatArray
    score_std: float


class InterceptShift(NamedTuple):
    """Changes by the mean residual at a column of ones, (d,) each; ``image`` (d, d) leaves its rows.

    ``gross`` and ``dispersed`` mark coefficients without an interval.
    """

    moved: FloatArray
    image: FloatArray
    variance: FloatArray
    bias: FloatArray
    gross: BoolArray
    dispersed: BoolArray

    @classmethod
    def none(cls, d: int) -> "InterceptShift":
        none = np.zeros(d, dtype=bool)
        return cls(np.zeros(d), np.zeros((d, d)), np.zeros(d), np.zeros(d), none, none)


class CombinationError(NamedTuple):
    """The error of k combinations, as far as it is known; ``lever`` (k, d) brings scores to them.

    ``scores`` (d, d) is the covariance of noise and sampling in the scores' coordinates, ``sampling`` (k,)
    the variance of sampling alone.
    """

    scores: FloatArray
    variance_std: FloatArray
    sampling: FloatArray
    lever: FloatArray

    @property
    def variance(self) -> FloatArray:
        """The variances, (k,)."""
        return _squares(self.lever, self.scores)

    def clipping_bias(self, tail: Tail, threshold: float, moments: FloatArray, n_rows: float) -> FloatArray:
        """Return how far clipping the scores may have moved combinations, (k,)."""
        length = (self.lever**2).sum(axis=1)
        along = part_along(self.sampling * n_rows, np.asarray(moments.trace()), length)
        return tail.moved((threshold * np.sqrt(length) * along)[:, None])[:, 0]


class OmittedEffect(NamedTuple):
    """How far a nested model is from the whole one: r (d,), in white coordinates.

    ``moved`` (k,) is what its second order adds to its coefficients, or combinations of them, ``unsure`` (k,)
    a bound on the bias that is left.
    """

    white: FloatArray
    moved: FloatArray
    unsure: FloatArray

    def along(self, combinations: FloatArray) -> "OmittedEffect":
        """Return the same of combinations (q, k) of its coefficients."""
        return self._replace(moved=combinations @ self.moved, unsure=np.abs(combinations) @ self.unsure)


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleasedRegression:
    """The released and public quantities from which intervals of linear combinations of coefficients follow.

    Attributes
    ----------
    level : float
        The confidence level.
    family : Family
    curvature : ScoreCurvature
    center : Center
    moments, moments_std
        Second moments of clipped scores, (d, d), and the noise in them.
    outer : (d, d) array
        W, which brings white coefficients to coefficients.
    middle : float
        A typical predictor.
    coef : (d,) array
        The center in coefficients.
    shift : InterceptShift
    tail : Tail or None
        Shares of rows by size.
    clip : float
        The threshold of scores.
    n_rows : float
    late_effect : float
        How far late follow-up moves effects if hazards are not proportional, in white coordinates. The end of
        follow-up at a cumulative hazard depends on the coefficients. Late residuals at that end make the
        curvature smaller by about twice that part. Half-widths are larger by it.
    has_offset : bool
        Whether an offset, with a coefficient of 1, is before the coefficients.
    """

    level: float
    family: Family
    curvature: ScoreCurvature
    center: Center
    moments: FloatArray
    moments_std: float
    outer: FloatArray
    middle: float
    coef: FloatArray
    shift: InterceptShift
    tail: Tail | None
    clip: float
    n_rows: float
    late_effect: float = 0.0
    has_offset: bool = False

    def after_offset(self) -> "ReleasedRegression":
        """Return what is released of a regression whose first column is an offset, of coefficient 1."""
        return replace(self, has_offset=True)

    @property
    def of_responses(self) -> str:
        """The word for a prediction: a robust line is no mean if errors are skewed."""
        return ROBUST_LOCATION if self.family.is_linear and self.tail is None else "mean"

    @property
    def coefficients(self) -> FloatArray:
        """The centers of the coefficients' intervals, (d,), an offset's among them."""
        coef = self.coef + self.shift.moved
        return np.insert(coef, 0, 1.0) if self.has_offset else coef

    def along(
        self, combinations: FloatArray, level: float | None = None, omitted: OmittedEffect | None = None
    ) -> Interval:
        """Return the intervals of the combinations L β, of the rows of ``combinations`` (k, d)."""
        known, free = np.hsplit(combinations, [int(self.has_offset)])
        shift, size, outer = self.shift, np.abs(free), free @ self.outer
        error = self._error(free)
        curved = self._second_order(outer)
        center = free @ (self.coef + shift.moved) + known.sum(axis=1)
        unknown: FloatArray = np.zeros_like(center)
        clipped, unsure = unknown, unknown
        if self.tail is not None:
            clipped = error.clipping_bias(self.tail, self.clip, self.moments, self.n_rows)
        variance, sampling = error.variance, error.sampling
        if omitted is not None:
            lever = outer @ self.curvature.inverse()
            noise, sampled = self._metric_error(omitted)
            center, unsure = center + omitted.moved, omitted.unsure
            variance = variance + _squares(lever, noise + sampled)
            sampling = sampling + _squares(lever, sampled)
            unknown = self._unknown(lever, omitted)
        takes_part = size > _ROUNDING * size.max(axis=1, keepdims=True, initial=0)
        biases = {CLIPPED: size @ shift.bias + clipped, OMITTED: unsure, HIDDEN: unknown}
        flags = {
            HIDDEN: unresolved(self.curvature, outer),
            MOVED if self.family.is_bounded else GROSS: (takes_part & shift.gross).any(axis=1),
            DISPERSED: (takes_part & shift.dispersed).any(axis=1),
            BENT: curved**2 > _TOO_CURVED**2 * variance,
        }
        return interval_by_variance(
            self.level if level is None else level,
            variance=(self._margin * variance + curved**2 + free**2 @ shift.variance)[:, None],
            variance_std=error.variance_std[:, None],
            sampling=sampling[:, None],
            biases={reason: bias[:, None] for reason, bias in biases.items()},
            flags={reason: flag[:, None] for reason, flag in flags.items()},
            center=center[:, None],
        )

    def covariance(self, combinations: FloatArray, omitted: OmittedEffect | None = None) -> FloatArray:
        """Return the covariances of the combinations (k, d), (k, k).

        Second moments of scores are one standard deviation of their noise above the release: noise that hides
        them hides correlations, too.
        """
        free = combinations[:, int(self.has_offset) :]
        error = self._error(free)
        scores = error.scores + self.moments_std / self.n_rows * np.eye(len(error.scores))
        covariance = error.lever @ scores @ error.lever.T
        if omitted is not None:
            lever = free @ self.outer @ self.curvature.inverse()
            noise, sampled = self._metric_error(omitted)
            covariance = covariance + lever @ (noise + sampled) @ lever.T
        return np.asarray(self._margin * covariance + (free * self.shift.variance) @ free.T)

    @property
    def _margin(self) -> float:
        curved = self.family.has_counts and not self.family.is_bounded
        return (_CURVED_MARGIN if curved else 1.0) * (1 + 2 * self.late_effect) ** 2

    def _error(self, free: FloatArray) -> CombinationError:
        rows = free @ (self.outer - self.shift.image)
        return error_of(self.curvature, self.center, self.moments, self.moments_std, rows, self.n_rows)

    def _metric_error(self, omitted: OmittedEffect) -> tuple[FloatArray, FloatArray]:
        """Return the covariances of what noise and sampling of Q do to Q r, (d, d) each."""
        curvature = self.curvature
        explained = float(curvature.along(omitted.white) ** 2 @ curvature.values) * curvature.heavy
        explained = explained / (curvature.total if self.family.is_linear else 1.0) / self.n_rows
        return curvature.noise_covariance(omitted.white), explained * curvature.matrix

    def _unknown(self, lever: FloatArray, omitted: OmittedEffect) -> FloatArray:
        """Return what directions of which only a bound is known may change in a nested model, (k,)."""
        curvature = self.curvature
        bound = np.where(curvature.hidden, curvature.values, 0.0) * np.abs(curvature.along(omitted.white))
        return np.asarray(np.abs(lever @ curvature.vectors) @ bound)

    def _second_order(self, outer: FloatArray) -> FloatArray:
        """Return the size of second-order terms of the steps, (k,): along the intercept."""
        if self.family.is_linear:
            return np.zeros(len(outer))
        width, curvature, step = 1e-3, self.curvature, self.center.step
        ends = np.array([[self.middle - width], [self.middle + width]])
        low, high = self.family.second_derivative(ends)[:, 0]
        skew = abs(high - low) / (width * max(high + low, 1e-12))
        size = step @ step + self.center.score_std**2 * (1 / curvature.values**2).sum()
        return np.asarray(np.abs(outer @ curvature.ones) * skew * size / 2)


def _squares(lever: FloatArray, scores: FloatArray) -> FloatArray:
    """Return the variances (k,) to which levers (k, d) bring a covariance (d, d)."""
    return np.asarray(((lever @ scores) * lever).sum(axis=1))


def center_of(curvature: ScoreCurvature, steps: NewtonSteps) -> Center:
    """Return the mean of Newton steps from all points, with the weights of least noise."""
    newton = steps._replace(gradients=steps.gradients @ curvature.inverse())
    unknown = _WHITE + (_UNSEEN_NOISE * curvature.noise / curvature.total) ** 2 / 2
    weights = combination_weights(steps, unknown)
    step = weights @ newton.gradients
    return Center(weights @ steps.points + step, step, float(np.sqrt(weights**2 @ steps.stds**2)))


def error_of(
    curvature: ScoreCurvature,
    center: Center,
    moments: FloatArray,
    moments_std: float,
    rows: FloatArray,
    n_rows: float,
) -> CombinationError:
    """Return the error of combinations, to which ``rows`` (k, d) bring white coordinates.

    Eigenvalues are lowered somewhat from their released values. Those that exceed the noise are more often
    too high than too low. A step along such a direction was then too short.
    """
    low = curvature._replace(values=curvature.values - _LOWER * curvature.std)
    step = curvature.along(center.step) * curvature.values / low.values
    lever = rows @ low.inverse()
    parts = (lever @ curvature.vectors) ** 2
    length = parts.sum(axis=1)
    sampling = _squares(lever, moments) / n_rows
    noise = center.score_std**2 * np.eye(len(center.step))
    doubt = parts @ (2 * curvature.std / curvature.values) ** 2 / np.maximum(length, _TINY)
    unsure = (moments_std * length / n_rows) ** 2 + 2 * sampling**2 / n_rows
    unsure = unsure + doubt * (length * center.score_std**2 + sampling) ** 2
    scores = noise + curvature.noise_covariance(curvature.vectors @ step) + moments / n_rows
    return CombinationError(scores, np.sqrt(unsure), sampling, lever)


def unresolved(curvature: ScoreCurvature, outer: FloatArray) -> BoolArray:
    """Return which of k combinations take part in a direction whose eigenvalue noise may have made, (k,)."""
    part = (outer @ curvature.vectors) ** 2
    return np.asarray(part @ curvature.hidden.astype(float) > _LARGEST_PART * part.sum(axis=1))
