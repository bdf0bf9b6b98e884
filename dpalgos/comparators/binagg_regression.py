"""Linear regression on noisy sums of the rows in boxes, corrected for their noise (BinAgg, Lin et al. 2025).

    boxes k:   Π_j [l_j, u_j], halved along one column after the other while a noisy count stays large
    ñ_k, s̃_k, t̃_k = the number of rows in box k, their sum and that of their responses, plus noise
    β̂ = (Σ_k s̃_k s̃_k'/ñ_k − D)⁻¹ Σ_k s̃_k t̃_k/ñ_k,   D = Σ_k D_k/ñ_k,  D_k the covariance of the noise in s̃_k

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``lower`` l and ``upper`` u, a number each or one
per column, or ``covariate_bound`` B_x for −B_x and B_x. Entries of X are clipped to them here. Also public:
``response_bound`` B_y, to which responses are clipped.

The boxes follow from released counts. Let Δ_kj be the largest magnitude of column j within box k, w_kj its
width there, and W = max_k Σ_j (w_kj / Δ_kj)². Sums of rows are divided by Δ_kj and then released. A replaced
row leaves one box and enters another, or moves within one box (:func:`sums_sensitivity`).

The rules below affect accuracy only.

- The whole box is halved first. A later box is halved, at most ten times, if its noisy count exceeds two
  limits. The first is twice the rows at which the noise of a sum is 1/16 of its largest size. The second is
  four times the noise of the count. An empty half adds no box, so wide bounds only take more halvings.
- Boxes with ñ_k below 2, or below three times its noise, are dropped.
- Eigenvalues of the corrected matrix are raised to twice its noise, D √(d/K) for K boxes.

Departures

- The paper's calibration of s̃_k, Δ_kj/μ in each column j, covers one column and adding or removing a row.
  Here the noise covers the vector of all d sums and replacing a row.
- Boxes follow from Gaussian counts at each level, because the printed PrivTree has no guarantee in μ. The
  printed share of the boxes, 1/28 of μ², is for PrivTree.
- The printed correction divides D by the number K of boxes, which corrects almost nothing.
- There is no interval. The printed one treats rows as a random sample within their box.

Reference: Lin, Slavković & Bhoomireddy (2025), Differentially private linear regression and synthetic data
generation with statistical guarantees, Algorithms 1 and 2.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpalgos.catalog import Form, Release, register
from dpalgos.errors import InputError, shown
from dpalgos.mechanisms.sensitivity import ball_mean, histogram
from dpalgos.params import PrivateParams, checked, positive
from dpalgos.release.checks import check_for_columns, for_columns
from dpalgos.release.declared import lemma
from dpalgos.release.spend import Planned, Spend
from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.rows.grouped import map_groups
from dpalgos.rows.sample import Sample
from dpalgos.typing import BoolArray, FloatArray, IntArray

_LEVELS = 10
_MIN_SIZE = 16.0  # of the sum of the rows of a box, in standard deviations of its noise
_SURE = 4.0  # standard deviations by which a count must exceed none


@dataclass(frozen=True, kw_only=True)
class BinAggRegressionParams(PrivateParams):
    """Keywords of :func:`binagg_regression`."""

    covariate_bound: float | None = positive("B_x: entries of X are clipped to ±B_x", default=None)
    lower: tuple[float, ...] | None = checked(
        "l: a number or one per column, in place of −B_x", check_for_columns, default=None, optional=True
    )
    upper: tuple[float, ...] | None = checked(
        "u: a number or one per column, in place of B_x", check_for_columns, default=None, optional=True
    )
    response_bound: float = positive("B_y: responses are clipped to ±B_y")

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.covariate_bound is None) == (self.lower is None) or (self.lower is None) != (
            self.upper is None
        ):
            raise InputError(
                "lower and upper, or covariate_bound, must be given, got "
                f"{self.lower!r}, {self.upper!r} and {self.covariate_bound!r}; pass e.g. lower=0.0, upper=1.0"
            )
        if self.lower and self.upper and not (np.array(self.lower) < np.array(self.upper)).all():
            raise InputError(
                f"lower must be below upper, got {shown(self.lower)} and {self.upper!r}; swap them"
            )

    def limits(self, d: int) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper bounds of the columns, (d,) each."""
        if self.covariate_bound is not None:
            return np.full(d, -self.covariate_bound), np.full(d, self.covariate_bound)
        assert self.lower
        assert self.upper
        return for_columns("lower", self.lower, d)[:, 0], for_columns("upper", self.upper, d)[:, 0]


