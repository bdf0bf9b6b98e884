"""Intervals of preconditioned regressions: the extra releases around the steps that the estimator made.

    center        β̃ = W Σ_t w_t (θ_t + Q⁻¹ g_t)
    half-width    z √(T_j + u_j) + b_j
    T_j           = ‖l_j‖² Σ_t w_t² s_t² + l_j' S l_j / n + the noise in Q,   l_j = row j of W Q⁻¹

g_t is the mean of scores of white rows u = W'x at θ_t, each clipped to norm C, with noise of standard
deviation s_t. The estimator released all g_t. Therefore the center costs no budget. The center is not
shrunk. Q is the curvature of the mean of clipped scores, S their second moments. Released in addition:

- four counts of ψ''‖z‖², z = [u, 1], and the mean of ψ'' z z' over rows whose score is not clipped;
- the second moments of clipped scores, over C²;
- for the robust target and unbounded residuals: the mean of (t, t²), t = residual/Λ cut to [−1, 1], and a
  count of rows with |residual| max(1, ‖u‖/√d) above 2.2Λ, or 6Λ for counts;
- for the robust target and bounded residuals: a count of rows with a cell that was moved to a public bound;
- for the target "least squares": the mean of scores clipped to 3C, and shares of rows by score;
- for that target in linear models: the count of far rows.

All else follows from released and public numbers (:mod:`dpalgos.intervals.regression`). It affects accuracy
only:

- Clipped scores have mean zero at the coefficients where errors are symmetric given the covariates. For
  slopes, independence of errors and covariates suffices. There slopes cover least squares' coefficient,
  elsewhere the robust-regression coefficient.
- The intercept is the last coefficient if one is declared, else that of a column of ones, which the released
  mean of z shows. It is moved by the mean residual towards the mean of the errors. For counts, it is moved by
  the ratio of the mean residual to the mean response. At nμ = 500, Λ is five standard deviations, and three
  for counts. It rises with nμ. So it takes little from the mean of skewed errors. A bound on the bias allows
  for far rows at twice their cutoff. If there are more far rows than noise explains, and more than half a
  row, the intercept has no interval.
- Rows with a moved cell are counted: among far rows, or alone. Scores are clipped to C. Therefore m such rows
  move a mean score by at most 2Cm/n, a small part of its standard error if m is at most √n/8. If there are
  more, and more than noise explains, no coefficient has an interval. This rule holds for every family.
- The slopes of counts have a bound on the bias, too. Residuals are clipped at about c = C/√d. If they are
  overdispersed, this takes at most (dispersion − 1)/(4c) of the mean, and about that part of each slope. The
  dispersion may depend on covariates. Therefore a slope may move by 0.4 times that part per standard
  deviation of its column.
- Counts of people have no such bound. A person's score is clipped to a threshold that follows from
  covariates. If the spread does not depend on covariates, clipping moves the intercept alone
  (:class:`dpalgos.central.preconditioned.scores.LimitedScores`). With t and t² the mean variance of Poisson
  residuals is released. If t² may exceed 1.4 times of it, the intercept has no interval. If it does by more
  than its noise, no coefficient has one: if the spread depends on a column, clipping moves its slope.
- The curvature is denoised towards the one that whitening predicts, p V diag(h) V'. Here p is the mean
  weight, V contains the whitening's directions, and h is how well each is resolved. Entry (i, j) of the
  released difference, along V, is multiplied by a_ij = v_ij/(v_ij + s²). An eigenvalue that noise may have
  made is raised, and marked as hidden. For times to an event, v_ij is larger by 0.02: late rows have
  less curvature than whitening predicts.
"""

from dataclasses import replace

import numpy as np
import scipy

from dpalgos.cautions import OVERDISPERSED, PROPORTIONAL
from dpalgos.central.preconditioned.plan import (
    CURVATURE,
    CURVATURES_ABOVE,
    FAR_ROWS,
    LATE_SCORE,
    LEAST_SQUARES,
    N_CENTERED,
    N_LEVELS,
    PEOPLE_RESIDUAL,
    RESIDUAL,
    SCORE_MOMENTS,
    TAIL,
    WIDE_SCORE,
    Numbers,
)
from dpalgos.central.preconditioned.scores import LimitedScores, ScoreFunction, Scores
from dpalgos.central.preconditioned.steps import Steps
from dpalgos.central.preconditioned.whitening import Whitening
from dpalgos.core.record import Noisy
from dpalgos.core.spend import Spend
from dpalgos.interval import FEW, Interval
from dpalgos.intervals.regression import (
    RESOLVED,
    InterceptShift,
    ReleasedRegression,
    ScoreCurvature,
    center_of,
)
from dpalgos.intervals.tails import LEVELS, bins_between, tail_of_bins, tail_sensitivity
from dpalgos.models.newton_steps import NewtonSteps
from dpalgos.models.normal_curvature import clipped_curvature
from dpalgos.tuning.threshold_search import search
from dpalgos.typing import BoolArray, FloatArray

