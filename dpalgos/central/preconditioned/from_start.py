"""Intervals around any private estimate of a linear or generalized linear model, by whitened steps from it.

If an estimator releases no gradients of white rows, these intervals follow its estimate. Rows are whitened
by released second moments, and three Newton steps start from the estimate. The interval is then that of
:mod:`dpalgos.central.preconditioned.interval`: debiased, as intervals of the lasso are. The estimate is not
changed. The interval takes 0.5 of μ² (or of ε, where the estimator is not Gaussian).

Rows are [x, 1]. Their threshold is searched by five counts of rows. If residuals are not bounded, thresholds
of scores are searched by counts at two of three steps.

References
----------
Zhang & Zhang (2014), Confidence intervals for low dimensional parameters in high dimensional linear models.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.calibration import least_noise_factor
from dpalgos.accounting.events import Event, GaussianEvent
from dpalgos.accounting.gaussian_dp import gaussian_epsilon, gaussian_mu
from dpalgos.catalog import Neighbors, Published, Release, pair, scaled, shares_of, with_interval
from dpalgos.central.preconditioned.estimator import released_moments, released_steps
from dpalgos.central.preconditioned.interval import (
    TIMES,
    RegressionIntervalParams,
    interval_shares,
    released_interval,
)
from dpalgos.central.preconditioned.newton import State
from dpalgos.central.preconditioned.plan import N_ROW_LEVELS, N_UNKNOWN, FitPlan, public_threshold
from dpalgos.central.preconditioned.queries import WhiteRows, n_rows_of
from dpalgos.central.preconditioned.releases import (
    INTERVAL_RELEASES,
    MOMENTS,
    ROWS_ABOVE,
    SCORES_ABOVE,
    STEP,
    interval_family,
)
from dpalgos.central.preconditioned.whitening import whitening_of
from dpalgos.interval import FEW, Interval
from dpalgos.release.spend import Spend, counts_needed
from dpalgos.release.transcript import Transcript
from dpalgos.rows.replicates import each_replicate
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

TOTAL = 0.5
_N_STEPS, _N_SEARCHES, _INTERVAL_SHARE = 3, 2, 0.25
_SHARES = {ROWS_ABOVE: 0.03, MOMENTS: 0.2, SCORES_ABOVE: 0.1, STEP: 0.42}
_LARGEST_TUNED = 4.0  # above this ε to look for the least noise takes long


def reserved(
    params: RegressionIntervalParams, sample: Sample, interval_share: float = TOTAL
) -> dict[str, float]:
    """Return the shares of μ² that the interval takes of a Gaussian estimator's budget; none without one."""
    return {part: interval_share * share for part, share in _parts(params, sample).items()}


def rest(
    params: RegressionIntervalParams, sample: Sample, interval_share: float = TOTAL
) -> tuple[float, float]:
    """Return the (ε, δ) that the interval leaves to an estimator that is not Gaussian."""
    if not _parts(params, sample):
        return params.epsilon, params.delta
    return (1 - interval_share) * params.epsilon, params.delta / 2


def rest_budget(
    params: RegressionIntervalParams,
    sample: Sample,
    events: Callable[[], Sequence[Event]],
    interval_share: float = TOTAL,
) -> SplitBudget | None:
    """Return the interval's budget next to an estimator's ``events``, which prove :func:`rest`."""
    parts, delta = _parts(params, sample), params.delta / 2
    if not parts:
        return None
    mu, factor = gaussian_mu(interval_share * params.epsilon, delta), 1.01
    if params.epsilon <= _LARGEST_TUNED:
        alone = GaussianEvent(label="", noise_multiplier=1 / mu, l2_sensitivity=1.0)
        factor = _least_factor((*events(), alone), params.epsilon, params.delta)
    return SplitBudget(epsilon=gaussian_epsilon(delta, mu / factor), delta=delta, shares=parts)


