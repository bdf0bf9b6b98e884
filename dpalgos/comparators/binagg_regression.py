"""Linear regression on noisy sums of the rows in boxes, corrected for their noise (BinAgg, Lin et al. 2025).

    boxes k:   Π_j [l_j, u_j], halved along one column after the other while a noisy count stays large
    ñ_k, s̃_k, t̃_k = the number of rows in box k, their sum and that of their responses, plus noise
    β̂ = (Σ_k s̃_k s̃_k'/ñ_k − D)⁻¹ Σ_k s̃_k t̃_k/ñ_k,   D = Σ_k D_k/ñ_k,  D_k the covariance of the noise in s̃_k

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``lower`` l and ``upper`` u, to which entries of X
are clipped here, a number each or one per column, or ``covariate_bound`` B_x for −B_x and B_x; and
``response_bound`` B_y, to which responses are clipped.

The boxes follow from released counts. With Δ_kj the largest magnitude of column j within box k, w_kj its
width there, W = max_k Σ_j (w_kj / Δ_kj)² decides how far sums of rows move.

Sums of rows are released over Δ_kj. A replaced row leaves one box and enters another, or moves within one.

What follows is heuristics, and affects accuracy only. The whole is halved; then a box is, ten times at most,
where its noisy count is above twice the rows at which the noise of a sum is 1/16 of its largest size, and
above four times the count's noise: a half without rows costs no box, so that wide bounds only take more
halvings. Boxes whose ñ_k is below 2 or three times its noise are left out. The corrected matrix keeps
eigenvalues of at least twice its noise, D √(d/K) for K boxes.

Departures: the printed noise of s̃_k, Δ_kj/μ in every column j, is that of one column, and for adding or
removing a row; here the vector of all sums pays for d columns and for replaced rows. Boxes are grown by
Gaussian counts of every level, since the printed PrivTree has no guarantee in μ; the printed share of boxes,
1/28 of μ², is of PrivTree. The printed correction divides D by K, the number of boxes, which would correct
next to nothing. There is no interval: the printed one takes rows for a sample within their box.

Reference: Lin, Slavković & Bhoomireddy (2025), Differentially private linear regression and synthetic data
generation with statistical guarantees, Algorithms 1 and 2.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.catalog import Form, Published, Release, Witnesses, pair, register, shares_of, witnessed
from dpalgos.errors import InputError
from dpalgos.mechanisms.sensitivity import ball_mean, histogram
from dpalgos.params import PrivateParams, checked, positive
from dpalgos.release.checks import check_for_columns, for_columns
from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Sample
from dpalgos.typing import BoolArray, FloatArray, IntArray

_LEVELS = 10
_LEAST_SIZE = 16.0  # of the sum of the rows of a box, in standard deviations of its noise
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
            raise InputError(f"lower must be below upper, got {self.lower!r} and {self.upper!r}; swap them")

    def ends(self, d: int) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the columns, (d,) each."""
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


def sums_sensitivity(boxes: GrownBoxes) -> FloatArray:
    """Return √max(2d, max_k Σ_j (w_kj / Δ_kj)²), (R,), of sums over Δ in the boxes that are leaves.

    A row that leaves one box and enters another takes a vector within ±1 off one sum and adds one to another:
    √(2d) at most. Within a box its entries over Δ move by w/Δ at most: by 2 where a column has both signs
    alike, by 1 or less where it has one sign.
    """
    within = np.where(boxes.leaf, ((boxes.width / boxes.reach) ** 2).sum(axis=1)[:, None], 0.0).max(axis=0)
    return np.asarray(np.sqrt(np.maximum(2 * boxes.reach.shape[1], within)))


def witnesses(params: BinAggRegressionParams, d: int, published: Published) -> Witnesses:
    """Return rows of a half that is a box or of two, opposite corners for counts, and opposite responses."""
    (low, high), up = (end[None] for end in params.ends(d)), params.response_bound
    middle = (low[0, 0] + high[0, 0]) / 2
    below = middle - 1e-12 * (high[0, 0] - low[0, 0])
    halves = [(low[0, 0], below), (middle, high[0, 0])]

    def rows(first: float, others: FloatArray) -> FloatArray:
        return np.column_stack([[first], others[:, 1:]])

    def distance(one: FloatArray, other: FloatArray) -> float:
        in_one = [next(half for half in halves if half[0] <= row[0, 0] <= half[1]) for row in (one, other)]
        reach = [rows(max(map(abs, half)), np.maximum(-low, high)) for half in in_one]
        parts = one / reach[0], other / reach[1]
        return float(np.linalg.norm(parts[0] - parts[1] if in_one[0] == in_one[1] else np.hstack(parts)))

    far = np.where(-low > high, low, high)
    apart = [(rows(first, low), rows(last, high)) for first, last in halves]
    apart += [(rows(max(halves[0], key=abs), far), rows(max(halves[1], key=abs), far))]
    one, other = max(apart, key=lambda each: distance(*each))
    return [pair(high, low), pair(high, low), pair(one, other), pair(high, high, up, -up)]