_WIDER = 3.0
_LARGEST_THRESHOLD = 32.0  # times d + 1 and the curvature at a typical predictor
_LONG = 0.004  # the target share of rows with a clipped curvature
_LARGEST_NOISE = 0.3  # of the curvature's entries
_FLATTEST = 0.1  # of the mean weight
# At nμ = 500, Λ and the cutoff of outliers in residual standard deviations: of lines, and of counts.
_LAMBDA, _FAR_AWAY, _REFERENCE_SIZE = (5.0, 3.0), (11.0, 18.0), 500.0
_FARTHEST = 2.0  # the assumed size of outliers, in cutoffs
_DOUBTFUL, _GROSS, _GROSS_FOR_ALL = 1.5, 2.2, 3.0  # noise standard deviations
_DOUBTED = 0.05  # the p-value of proportional hazards below which half-widths are larger
_OF_LATE = 0.7  # of the second moments of scores, for those of the later half of the events
_FEW_MOVED = 1 / 8  # times √n rows, whose moved cells are of no account
_UNEVEN = 0.4  # of the part of the mean that clipping takes: how much it may differ among rows
_A_ROW = 0.5  # of a count: below it, no row is far
_DISPERSED = 1.4  # of counts whose intercept has no interval
_UNLIKE = 0.02  # variance of curvatures of person-periods: many persons are gone in late ones
_TINY = float(np.finfo(float).tiny)
_FLAT = 1e-300  # ψ'' is zero in double precision where all predictors are far out


def released_interval(
    spend: Spend, level: float, numbers: Numbers, score: ScoreFunction, state: Steps
) -> Interval:
    """Release the statistics of an interval around released steps, if the plan has one; return it."""
    family, white, n_rows, d = score.family, state.white, score.n_rows, score.d
    if CURVATURE not in spend.plan:
        return Interval.missing(d, 1, FEW)
    steps, middle = state.released, 0.0  # a typical predictor
    if not family.is_linear:
        steps, middle = steps.last(N_CENTERED), float(white.mean_row @ state.theta + state.origin)
    wide, bounded = numbers.target == LEAST_SQUARES, family.is_bounded
    if wide:
        steps = _wide_step(spend, score, steps)
    curvature = _released_curvature(spend, score, state, steps, middle)
    center = center_of(curvature, steps)
    scores = score.at(center.theta)
    moments = _released_score_moments(spend, scores, steps.threshold)
    shift, tail = InterceptShift.none(d), None
    if not wide and not bounded:
        coef = score.coef(center.theta)
        shift = _intercept_shift(spend, numbers, scores, curvature, moments, state, coef)
    if not wide and bounded:
        moved, noise = _far_rows(spend, scores, np.inf)
        shift = shift._replace(gross=np.full(d, moved > _largest_count(noise, n_rows)))
    if wide:
        above = scores.shares_above(steps.threshold, LEVELS)
        tail = tail_of_bins(*spend(TAIL, tail_sensitivity.of(bins_between(above[:, None]), n_rows)))
        if family.is_linear:
            _, cutoff = _thresholds_of_residuals(numbers, scores, curvature, moments.value)
            far, noise = _far_rows(spend, scores, cutoff)
            shift = shift._replace(gross=np.full(d, far > _GROSS * noise))
    released = ReleasedRegression(
        level=level,
        family=family,
        curvature=curvature,
        center=center,
        moments=moments.value,
        moments_std=float(moments.std),
        outer=score.whitening,
        middle=middle,
        coef=score.coef(center.theta),
        shift=shift,
        tail=tail,
        clip=steps.threshold,
        n_rows=n_rows,
    )
    del scores  # as large as the rows
    if LATE_SCORE in spend.plan:
        chance, late_effect = _late_scores(spend, score, released, center.theta)
        spend.note(PROPORTIONAL, chance)
        if chance < _DOUBTED:
            released = replace(released, late_effect=late_effect)
    return replace(released.along(np.eye(d)), released=released)


def _late_scores(
    spend: Spend, score: ScoreFunction, released: ReleasedRegression, theta: FloatArray
) -> tuple[float, float]:
    """Release the mean of scores of late follow-up; return the p-value of proportional hazards.

    Also return the length of the change of effects that late follow-up asks for, in white coordinates.
    Follow-up begins with the later half of the events, and stops at the limit c as in the whole score. If
    hazards are proportional, the mean is 0 at the true coefficients.
    """
    follow_up = score.follow_up
    assert follow_up is not None
    late = spend(LATE_SCORE, score.at(theta, follow_up.late).clipped_mean(released.clip))
    d = len(theta)
    effects = released.outer[: d - 1 - len(follow_up.time_columns)]
    lever = effects @ released.curvature.inverse()
    noise = float(late.std) ** 2 + released.center.score_std**2 / 2
    variance = _OF_LATE * released.moments / released.n_rows + noise * np.eye(d)
    step = lever @ late.value
    square = float(step @ np.linalg.solve(lever @ variance @ lever.T, step))
    length = float(np.linalg.norm(np.linalg.pinv(effects) @ step))
    return float(scipy.special.chdtrc(len(lever), square)), length


