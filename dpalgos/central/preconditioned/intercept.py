"""The intercept of a generalized linear model, from a released mean response.

Responses are numbers up to 1, indicators of classes, or counts cut at a threshold. With an offset the
intercept follows from the mean of e^offset, too: exactly for counts, nearly for rare events.

There are two ways to spend on it.

Next to other releases, noise is Gaussian, and shares are of μ². Counts are cut at twice the lowest power of
two that no more of them exceed than noise may hide. A search finds it, which releases four numbers of counts
above a candidate.

Alone, where rows are too few for slopes, noise is Laplace noise, and shares are of ε, which add up. If a
neighbor moves one number by Δ, its noise has standard deviation √2 Δ/ε. That is less than the Δ/μ of
Gaussian noise (14 Δ and 36 Δ at ε = 0.1, δ = 10⁻⁶). Counts are cut at 6 (e^(m/q) − 1). Here m is the
released mean of log(1 + y), and q the share of counts above zero: many zeros do not lower the cut. If noise
hides it, q is 1. For m counts are cut at 2¹⁵, or lower: the scale of its noise is at most a third. With L
the largest logarithm, m and 0.3 L q are released together. A row moves both by at most 1.3 L/n in ℓ1.
"""

import numpy as np

from dpalgos.central.preconditioned import plan as plans
from dpalgos.central.preconditioned.mean_response import MeanResponse
from dpalgos.central.preconditioned.plan import FitPlan
from dpalgos.central.preconditioned.queries import (
    mean_logarithm,
    mean_of,
    mean_response,
    n_rows_of,
    responses,
)
from dpalgos.central.preconditioned.releases import CONSTANT, EXPOSURE, LOGARITHM, RESPONSES_ABOVE
from dpalgos.mechanisms.sensitivity import histogram, interval
from dpalgos.models.families import Family
from dpalgos.release.spend import Spend
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

_COUNTS = 2.0 ** np.arange(plans.N_COUNT_CUTS) - 0.5
_RESPONSES = 2.0 ** np.arange(plans.N_RESPONSES) - 0.5
_MOST_LARGE, _DETECTABLE_COUNT = 0.25, 4.0  # of the rows; times the noise of a count
_ABOVE = 2.0  # times the power of two that is found, where counts are cut
_LARGEST_COUNT, _CUT_AT = 2.0**15, 6.0  # the second times what the mean logarithm says
_WEIGHT = 0.3  # of the share of counts above zero, next to their mean logarithm
_CLEAR, _MARGIN = 3.0, 2.0  # standard deviations of the noise in that share
_WIDEST = 2.0  # units of the response of a linear model
_LARGEST_SCALE = 1 / 3  # of the noise in a mean logarithm


def released_mean_response(spend: Spend, sample: Sample, family: Family, plan: FitPlan) -> MeanResponse:
    """Release the mean response of a family without classes."""
    largest = 1.0
    if family.has_counts:
        largest = _mean_cut(spend, sample) if plan.intercept_only else _searched_cut(spend, sample)
    released = spend(CONSTANT, mean_response(sample, family, largest), largest, n_rows_of(sample))
    return MeanResponse(family, float(released.value), float(released.std), largest)


def released_linear_mean(spend: Spend, sample: Sample) -> float:
    """Release the mean of the response of a linear model, cut to ±2 units: the width of declared bounds."""
    mean = mean_of(sample, lambda group: np.clip(group.y, -_WIDEST, _WIDEST))
    return float(spend(CONSTANT, mean, 2 * _WIDEST, n_rows_of(sample)).value)


def released_class_predictors(spend: Spend, sample: Sample, family: Family, plan: FitPlan) -> FloatArray:
    """Release the shares of classes, and return predictors (K,) of which they are the means.

    A share below its noise counts as that.
    """
    shares, n_rows = mean_response(sample, family, 1.0), n_rows_of(sample)
    if plan.intercept_only:
        released = spend(CONSTANT, shares, 2.0, n_rows, lemma=interval)
    else:
        released = spend(CONSTANT, shares, 1, n_rows, lemma=histogram)
    mean = np.maximum(released.value, np.maximum(released.std, np.finfo(float).tiny))
    return np.asarray(np.log(mean / mean.sum()))


def _searched_cut(spend: Spend, sample: Sample) -> float:
    """Return twice the lowest power of two that no more counts exceed than noise may hide."""
    target = min(_DETECTABLE_COUNT * spend.multiplier(RESPONSES_ABOVE), _MOST_LARGE * n_rows_of(sample))
    above = responses(sample).counts_above(_COUNTS)
    return _ABOVE * spend.search(RESPONSES_ABOVE, _COUNTS, target, above)


def _mean_cut(spend: Spend, sample: Sample) -> float:
    """Return where counts are cut, from the released means of logarithms and of counts above zero."""
    n_rows = n_rows_of(sample)
    largest = float(min(_LARGEST_SCALE * n_rows * spend.epsilon(LOGARITHM), np.log1p(_LARGEST_COUNT)))
    weight = _WEIGHT * largest
    released = spend(LOGARITHM, mean_logarithm(sample, largest, weight), largest + weight, n_rows)
    std = float(released.std)
    logarithm, share = float(released.value[0]), float(released.value[1]) / weight
    # Zeros do not lower the cut.
    share = min(share + _MARGIN * std / weight, 1.0) if share > _CLEAR * std / weight else 1.0
    typical = np.expm1(np.clip(logarithm / share, min(std, largest), largest))
    return float(max(_CUT_AT * typical, 1.0))


def released_typical_offset(spend: Spend, sample: Sample) -> float:
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


def released_typical_response(spend: Spend, sample: Sample) -> float:
    """Release about the upper quartile of the responses; return the power of two below it, at least 1."""
    above = responses(sample).counts_above(_RESPONSES)
    quartile = spend.search(RESPONSES_ABOVE, _RESPONSES, 0.25 * n_rows_of(sample), above)
    return max((quartile + 0.5) / 2, 1.0)
