"""The mean of entries that lie between public bounds of their columns (ours).

    m̂_j = l_j + w_j clip( (1/n) Σ_i (clip(x_ij, l_j, u_j) − l_j) / w_j + noise_j, 0, 1 ),   w_j = u_j − l_j

Guarantee: ε-differentially private (δ = 0) with noise in cubes, (ε, δ) with Gaussian noise, under replacing
one row; n is public. Public: ``lower`` l and ``upper`` u, a number each or one per column.

Why it is private. A row moves the mean of column j, in units of its width, by at most 1/n, and all columns at
once by that: :func:`dpalgos.mechanisms.sensitivity.interval`, attained by the rows l and u. What is
released is the mean within the box; l, w and the last clip are post-processing.

    ``"cubes"``     columns are released in groups of similar width, a group of k with noise of density
                    ∝ e^(−ε_g n ‖z‖∞), whose variances sum to A/(ε_g n)², A = (k + 1)(k + 2)/3 Σ w_j² over the
                    group. ε is the sum of the groups' ε_g ∝ A^(1/3), which is the best split; of all
                    divisions of the columns in order of width the best is taken (:func:`column_groups`).
    ``"gaussian"``  columns are released in units of √w_j, in which a row moves them by √(Σ w_j) / n together
                    (:func:`dpalgos.mechanisms.sensitivity.box`); variances sum to
                    (z1(ε, δ) Σ w_j / n)², the least that Gaussian noise with a variance for each column can
                    have.
    ``"least"``     the one whose variances have the smaller sum, by the formulas: public. For δ = 10⁻⁹ and
                    columns of one width the cube is better up to about a hundred columns.

``interval`` (:mod:`dpalgos.intervals.means`): noise in a cube reaches further than normal noise of the same
variance in few columns, and is counted so (:mod:`dpalgos.steps.denoising`).

With the same bounds that is never more noise than Laplace noise, however ε is split among the columns, nor
than Gaussian noise, however ρ is. Nothing is clipped but what lies outside of the bounds, hence no bias where
they hold; where they are much wider than the data, the private centers and radii of ``clipped_mean`` may pay.

Reference: Hardt & Talwar (2010), On the geometry of differential privacy: the K-norm mechanism; here K is the
box in which a row moves the mean.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.catalog import (
    Form,
    Published,
    Release,
    Witnesses,
    pair,
    register,
    with_interval,
    witnessed,
)
from dpalgos.errors import InputError
from dpalgos.intervals.half_widths import IntervalParams
from dpalgos.intervals.means import (
    OF_ENTRIES,
    UNSEEN_ENTRIES,
    RowSpread,
    entry_interval,
    entry_witnesses,
    interval_epsilon,
    interval_shares,
)
from dpalgos.intervals.spread import SCORE_MOMENTS, TruncatedEntries, release_entry_squares
from dpalgos.intervals.tails import TAIL, release_tail
from dpalgos.mechanisms.sensitivity import box, interval
from dpalgos.params import checked, choice
from dpalgos.release.checks import SMALLEST_BOUND, check_for_columns, for_columns
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import RelativeSquares
from dpalgos.steps.denoising import normal_equivalent
from dpalgos.typing import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class BoxMeanParams(IntervalParams):
    """Keywords of :func:`box_mean`."""

    lower: tuple[float, ...] = checked("l: a number or one per column", check_for_columns)
    upper: tuple[float, ...] = checked("u: a number or one per column", check_for_columns)
    noise: str = choice(
        "the noise; 'least': the smaller of the two", ("least", "cubes", "gaussian"), default="least"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        lengths = {len(self.lower), len(self.upper)} - {1}
        if len(lengths) < 2 and (np.subtract(self.upper, self.lower) >= SMALLEST_BOUND).all():
            return
        raise InputError(
            f"lower must be below upper in every column, got lower={self.lower!r}, upper={self.upper!r}; "
            "pass the ends of the range that every column can have"
        )


@dataclass(frozen=True)
class Box:
    """Maps rows to their place within the box, in units of ``unit``; entries beyond it go to its ends."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    power: float

    def __call__(self, rows: FloatArray, _: float) -> FloatArray:
        """Return (clip(x, l, u) − l) / w^power, (n, d)."""
        lower, upper = np.array(self.lower), np.array(self.upper)
        return np.asarray((np.clip(rows, lower, upper) - lower) / (upper - lower) ** self.power)


def witnesses(params: BoxMeanParams, d: int, published: Published) -> Witnesses:
    """Return a row of lower ends and one of upper ends."""
    lower, upper = (for_columns("bounds", ends, d).T for ends in (params.lower, params.upper))
    spread = entry_witnesses((lower + upper) / 2, upper, upper + 2 * (upper - lower))
    return [pair(lower, upper), None, *spread]


def _for_cubes(params: BoxMeanParams) -> bool:
    return with_interval(params) and params.noise != "gaussian"


def check_width(sample: Sample, params: Any) -> None:
    """Refuse bounds for another number of columns."""
    for name in ("lower", "upper"):
        for_columns(name, getattr(params, name), sample.n_features)


