"""Intervals of regressions: around the steps that an estimator has released, with a few numbers more.

    center   β̃ = W Σ_t w_t (θ_t + Q⁻¹ g_t)
    ends     β̃_j ± ( z √(T_j + u_j) + b_j )
    T_j      = ‖l_j‖² Σ_t w_t² s_t² + l_j' S l_j / n + what noise in Q adds,   l_j = row j of W Q⁻¹

g_t is the mean of scores of white rows u = W x at θ_t, each clipped to norm C, with noise of standard
deviation s_t. All of it was released by the estimator, so that the center costs nothing; it is not shrunk. Q
is the curvature of the mean of clipped scores, S their second moments. Released for the interval
(``INTERVAL_RELEASES``) are four counts of ψ''‖z‖², z = [u, 1]; the mean of z z' over rows whose score is not
clipped, cut to norm L; that of svec(g g')/C² over clipped scores g; that of (t, t²), t = residual/Λ cut to
[−1, 1]; a count of rows with |residual| max(1, ‖u‖/√d) > 6Λ. With ``interval_target="least squares"``: the
mean of scores clipped to 3C, shares of rows by score, and in linear models the count. In logistic models,
whose residuals are bounded, neither mean residual nor count.

Proofs: :mod:`dpalgos.mechanisms.for_intervals`. All else follows from released and public numbers.

What follows is heuristics, and affects accuracy only. Clipped scores have mean zero at the coefficients where
errors are symmetric given the covariates, and for slopes also where errors do not depend on them: there
slopes cover least squares' coefficient, else the robust-regression coefficient. The intercept, the
coefficient of a column of ones, which the released mean of z shows, is moved by the mean residual cut at Λ,
towards the mean of the errors; by 1.4 times what that exceeds its noise errors may be skewed beyond Λ, too,
and far rows may lie at 12 Λ. The second target takes one step more, and adds what its clipping may hide
(:mod:`dpalgos.mechanisms.for_intervals.tails`) to the half-widths.

For generalized linear models Q is taken at the last point. What it changes on the way is a bias along the
intercept, half the squared length of the step times the relative slope of ψ'' at a typical predictor.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.catalog import Neighbors, Release, pair, shares_of, with_interval
from dpalgos.errors import InputError
from dpalgos.interval import FEW, Interval
from dpalgos.intervals.half_widths import IntervalParams
from dpalgos.intervals.released import ReleasedRegression, center_of
from dpalgos.mechanisms.clip_levels import search_level
from dpalgos.mechanisms.for_intervals.mean_residual import (
    FAR,
    RESIDUAL,
    InterceptShift,
    far_rows_stand_out,
    release_mean_residual,
)
from dpalgos.mechanisms.for_intervals.score_curvature import (
    COUNTS,
    CURVATURE,
    release_curvature,
)
from dpalgos.mechanisms.for_intervals.spread import SCORE_MOMENTS, release_second_moments
from dpalgos.mechanisms.for_intervals.tails import TAIL, release_tail, shares_above
from dpalgos.mechanisms.preconditioned.steps import Steps
from dpalgos.mechanisms.sensitivity import ball_mean
from dpalgos.models.families import Family, get_family
from dpalgos.models.normal_curvature import clipped_score
from dpalgos.models.white_rows import WhiteRows
from dpalgos.params import choice
from dpalgos.release.transcript import Transcript
from dpalgos.steps.denoising import ReleasedSteps
from dpalgos.typing import FloatArray

RESOLVABLE = 30.0  # the nμ/√d from which intervals are made
ROBUST, LEAST_SQUARES = "robust", "least squares"
WIDE = "wide gradient"

_WIDER = 3.0


@dataclass(frozen=True, kw_only=True)
class RegressionIntervalParams(IntervalParams):
    """The keywords of regressions that have intervals."""

    interval_target: str = choice(
        "'robust': least squares' coefficient where errors are symmetric or do not depend on the covariates, "
        "else the robust-regression coefficient; 'least squares' under any errors, at its price",
        (ROBUST, LEAST_SQUARES),
        default=ROBUST,
    )

    def check_family(self, family: Family) -> None:
        """Refuse intervals of coefficients of classes."""
        if self.interval is not None and family.needs_classes:
            raise InputError(
                f"interval must be None for family={family.name!r}, got {self.interval!r}: its coefficients "
                "are known up to a common vector"
            )


def resolves(params: RegressionIntervalParams, n_rows: float, n_features: int) -> bool:
    """Return whether there will be an interval, from public numbers alone."""
    size = n_rows * gaussian_mu(params.epsilon, params.delta)
    return bool(params.interval is not None and size >= RESOLVABLE * np.sqrt(n_features))


def interval_shares(params: RegressionIntervalParams, n_rows: float, n_features: int) -> dict[str, float]:
    """Return the shares of μ² that the interval takes; none without one, or with too few rows."""
    return shares_of(INTERVAL_RELEASES, params) if resolves(params, n_rows, n_features) else {}


def family_of(params: RegressionIntervalParams) -> Family:
    """Return the family of an interval's scores, which are clipped and need no bound of responses."""
    return get_family(str(getattr(params, "family", "gaussian")))


