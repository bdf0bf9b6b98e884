"""All releases of preconditioned regressions, in the order in which they are made.

A release is one object: its label, the lemma that bounds its sensitivity, and its witness. The lemma bounds
how far replacing one row moves it. The witness is a pair of neighboring datasets that attain the bound. The
estimator spends it by one call (:class:`dpalgos.release.spend.Spend`). How often each is made, and its share,
follow from public numbers (:mod:`dpalgos.central.preconditioned.plan`). Releases for an interval state their
own shares. Shares are of μ² = μ(ε, δ)², which adds up over Gaussian releases. If only the intercept is
estimated, with Laplace noise, shares are of ε.

``dpcost estimators preconditioned_glm --n 5000 --d 9 --family logistic`` prints the plan in numbers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpalgos.catalog import Neighbors, Published, pair, with_interval
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


_FAR = 1e6


def _first(d: int) -> FloatArray:
    return _FAR * np.eye(1, d)


def _far_response(params: Any, d: int, _: Published) -> Neighbors:
    return _with_offset(params, d, _first, (_FAR, 0.0))


def _with_offset(
    params: Any, d: int, row: Any, responses: tuple[float, float], other: Any = None
) -> Neighbors:
    """Return one row against another one, zeros if none is named, with an offset of 0 where there is one."""
    has_offset = getattr(params, "offset_bounds", None) is not None
    d -= has_offset
    rows, others = row(d), np.zeros((1, d)) if other is None else other(d)
    if has_offset:
        rows, others = (np.insert(each, 0, 0, axis=1) for each in (rows, others))
    return rows, np.full(1, responses[0]), others, np.full(1, responses[1])


def _extreme_columns(params: Any, d: int, _: Published) -> Neighbors:
    """Rows above all candidate centers in each column, against rows below."""
    if params.family_object().is_linear:
        far = np.array([[*np.full(d - 1, 1e20), 1e15]])  # beyond its last entry times any center
        return far, far[0, :1], -far, -far[0, :1]
    return _with_offset(
        params, d, lambda d: np.full((1, d), 1e20), (0.0, 0.0), lambda d: np.full((1, d), -1e20)
    )


def _far_and_narrow(_: Any, d: int, __: Published) -> Neighbors:
    far = np.array([[*np.full(d - 1, 1e20), 1e15]])
    narrow = np.array([[*np.ones(d - 1), 1e-6]])
    return far, far[0, :1], narrow, narrow[0, :1]


def _opposite_rows(_: Any, d: int, __: Published) -> Neighbors:
    return _first(d), np.zeros(1), -_first(d), np.zeros(1)


def _labels_apart(params: Any, d: int, _: Published) -> Neighbors:
    label = 1e12 if params.family_object().has_counts else 1.0
    return _with_offset(params, d, _first, (label, 0.0), _first)


def _means_apart(params: Any, d: int, _: Published) -> Neighbors:
    """Opposite responses of a linear model, or two labels."""
    low = -_FAR if params.family_object().is_linear else 0.0
    return _with_offset(params, d, _first, (_FAR if low else 1.0, low), _first)


def _far_row(params: Any, d: int, _: Published) -> Neighbors:
    y = _FAR if params.family_object().is_linear else 0.0
    return _with_offset(params, d, _first, (y, 0.0))


def _orthogonal_rows(params: Any, d: int, _: Published) -> Neighbors:
    return _with_offset(params, d, _first, (0.0, 0.0), lambda d: _FAR * np.eye(2, d)[1:])


def _score_row(family: Family) -> tuple[Any, float]:
    """Return a row and a response whose score is far above every threshold."""
    if family.has_counts:
        return (lambda d: 1e-5 * _first(d)), 1e30
    return _first, 1e15 if family.is_linear else 1.0


def _far_score(params: Any, d: int, _: Published) -> Neighbors:
    row, label = _score_row(params.family_object())
    return _with_offset(params, d, row, (label, 0.0), lambda d: 0 * row(d))


def _opposite_scores(params: Any, d: int, _: Published) -> Neighbors:
    """Opposite responses that no prediction comes near, or opposite rows of the same label."""
    row, label = _score_row(params.family_object())
    if params.family_object().is_linear:
        return _with_offset(params, d, row, (label, -label), row)
    return _with_offset(params, d, row, (label, label), lambda d: -row(d))


def _exposure_rows(_: Any, d: int, __: Published) -> Neighbors:
    constant = np.eye(d)[-1:]
    return _FAR * np.eye(1, d) + constant, np.zeros(1), 0 * constant, np.zeros(1)


def _many_rows(params: Any, d: int, _: Published) -> Neighbors:
    """A person with all rows that count, against a person with one row."""
    k = params.max_rows or 1
    return np.zeros((k, d)), np.zeros(k), np.zeros((1, d)), np.zeros(1)


def _interval_rows(first: str, other: str, y: float = 0.0, other_y: float | None = None) -> Any:
    def witness(params: Any, d: int, _: Published) -> Neighbors:
        has_offset = getattr(params, "offset_bounds", None) is not None
        axes: FloatArray = np.eye(d)[has_offset:]
        rows = {"first": _FAR * axes[0], "last": _FAR * axes[-1], "zero": np.zeros(d)}
        return pair(rows[first], rows[other], y, other_y)

    return witness


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
UNITS = Release("values by power of two", histogram, witness=_far_and_narrow)
MEDIANS = Release("values above a candidate center", count, witness=_extreme_columns)
MEANS = Release("means about centers", ball_mean, witness=_opposite_rows)
DISTANCE = Release("rows far from centers", count, witness=_far_response)
RESPONSES_ABOVE = Release("responses above a level", count, witness=_labels_apart)
CONSTANT = Release("mean response", interval, witness=_means_apart)
LOGARITHM = Release("mean logarithm", interval, witness=_labels_apart)
WEIGHT = Release("mean weight", interval, witness=_many_rows)
EXPOSURE = Release("mean exposure", interval, witness=_exposure_rows)

# Whitening and steps.
ROWS_ABOVE = Release("rows above a level", count, witness=_far_row)
MOMENTS = Release("second moments", outer_product, witness=_orthogonal_rows)
SCORES_ABOVE = Release("scores above a level", count, witness=_far_score)
STEP = Release("preconditioned score", ball_mean, witness=_opposite_scores)
LAST_STEP = Release("last preconditioned score", ball_mean, witness=_opposite_scores)

# The interval; shares are of the whole.
CURVATURES_ABOVE = Release(
    "curvatures above a level",
    count,
    share=0.012,
    when=with_interval,
    witness=_interval_rows("first", "zero"),
)
CURVATURE = Release(
    "curvature",
    curvature_sensitivity,
    share=0.04,
    when=with_interval,
    witness=_interval_rows("first", "last"),
)
SCORE_MOMENTS = Release(
    "score moments",
    outer_product,
    share=0.015,
    when=with_interval,
    witness=_interval_rows("first", "last", 1e15),
)
RESIDUAL = Release(
    "mean residual",
    residual_sensitivity,
    share=0.055,
    when=_with_interval(lambda params: not _is_wide(params) and not _is_bounded(params)),
    witness=_interval_rows("zero", "zero", 1e15, -1e15),
)
FAR_ROWS = Release(
    "rows far away",
    count,
    share=lambda params: 0.32 if _is_wide(params) else 0.03,
    when=_with_interval(
        lambda params: interval_family(params).is_linear if _is_wide(params) else not _is_bounded(params)
    ),
    witness=_interval_rows("zero", "zero", 1e15, 0.0),
)
WIDE_SCORE = Release(
    "wide gradient",
    ball_mean,
    share=0.06,
    when=_with_interval(_is_wide),
    witness=_interval_rows("first", "first", 1e15, -1e15),
)
TAIL = Release(
    "shares by size",
    tail_sensitivity,
    share=0.19,
    when=_with_interval(_is_wide),
    witness=_interval_rows("first", "zero", 1e15, 0.0),
)

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
