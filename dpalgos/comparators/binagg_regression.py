"""Linear regression on noisy sums of the rows in boxes, corrected for their noise (BinAgg, Lin et al. 2025).

    boxes k:   Π_j [l_j, u_j], halved along one column after the other while a noisy count stays large
    ñ_k, s̃_k, t̃_k = the number of rows in box k, their sum and that of their responses, plus noise
    β̂ = (Σ_k s̃_k s̃_k'/ñ_k − D)⁻¹ Σ_k s̃_k t̃_k/ñ_k,   D = Σ_k D_k/ñ_k,  D_k the covariance of the noise in s̃_k

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``lower`` l and ``upper`` u, a number each or one
per column, or ``covariate_bound`` B_x for −B_x and B_x. Entries of X are clipped to them here. Also public:
``response_bound`` B_y, to which responses are clipped.

    release                      sensitivity (ℓ2)    share of μ²
    rows in halves, 9 times      √2                  0.1
    rows in boxes                √2                  0.3
    sums of rows                 √max(2d, W)         0.3
    sums of responses            2 B_y               0.3

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
from typing import ClassVar, NamedTuple

import numpy as np

from dpalgos.catalog import Form, register
from dpalgos.core.estimator import PrivateEstimator
from dpalgos.core.plans import Plan, Share, gaussian_plan
from dpalgos.core.rows import Block, Rows
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError, shown
from dpalgos.mechanisms.sensitivity import Lemmas, ball_sum, histogram_sum, lemma
from dpalgos.params import check_for_columns, checked, for_columns, positive
from dpalgos.typing import BoolArray, FloatArray

ROWS_IN_HALVES, ROWS_IN_BOXES = "rows in halves", "rows in boxes"
SUMS_OF_ROWS, SUMS_OF_RESPONSES = "sums of rows", "sums of responses"
_LEVELS = 10
_MIN_SIZE = 16.0  # of the sum of the rows of a box, in standard deviations of its noise
_SURE = 4.0  # standard deviations by which a count must exceed none
SHARES = {
    ROWS_IN_HALVES: Share(0.1, _LEVELS - 1),
    ROWS_IN_BOXES: Share(0.3),
    SUMS_OF_ROWS: Share(0.3),
    SUMS_OF_RESPONSES: Share(0.3),
}


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


@register(
    name="binagg_regression",
    title="Binned sums",
    order=83,
    task="linear_regression",
    reference="Lin, Slavković & Bhoomireddy (2025), BinAgg",
    summary="Least squares on noisy sums of rows in boxes, corrected for the noise in the rows' sums.",
    no_interval="the printed one treats the rows of a box as a sample; use preconditioned_regression",
    calibrations=("tight",),
    example={"covariate_bound": 2.0, "response_bound": 3.0},
    forms={"own bounds": Form(keywords={"covariate_bound": None, "lower": -1.0, "upper": 2.0})},
)
@dataclass(frozen=True, kw_only=True)
class BinAggRegression(PrivateEstimator):
    """Least squares on noisy sums of rows in boxes, corrected for the noise in the rows' sums."""

    covariate_bound: float | None = positive("B_x: entries of X are clipped to ±B_x", default=None)
    lower: tuple[float, ...] | None = checked(
        "l: a number or one per column, in place of −B_x", check_for_columns, default=None, optional=True
    )
    upper: tuple[float, ...] | None = checked(
        "u: a number or one per column, in place of B_x", check_for_columns, default=None, optional=True
    )
    response_bound: float = positive("B_y: responses are clipped to ±B_y")

    batch = True
    lemmas: ClassVar[Lemmas] = {
        ROWS_IN_HALVES: histogram_sum,
        ROWS_IN_BOXES: histogram_sum,
        SUMS_OF_ROWS: sums_sensitivity,
        SUMS_OF_RESPONSES: ball_sum,
    }

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

    def largest_release(self, d: int) -> int:
        return ((2 << _LEVELS) - 1) * d

    def plan(self, n: float, d: int) -> Plan:
        self.limits(d)
        return gaussian_plan(self.epsilon, self.delta, SHARES)

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        d, multiplier = rows.d, spend.multiplier(SUMS_OF_ROWS)
        sums = sums_in_boxes(rows, self, _LEVELS)
        min_rows = 2 * _MIN_SIZE * np.sqrt(2 * d) * multiplier
        boxes = grown_boxes(rows, spend, sums[:, 0], self.limits(d), min_rows)
        sums = sums * boxes.leaf[:, None]  # boxes that are no leaves are not released

        counts = rows.by_column(spend(ROWS_IN_BOXES, histogram_sum.of(rows.by_replicate(sums[:, 0]))).value)
        reach = boxes.reach[:, :, None]
        relative = rows.by_replicate(sums[:, 1:-1] / reach)
        scaled, std = spend(SUMS_OF_ROWS, sums_sensitivity.of(relative, boxes))
        query = ball_sum.of(rows.by_replicate(sums[:, -1]), self.response_bound)
        responses = rows.by_column(spend(SUMS_OF_RESPONSES, query).value)
        least = max(2.0, 3 * float(histogram_sum()) * spend.multiplier(ROWS_IN_BOXES))
        weight = np.where(boxes.leaf & (counts >= least), 1 / np.maximum(counts, least), 0.0)
        return rows.by_replicate(
            _corrected_fit(rows.by_column(scaled) * reach, responses, weight, std**2, boxes.reach)
        )