class GrownBoxes(NamedTuple):
    """All boxes of the tree, in order of their level: which are leaves, and how large rows can be in them.

    ``leaf`` is (N, R), ``reach`` Δ and ``width`` w are (N, d), N = 2^(L + 1) − 1.
    """

    leaf: BoolArray
    reach: FloatArray
    width: FloatArray


@lemma("√max(2d, W)")
def sums_sensitivity(boxes: GrownBoxes) -> FloatArray:
    """Return √max(2d, max_k Σ_j (w_kj / Δ_kj)²), (R,), of sums over Δ in the boxes that are leaves.

    A row that leaves one box and enters another takes a vector within ±1 off one sum and adds one to another:
    √(2d) at most. Within a box its entries over Δ move by w/Δ at most: by 2 if a column
    extends equally far to both sides of 0, by 1 or less if it has one sign.
    """
    within = np.where(boxes.leaf, ((boxes.width / boxes.reach) ** 2).sum(axis=1)[:, None], 0.0).max(axis=0)
    return np.asarray(np.sqrt(np.maximum(2 * boxes.reach.shape[1], within)))


ROWS_IN_HALVES = Release("rows in halves", histogram)
ROWS_IN_BOXES = Release("rows in boxes", histogram)
SUMS_OF_ROWS = Release("sums of rows", sums_sensitivity)
SUMS_OF_RESPONSES = Release("sums of responses", ball_mean)
PLAN = {
    ROWS_IN_HALVES: Planned(0.1, _LEVELS - 1),
    ROWS_IN_BOXES: Planned(0.3),
    SUMS_OF_ROWS: Planned(0.3),
    SUMS_OF_RESPONSES: Planned(0.3),
}
RELEASES = tuple(PLAN)


@register(
    title="Binned sums",
    order=83,
    task="linear_regression",
    reference="Lin, Slavković & Bhoomireddy (2025), BinAgg",
    summary="Least squares on noisy sums of rows in boxes, corrected for the noise in the rows' sums.",
    no_interval="the printed one treats the rows of a box as a sample; use preconditioned_regression",
    calibrations=("tight",),
    example={"covariate_bound": 2.0, "response_bound": 3.0},
    forms={"own bounds": Form(keywords={"covariate_bound": None, "lower": -1.0, "upper": 2.0})},
    releases=RELEASES,
)
def binagg_regression(sample: Sample, params: BinAggRegressionParams, transcript: Transcript) -> FloatArray:
    """Return the coefficients, (d, R)."""
    sample.check_response()
    spend = Spend.of_plan(transcript, params.epsilon, params.delta, PLAN)
    d, multiplier = sample.n_features, spend.multiplier(SUMS_OF_ROWS)
    sums = sums_in_boxes(sample, params, _LEVELS)
    boxes = grown_boxes(spend, sums[:, 0], params.limits(d), 2 * _MIN_SIZE * np.sqrt(2 * d) * multiplier)
    sums = sums * boxes.leaf[:, None]  # boxes that are no leaves are not released

    rows, _ = spend(ROWS_IN_BOXES, histogram.of(sums[:, 0]))
    reach = boxes.reach[:, :, None]
    scaled, std = spend(SUMS_OF_ROWS, sums_sensitivity.of(sums[:, 1:-1] / reach, boxes))
    responses, _ = spend(SUMS_OF_RESPONSES, ball_mean.of(sums[:, -1], params.response_bound, 1))
    spend.check_complete()
    min_rows = max(2.0, 3 * float(histogram()) * spend.multiplier(ROWS_IN_BOXES))
    weight = np.where(boxes.leaf & (rows >= min_rows), 1 / np.maximum(rows, min_rows), 0.0)
    return _corrected_fit(scaled * reach, responses, weight, std**2, boxes.reach)