def _wide_step(spend: Spend, score: ScoreFunction, steps: NewtonSteps) -> NewtonSteps:
    """Release a score at the end of the steps, of rows' scores clipped at three times their threshold."""
    threshold = _WIDER * steps.threshold
    released = spend(WIDE_SCORE, score.at(steps.end).clipped_mean(threshold))
    return NewtonSteps(steps.end[None], released.value[None], np.array([released.std]), threshold, steps.end)


def _released_score_moments(spend: Spend, scores: Scores, threshold: float) -> Noisy:
    """Release the second moments (d, d) of scores clipped to a threshold; no eigenvalue is below zero."""
    released = spend.symmetric(SCORE_MOMENTS, scores.clipped_moments(threshold))
    eigenvalues, vectors = np.linalg.eigh(released.value)
    positive = (vectors * np.maximum(eigenvalues, 0)) @ vectors.T
    return Noisy(threshold**2 * positive, threshold**2 * released.std)


def _released_curvature(
    spend: Spend, score: ScoreFunction, state: Steps, steps: NewtonSteps, middle: float
) -> ScoreCurvature:
    """Release the curvature at the last of the steps."""
    family, n_rows, d, theta, white = score.family, score.n_rows, score.d, steps.points[-1], state.white
    parts = score.at(theta).curvature(steps.threshold)
    assert state.threshold is not None
    clip = state.clip * (steps.threshold / state.threshold)
    typical = float(clipped_curvature(family, np.array([middle]), clip)[0])
    unit = (white.size + 1) * max(typical, 1e-3)
    largest = _LARGEST_NOISE * n_rows / (np.sqrt(2) * spend.multiplier(CURVATURE) * (white.size + 1))
    candidates = unit * np.clip(largest, 2, _LARGEST_THRESHOLD) ** np.linspace(0, 1, N_LEVELS)
    target = max(_LONG * n_rows, 1.2 * spend.multiplier(CURVATURES_ABOVE))
    above = parts.counts_above(candidates)
    threshold = float(candidates[search(spend, CURVATURES_ABOVE, above, target)[0]])
    released = spend.symmetric(CURVATURE, parts.clipped_mean(threshold))
    shape: FloatArray = np.eye(d)
    if family.is_bounded:
        shape = white.normal_curvature(family, theta, middle - float(white.mean_row @ steps.end), clip)
        shape = shape * (d / max(float(shape.trace()), _FLAT))
    normal = float(scipy.special.chdtri(d, _LONG) + 1)
    heavy = max(threshold * (white.size + 1) / (unit * normal), 1.0)
    unlike = _UNLIKE if score.has_single_events else 0.0
    return _denoised(released, white, unit, shape, unlike)._replace(heavy=heavy)


def _denoised(
    released: Noisy, white: Whitening, unit: float, shape: FloatArray, unlike: float
) -> ScoreCurvature:
    """Return Q of the released mean of z z', (d + 1, d + 1).

    ``shape`` (d, d), of trace d, is that of normal rows. Rows differ from them by a variance ``unlike``.
    """
    moments, noise, axes = released.value, float(released.std), white.directions
    d = len(axes)
    total = max(float(moments.trace()), 0.2 * unit) / (white.size + 1)
    part = (axes * np.sqrt(total * white.curvature)) @ axes.T
    expected = part @ shape @ part
    doubt = total**2 * (white.doubt + unlike * np.outer(white.curvature, white.curvature))
    weight = doubt / (doubt + noise**2)
    known = expected + axes @ (weight * (axes.T @ (moments[:d, :d] - expected) @ axes)) @ axes.T
    values, vectors = np.linalg.eigh(known)
    turned = (axes.T @ vectors) ** 2
    variances = turned.T @ (weight * noise**2) @ turned
    least = np.maximum(RESOLVED * np.sqrt(variances.diagonal()), _FLATTEST * total)
    raised = np.maximum(values, least)
    ones = vectors @ (vectors.T @ moments[:d, -1] / raised)
    return ScoreCurvature(vectors, raised, variances, values < least, ones, total, noise)


