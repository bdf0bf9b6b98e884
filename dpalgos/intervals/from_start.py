"""Intervals around any private answer of a linear or generalized linear model, by whitened steps from it.

Where an estimator releases no gradients of white rows, these follow its answer: rows are whitened by released
second moments, and three Newton-like steps start from the answer (as in
:mod:`dpalgos.central.preconditioned`), from which on the interval is that of
:mod:`dpalgos.intervals.regression`: debiased, as intervals of the lasso are. The answer stays what it is. The
interval takes .5 of μ² (or of ε, where the estimator is not Gaussian).

Rows are [x, 1]; levels are searched by five counts of rows, and by counts of scores at two of three steps.

References
----------
Zhang & Zhang (2014), Confidence intervals for low dimensional parameters in high dimensional linear models.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.calibration import least_noise_factor
from dpalgos.accounting.events import Event, GaussianEvent
from dpalgos.accounting.gaussian_dp import gaussian_epsilon, gaussian_mu
from dpalgos.catalog import Neighbors, Published, Release, pair, scaled, with_interval, witnessed
from dpalgos.interval import FEW, Interval
from dpalgos.intervals.regression import (
    INTERVAL_RELEASES,
    RegressionIntervalParams,
    family_of,
    interval_of,
    interval_shares,
    interval_witnesses,
)
from dpalgos.mechanisms.clip_levels import search_level
from dpalgos.mechanisms.preconditioned.levels import Levels
from dpalgos.mechanisms.preconditioned.plan import FitPlan
from dpalgos.mechanisms.preconditioned.steps import SCORE, released_steps
from dpalgos.mechanisms.preconditioned.whitening import MOMENTS, WholeRows, private_whitening
from dpalgos.models.white_rows import WhiteRows
from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import ROWS_ABOVE, SCORES_ABOVE
from dpalgos.typing import FloatArray

TOTAL = 0.5
_N_STEPS, _N_SEARCHES, _OWN = 3, 2, 0.25
_SHARES = {"rows": 0.03, "moments": 0.2, "scores": 0.1, **{f"step {t}": 0.14 for t in range(_N_STEPS)}}
_LARGEST_TUNED = 4.0  # above this ε to look for the least noise takes long


def reserved(params: RegressionIntervalParams, sample: Sample, taken: float = TOTAL) -> dict[str, float]:
    """Return the shares of μ² that the interval takes, of a Gaussian estimator's; none without one."""
    return {part: taken * share for part, share in _parts(params, sample).items()}


def rest(params: RegressionIntervalParams, sample: Sample, taken: float = TOTAL) -> tuple[float, float]:
    """Return the (ε, δ) that the interval leaves to an estimator that is not Gaussian."""
    if not _parts(params, sample):
        return params.epsilon, params.delta
    return (1 - taken) * params.epsilon, params.delta / 2


def rest_budget(
    params: RegressionIntervalParams,
    sample: Sample,
    events: Callable[[], Sequence[Event]],
    taken: float = TOTAL,
) -> SplitBudget | None:
    """Return the interval's budget next to an estimator's ``events``, which prove :func:`rest`."""
    parts, delta = _parts(params, sample), params.delta / 2
    if not parts:
        return None
    mu, factor = gaussian_mu(taken * params.epsilon, delta), 1.01
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
    if budget is None or not _parts(params, sample):
        return Interval.missing(sample.n_features, sample.n_replicates, FEW)
    family = family_of(params)
    is_bounded = bool(np.isfinite(family.residual_bound))
    plan = FitPlan(shares=_SHARES, n_steps=_N_STEPS, n_searches=_N_SEARCHES, knows_unit=is_bounded)
    levels = Levels(transcript, sample, family, plan, budget)
    whole = WholeRows(sample.grouped(_with_one), ones=-1)
    white = private_whitening(
        transcript,
        sample,
        whole,
        levels.rows(whole),
        noise_multiplier=budget.gaussian_multiplier("moments"),
    )
    scores = WhiteRows(sample, family, white.matrix)
    theta = np.linalg.solve(white.matrix, start.T[..., None])[..., 0].T
    made = released_steps(transcript, budget, plan, scores, white, levels, theta)
    middle = (white.mean_row * made.released.end).sum(axis=0)
    return interval_of(transcript, params, budget, made, middle)


def _witnesses(_: RegressionIntervalParams, d: int, __: Published) -> list[Neighbors]:
    """Return, for each release, neighbors that differ by its sensitivity, far above any level."""
    first, last, none, far = 1e6 * np.eye(d)[0], 1e6 * np.eye(d)[-1], np.zeros(d), 1e15
    scores = pair(first, none, far, 0.0), pair(first, first, far, -far)
    return [pair(first, none), pair(first, last), *scores, *interval_witnesses(d)]


def _parts(params: RegressionIntervalParams, sample: Sample) -> dict[str, float]:
    if params.interval is None:  # of a family with classes, say, which has no interval
        return {}
    own = interval_shares(params, float(sample.n_rows.min()), sample.n_features)
    scale = _OWN / sum(own.values()) if own else 0.0
    return {**_SHARES, **{part: scale * share for part, share in own.items()}} if own else {}


def _with_one(group: Group) -> FloatArray:
    return np.column_stack([group.X, np.ones(len(group.X))])


@lru_cache(maxsize=1024)
def _least_factor(events: tuple[Event, ...], epsilon: float, delta: float) -> float:
    """Return the least factor on the last event's noise at which events prove (ε, δ)."""
    *others, last = events

    def planned(factor: float) -> list[Event]:
        return [*others, last.scaled(factor)]

    return least_noise_factor(planned, epsilon, delta, most=1.01)


_OWN_RELEASES = (
    Release(ROWS_ABOVE, _SHARES["rows"], "1", search_level, with_interval),
    Release(MOMENTS, _SHARES["moments"], "√2 C_A²/n", private_whitening, with_interval),
    Release(SCORES_ABOVE, _SHARES["scores"], "1", search_level, with_interval),
    Release(SCORE, _N_STEPS * _SHARES["step 0"], "2C/n", released_steps, with_interval),
)
_RELEASES = witnessed(_witnesses, *_OWN_RELEASES, *scaled(_OWN, INTERVAL_RELEASES))
START_RELEASES = scaled(TOTAL, _RELEASES)
