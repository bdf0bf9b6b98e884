"""The intercept of a generalized linear model, from a released mean response.

Responses are numbers up to 1, indicators of classes, or counts cut at a threshold. With an offset the
intercept follows from the mean of e^offset, too: exactly for counts, nearly for rare events.

There are two ways to spend on it.

Next to other releases, noise is Gaussian, and shares are of μ². Counts are cut at a threshold that about 3 %
of them exceed. A search finds it, which releases four numbers of counts above a candidate.

Alone, where rows are too few for slopes, noise is Laplace noise, and shares are of ε, which add up. One
number that a neighbor moves by Δ then has noise of standard deviation √2 Δ/ε, less than the Δ/μ of Gaussian
noise (14 Δ and 36 Δ at ε = 0.1, δ = 10⁻⁶). Counts are cut at 6 (e^m − 1), where m is the released mean of
log(1 + y). For that mean they are cut at 2¹⁵, or lower, so that the scale of its noise is at most a third.
"""

import numpy as np

from dpalgos.central.preconditioned import plan as plans
from dpalgos.central.preconditioned.plan import FitPlan
from dpalgos.central.preconditioned.queries import mean_of, n_rows_of, responses
from dpalgos.central.preconditioned.releases import CONSTANT, EXPOSURE, LOGARITHM, RESPONSES_ABOVE
from dpalgos.mechanisms.clip_levels import search_threshold
from dpalgos.mechanisms.sensitivity import histogram, interval
from dpalgos.models.families import Family
from dpalgos.release.spend import SpendOnce
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

_COUNTS = 2.0 ** np.arange(plans.N_COUNT_CUTS) - 0.5
_RESPONSES = 2.0 ** np.arange(plans.N_RESPONSES) - 0.5
_LARGE_COUNTS, _MOST_LARGE, _DETECTABLE_COUNT = 0.03, 0.25, 4.0  # shares of rows; noise of a count
_LARGEST_COUNT, _CUT_AT = 2.0**15, 6.0  # the second times what the mean logarithm says
_LARGEST_SCALE = 1 / 3  # of the noise in a mean logarithm


def released_intercept(spend: SpendOnce, sample: Sample, family: Family, plan: FitPlan) -> FloatArray:
    """Release the mean response, and return the predictor of which it is the mean, () or (K,).

    A mean below its noise counts as that.
    """
    n_rows, classes, largest = n_rows_of(sample), bool(family.classes), 1.0
    if family.has_counts:
        largest = _mean_cut(spend, sample) if plan.intercept_only else _searched_cut(spend, sample)
    mean = mean_of(sample, lambda group: np.minimum(np.maximum(family.encode(group.y)[..., 0], 0), largest))
    if classes:  # two indicators change: by √2 in ℓ2, by 2 in ℓ1
        alone = plan.intercept_only
        released = spend(CONSTANT, mean, 2.0 if alone else 1, n_rows, lemma=interval if alone else histogram)
    else:
        released = spend(CONSTANT, mean, largest, n_rows)
    mean = np.maximum(released.value, np.maximum(released.std, np.finfo(float).tiny))
    if classes:
        return np.asarray(np.log(mean / mean.sum()))
    if family.has_events:
        mean = np.minimum(mean, np.maximum(1 - released.std, 0.5))
        return np.asarray(np.log(mean / (1 - mean)))
    return np.asarray(np.log(mean))


def _searched_cut(spend: SpendOnce, sample: Sample) -> float:
    n_rows = n_rows_of(sample)
    target = max(_LARGE_COUNTS * n_rows, _DETECTABLE_COUNT * spend.multiplier(RESPONSES_ABOVE))
    above = responses(sample).counts_above(_COUNTS)
    return search_threshold(spend, RESPONSES_ABOVE, _COUNTS, min(target, _MOST_LARGE * n_rows), above)


def _mean_cut(spend: SpendOnce, sample: Sample) -> float:
    n_rows = n_rows_of(sample)
    largest = float(min(_LARGEST_SCALE * n_rows * spend.epsilon(LOGARITHM), np.log1p(_LARGEST_COUNT)))
    mean = mean_of(sample, lambda group: np.minimum(np.log1p(np.maximum(group.y, 0)), largest))
    released = spend(LOGARITHM, mean, largest, n_rows)
    typical = np.expm1(np.clip(released.value, np.minimum(released.std, largest), largest))
    return float(np.maximum(_CUT_AT * typical, 1.0))


def released_typical_offset(spend: SpendOnce, sample: Sample) -> float:
    """Release the mean of e^offset, and return its logarithm.

    A row whose constant, the last column, is 0 counts as left out. e^offset over its public upper bound,
    times a constant in [0, 1], lies in [0, 1].
    """
    assert sample.offset_bounds is not None
    low, high = sample.offset_bounds

    mean = mean_of(
        sample, lambda group: np.exp(np.ravel(group.offset) - high) * np.clip(group.X[:, -1], 0, 1)
    )
    released = spend(EXPOSURE, mean, 1.0, n_rows_of(sample))
    least = np.maximum(released.std, np.exp(low - high))
    return float(high + np.log(np.clip(released.value, np.minimum(least, 1), 1)))


def released_typical_response(spend: SpendOnce, sample: Sample) -> float:
    """Release about the upper quartile of the responses; return the power of two below it, at least 1."""
    above = responses(sample).counts_above(_RESPONSES)
    found = search_threshold(spend, RESPONSES_ABOVE, _RESPONSES, 0.25 * n_rows_of(sample), above)
    return max((found + 0.5) / 2, 1.0)