def interval_witnesses(d: int) -> list[Neighbors]:
    """Return, for each release, neighbors that differ by its sensitivity, far above any level."""
    first, last, none, far = 1e6 * np.eye(d)[0], 1e6 * np.eye(d)[-1], np.zeros(d), 1e15
    return [
        pair(first, none),
        pair(first, last),
        pair(first, last, far),
        pair(none, none, far, -far),
        pair(none, none, far, 0.0),
        pair(first, first, far, -far),
        pair(first, none, far, 0.0),
        pair(none, none, far, 0.0),
    ]


def interval_of(
    transcript: Transcript,
    params: RegressionIntervalParams,
    budget: SplitBudget,
    made: Steps,
    middle: FloatArray | None = None,
) -> Interval | None:
    """Release what the interval around released steps needs, and return it; None without a level.

    ``budget`` has the parts of :func:`interval_shares`; ``middle`` (R,) is a typical predictor, released.
    """
    steps, scores, white, level = made.released, made.rows, made.white, params.interval
    sample, n_rows = scores.sample, scores.sample.n_rows
    if level is None:
        return None
    if not resolves(params, float(n_rows.min()), sample.n_features):
        return Interval.missing(sample.n_features, sample.n_replicates, FEW)
    wide, bounded = params.interval_target == LEAST_SQUARES, np.isfinite(scores.family.residual_bound)
    if wide:
        steps = _wide_step(transcript, budget, scores, steps)
    middle = np.zeros(len(n_rows)) if middle is None else middle
    curvature = release_curvature(transcript, budget, scores, white, steps, middle)
    center = center_of(curvature, steps)
    at, outer = scores.at(center.theta), scores.whitening
    lost: FloatArray = np.zeros_like(center.theta)
    if bounded:
        row = white.mean_row
        typical = middle - (row * steps.end).sum(axis=0)
        score = clipped_score(scores.family, center.theta, row, typical, steps.level)
        lost = np.einsum("rij,jr->ir", curvature.inverse(), score)
    moments, moments_std = release_second_moments(
        transcript,
        at.clipped_second_moments(steps.level),
        bound=steps.level,
        n_rows=n_rows,
        multiplier=budget.gaussian_multiplier(SCORE_MOMENTS),
    )
    coef, tail = scores.coef(center.theta - lost), None
    shift = InterceptShift(np.zeros_like(coef))
    if not wide and not bounded:
        shift = release_mean_residual(transcript, budget, at, curvature, moments, outer)
    if wide:
        above = shares_above(sample, at.norms(), steps.level)
        tail = release_tail(transcript, above, n_rows=n_rows, multiplier=budget.gaussian_multiplier(TAIL))
        if scores.family.is_linear:
            shift = shift._replace(gross=far_rows_stand_out(transcript, budget, at, curvature, moments))
    released = ReleasedRegression(
        level=level,
        family=scores.family,
        curvature=curvature,
        center=center,
        moments=moments,
        moments_std=moments_std,
        outer=outer,
        middle=middle,
        coef=coef,
        shift=shift,
        tail=tail,
        clip=steps.level,
        n_rows=n_rows,
        lost=lost,
    )
    return replace(released.along(np.eye(len(coef))), released=released)


def _wide_step(
    transcript: Transcript, budget: SplitBudget, scores: WhiteRows, steps: ReleasedSteps
) -> ReleasedSteps:
    """Release a gradient at the end of the steps, of scores clipped at three times their level."""
    level, multiplier = _WIDER * steps.level, budget.gaussian_multiplier(WIDE)
    sensitivity = ball_mean(level, scores.sample.n_rows)
    released = transcript.gaussian(
        scores.at(steps.end).clipped_mean(level),
        l2_sensitivity=sensitivity,
        noise_multiplier=multiplier,
        label=WIDE,
    )
    std = transcript.noise_std(sensitivity, multiplier, len(released))
    return ReleasedSteps(steps.end[None], released[None], std[None], level, steps.end)


def _is_wide(params: Any) -> bool:
    return with_interval(params) and params.interval_target == LEAST_SQUARES


def _needs_residual(params: Any) -> bool:
    return with_interval(params) and not (_is_wide(params) or np.isfinite(family_of(params).residual_bound))


def _counts_far_rows(params: Any) -> bool:
    return _is_wide(params) and family_of(params).is_linear


INTERVAL_RELEASES = (
    Release(COUNTS, 0.012, "1", search_level, with_interval),
    Release(CURVATURE, 0.04, "√2 L/n", release_curvature, with_interval),
    Release(SCORE_MOMENTS, 0.015, "sqrt(min(d, 2))/n", release_second_moments, with_interval),
    Release(RESIDUAL, 0.055, "2/n", release_mean_residual, _needs_residual),
    Release(FAR, 0.03, "1", release_mean_residual, _needs_residual),
    Release(WIDE, 0.25, "6 C/n", _wide_step, _is_wide),
    Release(TAIL, 0.1, "sqrt(2)/n", release_tail, _is_wide),
    Release(FAR, 0.15, "1", far_rows_stand_out, _counts_far_rows),
)