def interval_from(
    transcript: Transcript,
    params: RegressionIntervalParams,
    budget: SplitBudget | None,
    sample: Sample,
    start: FloatArray,
) -> Interval | None:
    """Release steps from ``start`` (d, R), and return the interval; ``budget`` has the reserved parts."""
    if params.interval is None:
        return None
    parts = _parts(params, sample)
    if budget is None or not parts:
        return Interval.missing(sample.n_features, sample.n_replicates, FEW)
    whole = budget
    times = {SCORES_ABOVE: _N_SEARCHES * counts_needed(N_UNKNOWN), STEP: _N_STEPS}
    times |= {ROWS_ABOVE: counts_needed(N_ROW_LEVELS), **TIMES}
    by_label = {release.label: number for release, number in times.items()}
    mu = gaussian_mu(budget.epsilon, budget.delta)

    def fit(r: int, own: Sample, part: Transcript) -> FloatArray:
        spend = Spend.of_budget(part, whole, by_label, parts)
        part.interval = _steps_and_interval(spend, params, own, start[:, r], mu)
        spend.check_complete()
        return start[:, [r]]

    each_replicate(sample, transcript, fit)
    return transcript.interval


def _steps_and_interval(
    spend: Spend, params: RegressionIntervalParams, sample: Sample, start: FloatArray, mu: float
) -> Interval:
    family, n_rows, d = interval_family(params), n_rows_of(sample), sample.n_features
    plan = FitPlan(
        shares=_SHARES,
        size=n_rows * mu,
        mu=mu,
        n_steps=_N_STEPS,
        n_searches=_N_SEARCHES,
        score_threshold=public_threshold(mu, n_rows, d) if family.is_bounded else None,
        knows_unit=False,
    )
    coordinates: FloatArray = np.eye(d + 1)
    released, _ = released_moments(spend, plan, sample, coordinates, with_response=False)
    white = whitening_of(released, coordinates, d)
    state = State(
        family=family,
        n_rows=n_rows,
        white=white,
        theta=np.linalg.solve(white.matrix, start),
        origin=np.zeros(()),
        clip=plan.relative_clip(d),
    )
    white_rows = WhiteRows(sample, family, white.matrix, np.zeros(d))
    state, white_rows, _ = released_steps(spend, plan, white_rows, state)
    middle = float(state.white.mean_row @ state.theta)
    return released_interval(spend, params, white_rows, state, state.released_steps, middle)


def _parts(params: RegressionIntervalParams, sample: Sample) -> dict[str, float]:
    """Return the shares of the interval's budget by label; none where there is no interval."""
    if params.interval is None:  # of a family with classes, say, which has no interval
        return {}
    shares = interval_shares(params, sample.planned_rows, sample.n_features)
    if not shares:
        return {}
    scale = _INTERVAL_SHARE / sum(shares.values())
    parts = {**shares_of(_STEPS, params), **{part: scale * share for part, share in shares.items()}}
    return {part: share / sum(parts.values()) for part, share in parts.items()}


@lru_cache(maxsize=1024)
def _least_factor(events: tuple[Event, ...], epsilon: float, delta: float) -> float:
    """Return the smallest factor on the last event's noise at which events prove (ε, δ)."""
    *others, last = events

    def planned(factor: float) -> list[Event]:
        return [*others, last.scaled(factor)]

    return least_noise_factor(planned, epsilon, delta, most=1.01)


def _is_released(release: Release, params: RegressionIntervalParams) -> bool:
    return with_interval(params) and not (release == SCORES_ABOVE and interval_family(params).is_bounded)


def _witness(first: int | None, other: int | None, y: float = 0.0, other_y: float | None = None) -> Any:
    """Return neighbors of far rows along an axis, or of zeros."""

    def witness(_: Any, d: int, __: Published) -> Neighbors:
        one, two = (np.zeros(d) if axis is None else 1e6 * np.eye(d)[axis] for axis in (first, other))
        return pair(one, two, y, other_y)

    return witness


_WITNESSES = {
    ROWS_ABOVE: _witness(0, None),
    MOMENTS: _witness(0, -1),
    SCORES_ABOVE: _witness(0, None, 1e15, 0.0),
    STEP: _witness(0, 0, 1e15, -1e15),
}
_STEPS = tuple(
    replace(release, share=share, when=partial(_is_released, release), witness=_WITNESSES[release])
    for release, share in _SHARES.items()
)
START_RELEASES: tuple[Release, ...] = scaled(TOTAL, (*_STEPS, *scaled(_INTERVAL_SHARE, INTERVAL_RELEASES)))
