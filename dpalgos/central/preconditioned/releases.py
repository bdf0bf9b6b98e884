"""All releases of preconditioned regressions, in the order in which they are made.

A release is one object: its label, and the lemma that bounds how far replacing one row moves it. The
estimator spends it by one call (:class:`dpalgos.release.spend.Spend`). How often each is made, and its share,
follow from public numbers (:mod:`dpalgos.central.preconditioned.plan`). Releases for an interval state their
own shares. Shares are of μ² = μ(ε, δ)², which adds up over Gaussian releases. If only the intercept is
estimated, with Laplace noise, shares are of ε.

``dpcost estimators preconditioned_glm --n 5000 --d 9 --family logistic`` prints the plan in numbers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpalgos.catalog import Neighbors, with_interval
from dpalgos.intervals.tails import tail_sensitivity
from dpalgos.mechanisms.sensitivity import ball_mean, count, histogram, interval, lemma, outer_product
from dpalgos.models.families import Family, get_family
from dpalgos.release.declared import Release
from dpalgos.typing import FloatArray

ROBUST, LEAST_SQUARES = "robust", "least squares"


@lemma("2/n")
def residual_sensitivity(n_rows: float) -> FloatArray:
    """Return 2/n: (t, t²) and (s, s²), t and s in [−1, 1], are at most 2 apart.

    With a = |t − s| ≤ 2 and |t + s| ≤ 2 − a their squared distance is a² (1 + (t + s)²) ≤ a² (1 + (2 − a)²),
    at most 4, attained by t = 1 and s = −1.
    """
    return np.asarray(2 / n_rows)


@lemma("√2 L/n")
def curvature_sensitivity(threshold: float, n_rows: float) -> FloatArray:
    """Return √2 L/n: parts of Frobenius norm L each, positive semidefinite, of orthogonal z."""
    return np.asarray(np.sqrt(2) * threshold / n_rows)


def _many_rows(params: Any, d: int) -> Neighbors:
    """A person with all rows that count, against a person with one row."""
    k = params.max_rows or 1
    return np.zeros((k, d)), np.zeros(k), np.zeros((1, d)), np.zeros(1)


def _with_interval(condition: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return whether a release is made: for an interval, where its parameters meet a condition."""

    def when(params: Any) -> bool:
        return with_interval(params) and condition(params)

    return when


def _is_wide(params: Any) -> bool:
    return bool(params.interval_target == LEAST_SQUARES)


def _is_bounded(params: Any) -> bool:
    return interval_family(params).is_bounded


def interval_family(params: Any) -> Family:
    """Return the family of an interval's scores, which are clipped and need no bound of responses."""
    return get_family(str(getattr(params, "family", "gaussian")))


# The origin of rows [x, y], and the intercept.
UNITS = Release("values by power of two", histogram)
MEDIANS = Release("values above a candidate center", count)
MEANS = Release("means about centers", ball_mean)
DISTANCE = Release("rows far from centers", count)
RESPONSES_ABOVE = Release("responses above a level", count)
CONSTANT = Release("mean response", interval)
LOGARITHM = Release("mean logarithm", interval)
WEIGHT = Release("mean weight", interval, witness=_many_rows)
EXPOSURE = Release("mean exposure", interval)

# Whitening and steps.
ROWS_ABOVE = Release("rows above a level", count)
MOMENTS = Release("second moments", outer_product)
SCORES_ABOVE = Release("scores above a level", count)
STEP = Release("preconditioned score", ball_mean)
LAST_STEP = Release("last preconditioned score", ball_mean)

# The interval; shares are of the whole.
CURVATURES_ABOVE = Release("curvatures above a level", count, share=0.012, when=with_interval)
CURVATURE = Release("curvature", curvature_sensitivity, share=0.04, when=with_interval)
SCORE_MOMENTS = Release("score moments", outer_product, share=0.015, when=with_interval)
RESIDUAL = Release(
    "mean residual",
    residual_sensitivity,
    share=0.055,
    when=_with_interval(lambda params: not _is_wide(params) and not _is_bounded(params)),
)
FAR_ROWS = Release(
    "rows far away",
    count,
    share=lambda params: 0.32 if _is_wide(params) else 0.03,
    when=_with_interval(
        lambda params: interval_family(params).is_linear if _is_wide(params) else not _is_bounded(params)
    ),
)
WIDE_SCORE = Release("wide gradient", ball_mean, share=0.06, when=_with_interval(_is_wide))
TAIL = Release("shares by size", tail_sensitivity, share=0.19, when=_with_interval(_is_wide))

INTERVAL_RELEASES = (CURVATURES_ABOVE, CURVATURE, SCORE_MOMENTS, RESIDUAL, FAR_ROWS, WIDE_SCORE, TAIL)
RELEASES = (
    UNITS,
    MEDIANS,
    MEANS,
    DISTANCE,
    RESPONSES_ABOVE,
    CONSTANT,
    LOGARITHM,
    EXPOSURE,
    WEIGHT,
    ROWS_ABOVE,
    MOMENTS,
    SCORES_ABOVE,
    STEP,
    LAST_STEP,
    *INTERVAL_RELEASES,
)
