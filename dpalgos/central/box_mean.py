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

    release            sensitivity                share
    mean               1/n in ℓ∞, or √(Σ w_j)/n   the rest
    score moments      1/n in ℓ∞, or √d/n         0.1 of ε, or 0.05 of μ², with an interval
    shares by size     2/n in ℓ1, or √3/n         0.3 of ε, or 0.12 of μ², with an interval

``interval`` (:mod:`dpalgos.intervals.means`) uses :func:`dpalgos.intervals.half_widths.normal_equivalent`: in
few columns, noise in a cube has longer tails than normal noise.

Reference: Hardt & Talwar (2010), On the geometry of differential privacy: the K-norm mechanism. Here K is the
box in which a row moves the mean.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from dpalgos.accounting.events import Event
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.accounting.other_events import Cube
from dpalgos.catalog import Form, register
from dpalgos.core.estimator import IntervalEstimator
from dpalgos.core.plans import Plan, Share, gaussian_plan
from dpalgos.core.rows import Rows, clipped_mean
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError
from dpalgos.intervals.half_widths import normal_equivalent
from dpalgos.intervals.means import (
    ENTRY_SQUARES,
    ENTRY_TAIL,
    PURE_SQUARES,
    PURE_TAIL,
    SHARES,
    UNSEEN_ENTRIES,
    interval_of_entries,
    pure_parts,
    pure_slots,
)
from dpalgos.intervals.spread import TruncatedEntries
from dpalgos.mechanisms.sensitivity import Lemmas, box, interval
from dpalgos.params import check_for_columns, checked, choice, for_columns
from dpalgos.release.checks import SMALLEST_BOUND
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray, IntArray

MEAN = "mean"


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


def check_width(sample: Sample, params: Any) -> None:
    """Refuse bounds for another number of columns."""
    for name in ("lower", "upper"):
        for_columns(name, getattr(params, name), sample.n_features)


@register(
    name="box_mean",
    title="Mean within bounds",
    order=45,
    task="mean",
    reference="ours; the noise of Hardt & Talwar (2010)",
    summary="The mean of entries within public bounds of their columns, with noise for that box.",
    calibrations=("tight",),
    example={"lower": -1.0, "upper": 1.0},
    check_data=check_width,
    forms={
        "gaussian": Form(keywords={"upper": 2.0, "noise": "gaussian"}),
        "interval": Form(keywords={"interval": 0.95}),
        "gaussian interval": Form(keywords={"upper": 2.0, "noise": "gaussian", "interval": 0.95}),
        "people": Form(keywords={"interval": 0.95}, of_people=True, in_memory=True),
    },
    takes_people=True,
)
@dataclass(frozen=True, kw_only=True)
class BoxMean(IntervalEstimator):
    """The mean of entries within public bounds."""

    lower: tuple[float, ...] = checked("l: a number or one per column", check_for_columns)
    upper: tuple[float, ...] = checked("u: a number or one per column", check_for_columns)
    noise: str = choice(
        "the noise; 'least': the smaller of the two", ("least", "cubes", "gaussian"), default="least"
    )

    batch = True
    lemmas: ClassVar[Lemmas] = {
        MEAN: (box, interval),
        ENTRY_SQUARES.label: (ENTRY_SQUARES.lemma, PURE_SQUARES.lemma),
        ENTRY_TAIL.label: (ENTRY_TAIL.lemma, PURE_TAIL.lemma),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        lengths = {len(self.lower), len(self.upper)} - {1}
        if len(lengths) < 2 and (np.subtract(self.upper, self.lower) >= SMALLEST_BOUND).all():
            return
        raise InputError(
            f"lower must be below upper in every column, got lower={self.lower!r}, upper={self.upper!r}; "
            "pass the range that every column can have"
        )

    def plan(self, n: float, d: int) -> Plan:
        self.limits(d)
        if self.is_gaussian(d):
            shares = {} if self.interval is None else {label: Share(part) for label, part in SHARES.items()}
            left = 1 - sum(share.share for share in shares.values())
            return gaussian_plan(self.epsilon, self.delta, {MEAN: Share(left), **shares})
        epsilon, of_interval = pure_parts(self.epsilon, interval=self.interval is not None)
        groups = self.groups(d)
        roots = sum(group.root for group in groups)
        plan: dict[str, Event] = {
            f"{MEAN} {number}": Cube(epsilon * (group.root / roots)) for number, group in enumerate(groups)
        }
        return plan if self.interval is None else plan | pure_slots(of_interval)

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        lower, upper = self.limits(rows.d)
        widths, release = upper - lower, self.gaussian_units if self.is_gaussian(rows.d) else self.cube_units
        units, noise_std = release(rows, spend)
        mean = np.asarray(lower + widths * np.clip(units, 0, 1))
        if self.interval is not None:
            entries = TruncatedEntries(lower=lower[:, None], upper=upper[:, None], mean=rows.by_column(mean))
            noise = (widths * noise_std)[:, None]
            spend.keep_interval(
                interval_of_entries(rows, spend, self.interval, entries, noise, UNSEEN_ENTRIES)
            )
        return mean

    def gaussian_units(self, rows: Rows, spend: Spend) -> tuple[FloatArray, FloatArray]:
        """Release means with Gaussian noise, (…, d), in units of the widths; also return its size, (d,)."""
        lower, upper = self.limits(rows.d)
        roots = np.sqrt(upper - lower)
        means = clipped_mean(rows, Box(tuple(lower.tolist()), tuple(upper.tolist()), 0.5), 1.0)
        released, std = spend(MEAN, box.of(means, roots, rows.n))
        return released / roots, std / roots

    def cube_units(self, rows: Rows, spend: Spend) -> tuple[FloatArray, FloatArray]:
        """Release means with noise in cubes, (…, d), in units of the widths; also return its size, (d,)."""
        lower, upper = self.limits(rows.d)
        means = clipped_mean(rows, Box(tuple(lower.tolist()), tuple(upper.tolist()), 1.0), 1.0)
        parts, noise_std, groups = [], np.empty(rows.d), self.groups(rows.d)
        for number, group in enumerate(groups):
            k = len(group.columns)
            released, std = spend(f"{MEAN} {number}", interval.of(means[..., group.columns], 1, rows.n))
            parts.append(released)
            scale = std / np.sqrt((k + 1) * (k + 2) / 3)
            noise_std[group.columns] = scale * normal_equivalent(k, self.interval or 0.5)
        order = np.argsort(np.concatenate([group.columns for group in groups]))
        return np.concatenate(parts, axis=-1)[..., order], noise_std

    def limits(self, d: int) -> tuple[FloatArray, FloatArray]:
        """Return l and u, (d,) each; refuse bounds for another number of columns."""
        lower, upper = for_columns("lower", self.lower, d), for_columns("upper", self.upper, d)
        return lower[:, 0], upper[:, 0]

    def groups(self, d: int) -> "tuple[ColumnGroup, ...]":
        """Return the groups of columns that have noise in one cube each."""
        lower, upper = self.limits(d)
        return column_groups(tuple((upper - lower).tolist()))

    def is_gaussian(self, d: int) -> bool:
        """Return whether the noise is Gaussian, by the sums of the variances, times n²."""
        if self.noise != "least":
            return self.noise == "gaussian"
        lower, upper = self.limits(d)
        by_gaussian = (float((upper - lower).sum()) / gaussian_mu(self.epsilon, self.delta)) ** 2
        by_cubes = sum(group.root for group in self.groups(d)) ** 3 / self.epsilon**2
        return by_gaussian < by_cubes


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