def sums_in_boxes(sample: Sample, params: BinAggRegressionParams, n_levels: int) -> FloatArray:
    """Return sums of [1, x, y], clipped, in the boxes of all levels, (2^(L + 1) − 1, d + 2, R)."""
    n_cells, d = 2**n_levels, sample.n_features
    lower, upper = params.limits(d)
    center, half = (lower + upper) / 2, (upper - lower) / 2

    def cells(group: Group) -> tuple[FloatArray, IntArray]:
        X, y = (
            np.clip(group.X, lower, upper),
            np.clip(group.y, -params.response_bound, params.response_bound),
        )
        digits = -(-n_levels // d)
        place = np.minimum((((X - center) / half + 1) / 2 * 2**digits).astype(int), 2**digits - 1)
        cell = np.zeros(len(X), dtype=int)
        for level in range(n_levels):
            cell = 2 * cell + (place[:, level % d] >> (digits - 1 - level // d) & 1)
        return np.column_stack([np.ones(len(X)), X, y]), cell

    def sums_by_cell(group: Group, rows_and_cells: tuple[FloatArray, IntArray]) -> FloatArray:
        rows, cell = rows_and_cells
        sums = [
            [np.bincount(cell, weights=column * w, minlength=n_cells) for w in group.weights.T]
            for column in rows.T
        ]
        return np.array(sums).transpose(2, 0, 1)

    finest = map_groups(sample, cells).total((n_cells, d + 2, sample.n_replicates), sums_by_cell)
    each = [finest.reshape(2**level, -1, *finest.shape[1:]).sum(axis=1) for level in range(n_levels + 1)]
    return np.concatenate(each)


def grown_boxes(
    spend: Spend, counts: FloatArray, limits: tuple[FloatArray, FloatArray], min_rows: float
) -> GrownBoxes:
    """Release noisy counts (2^(L + 1) − 1, R) by level, and halve boxes with more than ``min_rows``."""
    n_levels = (len(counts) + 1).bit_length() - 2
    min_rows = max(min_rows, _SURE * float(histogram()) * spend.multiplier(ROWS_IN_HALVES))
    (low, high), d = (limit[None] for limit in limits), len(limits[0])
    active, leaves, reach, width = np.ones((1, counts.shape[1]), dtype=bool), [], [], []
    for level in range(n_levels):
        halved = active  # the whole
        if level:
            released, _ = spend(ROWS_IN_HALVES, histogram.of(counts[2**level - 1 : 2 ** (level + 1) - 1]))
            halved = active & (released > min_rows)
        leaves.append(active & ~halved)
        reach.append(np.maximum(np.abs(low), np.abs(high)))
        width.append(high - low)
        active = np.repeat(halved, 2, axis=0)
        middle = (low[:, level % d] + high[:, level % d]) / 2
        low, high = np.repeat(low, 2, axis=0), np.repeat(high, 2, axis=0)
        low[1::2, level % d] = middle
        high[::2, level % d] = middle
    leaves.append(active)
    reach.append(np.maximum(np.abs(low), np.abs(high)))
    width.append(high - low)
    return GrownBoxes(np.concatenate(leaves), np.concatenate(reach), np.concatenate(width))


def _corrected_fit(
    S: FloatArray, t: FloatArray, weight: FloatArray, variance: FloatArray, reach: FloatArray
) -> FloatArray:
    """Return weighted least squares of t (N, R) on S (N, d, R), less what noise adds to S'S, (d, R)."""
    d = S.shape[1]
    noise = np.einsum("kr,kj->rj", weight, reach**2) * variance[:, None]
    moments = np.einsum("kir,kr,kjr->rij", S, weight, S) - noise[:, :, None] * np.eye(d)
    n_boxes = np.maximum((weight > 0).sum(axis=0), 1)
    least = 2 * noise.max(axis=1) * np.sqrt(d / n_boxes)
    values, vectors = np.linalg.eigh(moments)
    raised = np.maximum(values, np.maximum(least, np.finfo(float).tiny)[:, None])
    cross = np.einsum("kir,kr,kr->ri", S, weight, t)
    return np.asarray(np.einsum("rij,rj,rkj,rk->ir", vectors, 1 / raised, vectors, cross))
