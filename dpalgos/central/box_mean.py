"""The mean of entries that lie between public bounds of their columns (ours).

    m̂_j = l_j + w_j clip( (1/n) Σ_i (clip(x_ij, l_j, u_j) − l_j) / w_j + noise_j, 0, 1 ),   w_j = u_j − l_j

Guarantee: ε-differentially private (δ = 0) with noise in cubes, (ε, δ) with Gaussian noise, under replacing
one row; n is public. Public: ``lower`` l and ``upper`` u, a number each or one per column.

Why it is private. In units of its width, a row moves the mean of every column by at most 1/n
(:func:`dpalgos.mechanisms.sensitivity.interval`). The rows l and u attain that in all columns at once. The
mean within the box is released; l, w and the last clip are post-processing.

``"cubes"``
    Columns are released in groups of similar width, a group of k with noise of density ∝ e^(−ε_g n ‖z‖∞). Its
    variances sum to A/(ε_g n)², A = (k + 1)(k + 2)/3 Σ w_j² over the group. ε is the sum of the groups'
    ε_g ∝ A^(1/3), which is the best split. :func:`column_groups` returns the best division of the columns in
    order of width.
``"gaussian"``
    Columns are released in units of √w_j, in which a row moves them by √(Σ w_j) / n together
    (:func:`dpalgos.mechanisms.sensitivity.box`). Variances sum to (z1(ε, δ) Σ w_j / n)², the minimum for
    Gaussian noise with a variance per column.
``"least"``
    The noise whose variances have the smaller sum, by these formulas: public. For δ = 10⁻⁹ and columns of one
    width, the cube is better up to about a hundred columns.

With the same bounds, Laplace noise is at least as large for any split of ε, and Gaussian noise for any split
of ρ. Values within the bounds are not clipped, so there is no bias if the bounds hold. If they are much wider
than the data, ``clipped_mean`` with its private centers and radii may be more accurate.

``interval`` (:mod:`dpalgos.intervals.means`) uses :func:`dpalgos.intervals.half_widths.normal_equivalent`: in
few columns, noise in a cube has longer tails than normal noise.

Reference: Hardt & Talwar (2010), On the geometry of differential privacy: the K-norm mechanism. Here K is the
box in which a row moves the mean.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dpalgos.accounting.calibration import in_cube
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.catalog import Form, Release, register
from dpalgos.errors import InputError
from dpalgos.intervals.half_widths import normal_equivalent
from dpalgos.intervals.means import (
    ENTRY_SQUARES,
    ENTRY_TAIL,
    PURE_SQUARES,
    PURE_TAIL,
    UNSEEN_ENTRIES,
    interval_epsilon,
    interval_of_entries,
    interval_plan,
    pure_spend,
)
from dpalgos.intervals.spread import TruncatedEntries
from dpalgos.mechanisms.sensitivity import box, interval
from dpalgos.params import IntervalParams, checked, choice
from dpalgos.release.checks import SMALLEST_BOUND, check_for_columns, for_columns
from dpalgos.release.spend import Planned, Spend, left_of
from dpalgos.release.transcript import Transcript
from dpalgos.rows.moments import clipped_means
from dpalgos.rows.sample import Sample
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
            "pass the range that every column can have"
        )


@dataclass(frozen=True)
class Box:
    """Maps rows to their place within the box, in units of ``unit``; others are clipped."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    power: float

    def __call__(self, rows: FloatArray, _: float) -> FloatArray:
        """Return (clip(x, l, u) − l) / w^power, (n, d)."""
        lower, upper = np.array(self.lower), np.array(self.upper)
        return np.asarray((np.clip(rows, lower, upper) - lower) / (upper - lower) ** self.power)


def _limits(params: BoxMeanParams, d: int) -> tuple[FloatArray, FloatArray]:
    return for_columns("lower", params.lower, d).T, for_columns("upper", params.upper, d).T


MEAN_IN_CUBE, MEAN = Release("mean", interval), Release("mean", box)
RELEASES = (MEAN_IN_CUBE, MEAN, ENTRY_SQUARES, ENTRY_TAIL, PURE_SQUARES, PURE_TAIL)