@register(
    title="Mean within bounds",
    order=45,
    task="mean",
    reference="ours; the noise of Hardt & Talwar (2010)",
    summary="The mean of entries within public bounds of their columns, with the least noise for that box.",
    calibrations=("tight",),
    example={"lower": -1.0, "upper": 1.0},
    releases=witnessed(
        witnesses,
        Release("mean", "the rest", "1/n", when=lambda p: p.noise != "gaussian"),
        Release("mean", "the rest", "√(Σ w_j)/n", when=lambda p: p.noise == "gaussian"),
        *(replace(one, when=lambda p: with_interval(p) and p.noise == "gaussian") for one in OF_ENTRIES),
        Release(SCORE_MOMENTS, "a quarter of .4 ε", "1/n", release_entry_squares, _for_cubes),
        Release(TAIL, "the rest of .4 ε", "min(d + 1, 3)/n", release_tail, _for_cubes),
    ),
    check_data=check_width,
    forms={
        "gaussian": Form(keywords={"upper": 2.0, "noise": "gaussian"}),
        "interval": Form(keywords={"interval": 0.95}),
        "gaussian interval": Form(keywords={"upper": 2.0, "noise": "gaussian", "interval": 0.95}),
    },
)
def box_mean(sample: Sample, params: BoxMeanParams, transcript: Transcript) -> FloatArray:
    """Return the mean, (d, R)."""
    d, n = sample.n_features, sample.n_rows
    lower, upper = for_columns("lower", params.lower, d), for_columns("upper", params.upper, d)
    widths = upper - lower
    ends = tuple(lower[:, 0].tolist()), tuple(upper[:, 0].tolist())
    groups = column_groups(tuple(widths[:, 0].tolist()))
    by_mu = params.split_budget({"mean": 1.0}, interval_shares(params))
    by_epsilon = params.split_budget({"mean": 1.0}, interval_epsilon(params))
    whole = 1 / gaussian_mu(params.epsilon, params.delta)
    # The sums of the variances, times n².
    by_gaussian = (whole * float(widths.sum())) ** 2
    by_cubes = sum(group.root for group in groups) ** 3 / params.epsilon**2
    gaussian = params.noise == "gaussian" or (params.noise == "least" and by_gaussian < by_cubes)
    if gaussian:
        sensitivity, multiplier = box(np.sqrt(widths), n), by_mu.gaussian_multiplier("mean")
        scaled = transcript.gaussian(
            sample.clipped_means(Box(*ends, 0.5), 1.0),
            l2_sensitivity=sensitivity,
            noise_multiplier=multiplier,
            label="mean",
        )
        placed = scaled / np.sqrt(widths)
        reach = np.sqrt(widths) * transcript.noise_std(sensitivity, multiplier, d)
    else:
        means = sample.clipped_means(Box(*ends, 1.0), 1.0)
        placed, reach = np.empty_like(means), np.empty_like(means)
        for group in groups:
            k, moves = len(group.columns), interval(1, n)
            spent = by_epsilon.split_epsilon("mean")
            spent *= group.root / sum(each.root for each in groups)
            placed[group.columns] = transcript.box(
                means[group.columns], linf_sensitivity=moves, epsilon=spent, label="mean"
            )
            scale = transcript.box_scale(moves, spent, k)
            reach[group.columns] = (
                widths[group.columns] * scale * normal_equivalent(k, params.interval or 0.5)
            )
    mean = np.asarray(lower + widths * np.clip(placed, 0, 1))
    squares = RelativeSquares(tuple((lower + upper)[:, 0] / 2), tuple(widths[:, 0] / 2))
    if params.interval is not None:
        entries = TruncatedEntries(lower=lower, upper=upper, mean=mean)
        transcript.interval = entry_interval(
            transcript,
            params.interval,
            entries,
            n,
            RowSpread(sample.clipped_means(squares, 1.0), entries.shares_above(sample), UNSEEN_ENTRIES),
            noise_std=reach,
            multiplier=by_mu.gaussian_multiplier if gaussian else None,
            epsilon=sum(map(by_epsilon.split_epsilon, interval_epsilon(params))),
        )
    return mean


@dataclass(frozen=True, eq=False)
class ColumnGroup:
    """Columns that are released together, and the cube root of A, to which their ε is proportional."""

    columns: IntArray
    root: float


@lru_cache(maxsize=256)
def column_groups(widths: tuple[float, ...]) -> tuple[ColumnGroup, ...]:
    """Return the groups of columns, next to each other in order of width, with the least Σ A^(1/3)."""
    d, order = len(widths), np.argsort(widths, kind="stable")
    squares = np.concatenate([[0.0], np.cumsum(np.array(widths)[order] ** 2)])
    best, start = np.zeros(d + 1), np.zeros(d + 1, dtype=int)
    for end in range(1, d + 1):
        sizes = end - np.arange(end)
        roots = np.cbrt((sizes + 1) * (sizes + 2) / 3 * (squares[end] - squares[:end]))
        start[end] = np.argmin(best[:end] + roots)
        best[end] = best[start[end]] + roots[start[end]]
    groups, end = [], d
    while end:
        first = int(start[end])
        groups.append(ColumnGroup(np.sort(order[first:end]), float(best[end] - best[first])))
        end = first
    return tuple(groups)