RELEASES = witnessed(
    witnesses,
    Release("rows in halves", 0.1, "sqrt(2)"),
    Release("rows in boxes", 0.3, "sqrt(2)"),
    Release("sums of rows", 0.3, "√max(2d, W)"),
    Release("sums of responses", 0.3, "2 * response_bound"),
)


@register(
    title="Binned sums",
    order=83,
    task="linear_regression",
    reference="Lin, Slavković & Bhoomireddy (2025), BinAgg",
    summary="Least squares on noisy sums of rows in boxes, corrected for the noise in the rows' sums.",
    no_interval="the printed one takes the rows of a box for a sample within it",
    calibrations=("tight",),
    example={"covariate_bound": 2.0, "response_bound": 3.0},
    forms={"own bounds": Form(keywords={"covariate_bound": None, "lower": -1.0, "upper": 2.0})},
    releases=RELEASES,
)
def binagg_regression(sample: Sample, params: BinAggRegressionParams, transcript: Transcript) -> FloatArray:
    """Return the coefficients, (d, R)."""
    sample.check_response()
    budget = params.split_budget(shares_of(RELEASES, params))
    d, multiplier = sample.n_features, budget.gaussian_multiplier("sums of rows")
    least = _LEAST_SIZE * np.sqrt(2 * d) * multiplier
    sums = sums_in_boxes(sample, params, _LEVELS)
    boxes = grown_boxes(transcript, sums[:, 0], params.ends(d), 2 * least, budget)
    # Replicates are last; what is no leaf is not released.
    sums = sums * boxes.leaf[:, None]

    rows = _released(transcript, sums[:, 0], histogram(), budget, "rows in boxes")
    sensitivity = sums_sensitivity(boxes)
    scaled = sums[:, 1:-1] / boxes.reach[:, :, None]
    released = _released(transcript, scaled, sensitivity, budget, "sums of rows")
    S = released * boxes.reach[:, :, None]
    t = _released(transcript, sums[:, -1], ball_mean(params.response_bound, 1), budget, "sums of responses")
    told = max(2.0, 3 * float(histogram()) * budget.gaussian_multiplier("rows in boxes"))
    weight = np.where(boxes.leaf & (rows >= told), 1 / np.maximum(rows, told), 0.0)
    return _corrected_fit(S, t, weight, (multiplier * sensitivity) ** 2, boxes.reach)


def _released(
    transcript: Transcript,
    value: FloatArray,
    l2_sensitivity: float | FloatArray,
    budget: SplitBudget,
    part: str,
) -> FloatArray:
    """Release an array of any shape (…, R) as one vector, in its shape."""
    released = transcript.gaussian(
        value.reshape(-1, value.shape[-1]),
        l2_sensitivity=l2_sensitivity,
        noise_multiplier=budget.gaussian_multiplier(part),
        label=part,
    )
    return released.reshape(value.shape)


def sums_in_boxes(sample: Sample, params: BinAggRegressionParams, n_levels: int) -> FloatArray:
    """Return sums of [1, x, y], clipped, in the boxes of all levels, (2^(L + 1) − 1, d + 2, R)."""
    n_cells, d = 2**n_levels, sample.n_features
    lower, upper = params.ends(d)
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

    def part(group: Group, made: tuple[FloatArray, IntArray]) -> FloatArray:
        rows, cell = made
        sums = [
            [np.bincount(cell, weights=column * w, minlength=n_cells) for w in group.weights.T]
            for column in rows.T
        ]
        return np.array(sums).transpose(2, 0, 1)

    finest = sample.grouped(cells).total((n_cells, d + 2, sample.n_replicates), part)
    each = [finest.reshape(2**level, -1, *finest.shape[1:]).sum(axis=1) for level in range(n_levels + 1)]
    return np.concatenate(each)


def grown_boxes(
    transcript: Transcript,
    counts: FloatArray,
    ends: tuple[FloatArray, FloatArray],
    enough: float,
    budget: SplitBudget,
) -> GrownBoxes:
    """Release noisy counts (2^(L + 1) − 1, R) by level, and halve the boxes where they are ``enough``."""
    n_levels = (len(counts) + 1).bit_length() - 2
    multiplier = budget.gaussian_multiplier("rows in halves", n_levels - 1)
    enough = max(enough, _SURE * float(histogram()) * multiplier)
    (low, high), d = (end[None] for end in ends), len(ends[0])
    active, leaves, reach, width = np.ones((1, counts.shape[1]), dtype=bool), [], [], []
    for level in range(n_levels):
        halved = active  # the whole
        if level:
            released = transcript.gaussian(
                counts[2**level - 1 : 2 ** (level + 1) - 1],
                l2_sensitivity=histogram(),
                noise_multiplier=multiplier,
                label="rows in halves",
            )
            halved = active & (released > enough)
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