def _intercept_shift(
    spend: Spend,
    numbers: Numbers,
    scores: Scores,
    curvature: ScoreCurvature,
    moments: Noisy,
    state: Steps,
    coef: FloatArray,
) -> InterceptShift:
    """Release the mean clipped residual and the outlier count; correct the intercept with them.

    ``coef`` (d,) are the coefficients before that. The dispersion of counts is their mean squared residual
    over that of a Poisson distribution. If it is well above 1, errors are skewed beyond Λ, and the intercept
    has no interval.
    """
    assert state.threshold is not None
    n_rows, d, has_counts = scores.n_rows, len(moments.value), state.family.has_counts
    threshold, cutoff = _thresholds_of_residuals(numbers, scores, curvature, moments.value)
    if isinstance(scores, LimitedScores):
        released = spend(RESIDUAL, scores.residual_moments(threshold), form=PEOPLE_RESIDUAL)
    else:
        released = spend(RESIDUAL, scores.residual_moments(threshold))
    # Per unit of the intercept the mean response changes by its derivative.
    scale = threshold / (curvature.total if has_counts else 1.0)
    std, mean = scale * float(released.std), scale * float(released.value[0])
    far, noise = _far_rows(spend, scores, cutoff)
    one, image = _column_of_ones(curvature, scores.function.whitening, has_intercept=numbers.intercept)
    hidden = _FARTHEST * cutoff * scale / threshold * max(far - _DOUBTFUL * noise, 0.0) / n_rows
    lost, skews, is_uneven = 0.0, False, False
    if isinstance(scores, LimitedScores):
        _, square, chance = released.value
        skews = bool(square + released.std > _DISPERSED * chance)
        is_uneven = bool(square - released.std > _DISPERSED * chance)
    elif has_counts:
        # The mean square with one standard deviation of its noise: overdispersion may hide in it.
        dispersion = threshold**2 * float(released.value[1] + released.std) / curvature.total
        skews = threshold**2 * float(released.value[1]) / curvature.total > _DISPERSED
        # E max(r − c, 0) ≤ Var r/(4c), where r is the part of a residual beyond a Poisson distribution.
        lost = max(dispersion - 1, 0.0) * np.sqrt(d) / (4 * state.threshold)
    spend.note(OVERDISPERSED, skews)
    uneven = _UNEVEN * lost * np.linalg.norm(scores.function.whitening, axis=1)
    return InterceptShift(
        moved=one * mean,
        image=np.outer(one, image),
        variance=one * (std**2 + scale**2 * max(float(released.value[1]), 0.0) / n_rows),
        bias=np.where(one, hidden + lost, np.maximum(lost * np.abs(coef), uneven)),
        gross=(one & (far > max(_GROSS * noise, _A_ROW))) | np.full(d, far > _largest_count(noise, n_rows)),
        dispersed=(one & skews) | is_uneven,
    )


def _thresholds_of_residuals(
    numbers: Numbers, scores: Scores, curvature: ScoreCurvature, moments: FloatArray
) -> tuple[float, float]:
    """Return Λ and the cutoff of outliers from released scores.

    White rows of counts weigh 1, others the share that is not clipped.
    """
    has_counts = scores.function.family.has_counts
    weight = 1.0 if has_counts else curvature.total
    variance = float(moments.trace()) / (len(moments) * weight)
    unit = float(np.sqrt(max(variance, _TINY)) * (numbers.size / _REFERENCE_SIZE) ** 0.25)
    return unit * _LAMBDA[has_counts], unit * _FAR_AWAY[has_counts]


def _largest_count(noise: float, n_rows: float) -> float:
    """Return the number of moved or far rows from which no coefficient has an interval."""
    return float(max(_GROSS_FOR_ALL * noise, _FEW_MOVED * np.sqrt(n_rows)))


def _far_rows(spend: Spend, scores: Scores, cutoff: float) -> tuple[float, float]:
    """Release the number of rows with extreme residuals; return it and its noise standard deviation."""
    released = spend(FAR_ROWS, scores.far_rows(cutoff))
    return float(released.value[0]), float(released.std)


def _column_of_ones(
    curvature: ScoreCurvature, outer: FloatArray, *, has_intercept: bool
) -> tuple[BoolArray, FloatArray]:
    """Return which coefficient, (d,), is of a column of ones, if any, and the mean white row, (d,)."""
    columns: FloatArray = np.linalg.inv(outer)
    length = np.linalg.norm(columns, axis=0)
    j = len(outer) - 1 if has_intercept else int((curvature.ones @ columns / length).argmax())
    unsure = curvature.noise / curvature.total
    alike = float(curvature.ones @ columns[:, j] / length[j])
    one: BoolArray = np.zeros(len(outer), dtype=bool)
    one[j] = has_intercept or (alike > 0.6 + 0.5 * unsure and abs(length[j] ** 2 - 1) < 0.2 + unsure)
    along = curvature.along(columns[:, j]) * curvature.values / curvature.total
    return one, curvature.vectors @ along