def sums_in_boxes(rows: Rows, params: BinAggRegression, n_levels: int) -> FloatArray:
    """Return sums of [1, x, y], clipped, in the boxes of all levels, (2^(L + 1) − 1, d + 2, R)."""
    n_cells, d = 2**n_levels, rows.d
    lower, upper = params.limits(d)
    center, half = (lower + upper) / 2, (upper - lower) / 2

    def sums_by_cell(block: Block) -> FloatArray:
        X, y = np.clip(block.X, lower, upper), np.clip(block.y, -params.response_bound, params.response_bound)
        digits = -(-n_levels // d)
        place = np.minimum((((X - center) / half + 1) / 2 * 2**digits).astype(int), 2**digits - 1)
        cell = np.zeros(len(X), dtype=int)
        for level in range(n_levels):
            cell = 2 * cell + (place[:, level % d] >> (digits - 1 - level // d) & 1)
        columns = [np.ones(len(X)), *X.T, y]
        return np.stack([block.histogram(cell, n_cells, column) for column in columns], axis=-1)

    finest = rows.by_column(rows.sum(sums_by_cell))
    finest = np.broadcast_to(finest, (*finest.shape[:-1], rows.sample.n_replicates))
    each = [finest.reshape(2**level, -1, *finest.shape[1:]).sum(axis=1) for level in range(n_levels + 1)]
    return np.concatenate(each)


def grown_boxes(
    rows: Rows, spend: Spend, counts: FloatArray, limits: tuple[FloatArray, FloatArray], min_rows: float
) -> GrownBoxes:
    """Release noisy counts (2^(L + 1) − 1, R) by level, and halve boxes with more than ``min_rows``."""
    n_levels = (len(counts) + 1).bit_length() - 2
    min_rows = max(min_rows, _SURE * float(histogram_sum()) * spend.multiplier(ROWS_IN_HALVES))
    (low, high), d = (limit[None] for limit in limits), len(limits[0])
    active, leaves, reach, width = np.ones((1, counts.shape[1]), dtype=bool), [], [], []
    for level in range(n_levels):
        halved = active  # the whole
        if level:
            rows_in_halves = rows.by_replicate(counts[2**level - 1 : 2 ** (level + 1) - 1])
            released = spend(ROWS_IN_HALVES, histogram_sum.of(rows_in_halves)).value
            halved = active & (rows.by_column(released) > min_rows)
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