def check_width(sample: Sample, params: Any) -> None:
    """Refuse bounds for another number of columns."""
    for name in ("lower", "upper"):
        for_columns(name, getattr(params, name), sample.n_features)


@register(
    title="Mean within bounds",
    order=45,
    task="mean",
    reference="ours; the noise of Hardt & Talwar (2010)",
    summary="The mean of entries within public bounds of their columns, with noise for that box.",
    calibrations=("tight",),
    example={"lower": -1.0, "upper": 1.0},
    releases=RELEASES,
    check_data=check_width,
    forms={
        "gaussian": Form(keywords={"upper": 2.0, "noise": "gaussian"}),
        "interval": Form(keywords={"interval": 0.95}),
        "gaussian interval": Form(keywords={"upper": 2.0, "noise": "gaussian", "interval": 0.95}),
        "people": Form(keywords={"interval": 0.95}, of_people=True, in_memory=True),
    },
    takes_people=True,
)
def box_mean(sample: Sample, params: BoxMeanParams, transcript: Transcript) -> FloatArray:
    """Return the mean, (d, R)."""
    d, n = sample.n_features, sample.n_rows
    lower, upper = for_columns("lower", params.lower, d), for_columns("upper", params.upper, d)
    widths = upper - lower
    ends = tuple(lower[:, 0].tolist()), tuple(upper[:, 0].tolist())
    groups = column_groups(tuple(widths[:, 0].tolist()))
    by_epsilon = params.split_budget({"mean": 1.0}, interval_epsilon(params))
    multiplier = 1 / gaussian_mu(params.epsilon, params.delta)
    # The sums of the variances, times n².
    by_gaussian = (multiplier * float(widths.sum())) ** 2
    by_cubes = sum(group.root for group in groups) ** 3 / params.epsilon**2
    gaussian = params.noise == "gaussian" or (params.noise == "least" and by_gaussian < by_cubes)
    if gaussian:
        plan = interval_plan(params, ENTRY_SQUARES, ENTRY_TAIL)
        plan[MEAN] = Planned(left_of(plan))
        spend = Spend.of_plan(transcript, params.epsilon, params.delta, plan)
        means = clipped_means(sample, Box(*ends, 0.5), 1.0)
        scaled, std = spend(MEAN, box.of(means, np.sqrt(widths), n))
        units, reach = scaled / np.sqrt(widths), np.sqrt(widths) * std
    else:
        spend = pure_spend(transcript, sum(map(by_epsilon.split_epsilon, interval_epsilon(params))))
        means = clipped_means(sample, Box(*ends, 1.0), 1.0)
        units, reach = np.empty_like(means), np.empty_like(means)
        for group in groups:
            columns, k = group.columns, len(group.columns)
            epsilon = by_epsilon.split_epsilon("mean")
            epsilon *= group.root / sum(each.root for each in groups)
            of_group = Spend(transcript, {MEAN_IN_CUBE.label: in_cube(epsilon)})
            units[columns], _ = of_group(MEAN_IN_CUBE, interval.of(means[columns], 1, n))
            scale = transcript.noise_scale(in_cube(epsilon), interval(1, n), k)
            reach[columns] = widths[columns] * scale * normal_equivalent(k, params.interval or 0.5)
    mean = np.asarray(lower + widths * np.clip(units, 0, 1))
    if params.interval is not None:
        entries = TruncatedEntries(lower=lower, upper=upper, mean=mean)
        transcript.interval = interval_of_entries(
            spend, params.interval, sample, entries, reach, UNSEEN_ENTRIES
        )
    return mean


@dataclass(frozen=True, eq=False)
class ColumnGroup:
    """Columns that are released together, and the cube root of A, to which their ε is proportional."""

    columns: IntArray
    root: float


@lru_cache(maxsize=256)
def column_groups(widths: tuple[float, ...]) -> tuple[ColumnGroup, ...]:
    """Return the groups of columns, next to each other in order of width, with the smallest Σ A^(1/3)."""
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
