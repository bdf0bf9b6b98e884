"""Karwa–Vadhan Gaussian mean, coordinate by coordinate.

    k̂_j = the fullest of the bins [(k − ½)σ, (k + ½)σ), |k| ≤ ⌈B/σ⌉, of column j
    I_j = σ k̂_j ± 4σ √log(n/α)
    m̂_j = mean of column j truncated to I_j, with noise

Guarantee: (ε, δ) under replacing one row; n is public. Public: ``mean_bound`` B ≥ |μ_j|, ``std_bounds`` (low,
high) of the columns' standard deviations. α = 0.05/d is the probability that data leave the intervals. If low
< high, σ is chosen per column first: the fullest of the bins [2^k, 2^(k+1)) of |x_2i − x_(2i−1)|, σ = 2^(k+2)
within the bounds. Pairs are formed by row number.

Why it is private. A replaced row takes 1 from one bin of a column and adds 1 to another, also for pairs: it
is in one pair. The choices therefore have scores of sensitivity 1. Given the intervals, the mean of a column
moves by at most its width over n (:func:`dpalgos.mechanisms.sensitivity.box`). The estimate is truncated to
the intervals: post-processing.

Calibrations
    ``tight``: choices by Gumbel noise, a tenth of ρ for each kind; means with Gaussian noise. Columns are
    scaled by width^(−1/2), which minimizes the total variance. All noise is then scaled down to what is
    proved.
    ``paper``: ε/d for every column, split evenly among its steps, each with Laplace noise: pure ε-DP.

``interval`` (:mod:`dpalgos.intervals.means`) flags a column whose bin was missed, or whose rare values lie
outside I_j. It also flags a column whose spread comes from rare values. Most pairs of such a column differ by
less than normal values of the smallest standard deviation.

Reference: Karwa & Vadhan (2018), Finite sample differentially private confidence intervals. Cai, Wang &
Zhang, The Cost of Privacy, section 5.3, do not say how several coordinates share ε.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpalgos.accounting.events import Event, Gaussian
from dpalgos.accounting.other_events import Laplace, Selection
from dpalgos.catalog import Form, register
from dpalgos.core.estimator import IntervalEstimator
from dpalgos.core.other_plans import concentrated_plan, least_noise_plan
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Block, Rows
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError
from dpalgos.intervals.means import ENTRY_SQUARES, ENTRY_TAIL, SHARES, RowSpread, entry_interval
from dpalgos.intervals.spread import TruncatedEntries
from dpalgos.intervals.tails import Unseen
from dpalgos.mechanisms.sensitivity import Lemmas, box, count, interval
from dpalgos.params import check_std_bounds, checked, positive
from dpalgos.typing import BoolArray, FloatArray, IntArray

SPREAD, CENTER, MEAN = "spread", "center", "mean"
_MOST_BINS = 1e5  # on either side of 0
_MISS = 0.05  # of the intervals, over all columns; affects accuracy only
_CHOICE_SHARE = 0.1  # of ρ, for each kind of choice


@register(
    name="karwa_vadhan_mean",
    title="Karwa–Vadhan mean",
    order=13,
    task="mean",
    reference="Karwa & Vadhan (2018), Gaussian mean",
    summary="Finds each coordinate's bin, then releases the mean of values truncated around it.",
    example={"mean_bound": 1.0, "std_bounds": (0.6, 0.6)},
    forms={
        "private spread": Form(keywords={"std_bounds": (0.3, 1.0)}, calibrations=("tight", "paper")),
        "interval": Form(keywords={"interval": 0.95}),
        "interval, private spread": Form(keywords={"std_bounds": (0.3, 1.0), "interval": 0.95}),
    },
)
@dataclass(frozen=True, kw_only=True)
class KarwaVadhanMean(IntervalEstimator):
    """The mean of values truncated around the fullest bin of each coordinate."""

    mean_bound: float = positive("B: every coordinate of the mean lies in ±B")
    std_bounds: tuple[float, float] = checked(
        "(low, high) of the columns' standard deviations; equal if known", check_std_bounds
    )

    batch = True
    lemmas: ClassVar[Lemmas] = {
        SPREAD: count,
        CENTER: count,
        MEAN: (box, interval),
        ENTRY_SQUARES.label: ENTRY_SQUARES.lemma,
        ENTRY_TAIL.label: ENTRY_TAIL.lemma,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mean_bound > _MOST_BINS * self.std_bounds[0]:
            raise InputError(
                f"mean_bound must be at most {_MOST_BINS:g} times the first of std_bounds, the width "
                f"of a bin, got {self.mean_bound:g} for {self.std_bounds[0]:g}; declare closer bounds"
            )

    @property
    def std_known(self) -> bool:
        return self.std_bounds[0] == self.std_bounds[1]

    def plan(self, n: float, d: int) -> Plan:
        kinds = (CENTER,) if self.std_known else (SPREAD, CENTER)
        if self.calibration == "paper":
            epsilon = self.epsilon / d / (len(kinds) + 1)
            return {
                **dict.fromkeys(kinds, Selection(epsilon, count=d, by="peeling")),
                MEAN: Laplace(epsilon, count=d),
            }
        reserved = {} if self.interval is None else SHARES
        left = 1 - sum(reserved.values()) - _CHOICE_SHARE * len(kinds)
        shares: dict[str, tuple[float, Event]] = {
            **dict.fromkeys(kinds, (_CHOICE_SHARE, Selection(1.0, count=d))),
            **{label: (share, Gaussian(1.0)) for label, share in {MEAN: left, **reserved}.items()},
        }
        plan = concentrated_plan(self.epsilon, self.delta, shares)
        return least_noise_plan(self.epsilon, self.delta, plan)

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        (low, high), n_replicates = self.std_bounds, rows.sample.n_replicates
        std, rare = (np.full((rows.d, n_replicates), each) for each in (high, 0.0))
        if not self.std_known:
            levels = spread_levels(self.std_bounds)
            chosen = _choose(spend, SPREAD, _pair_counts(rows, levels), None)
            # The bin [2^k, 2^(k+1)) of pair differences gives σ = 2^(k+2).
            std, rare = np.clip(4 * levels[chosen], low, high), np.where(chosen == 0, np.inf, 0.0)
        last = np.ceil(self.mean_bound / std)
        # As many bins as the least σ needs; those beyond ±⌈B/σ⌉ are empty and never drawn.
        most = int(np.ceil(self.mean_bound / low))
        allowed = np.abs(np.arange(-most, most + 1))[:, None, None] <= last
        bins = _choose(spend, CENTER, _center_counts(rows, std, last, most), allowed)
        center = np.asarray(std * (bins - most), dtype=float)
        half = 4 * std * np.sqrt(np.log(rows.n * rows.d / _MISS))
        cut = _means_of_offsets(rows, center, half, lambda offset, radius: np.clip(offset, -radius, radius))
        relative, unit, noise_std = self._released(rows, spend, cut / (2 * half), 2 * half)
        mean = np.asarray(np.clip(center + relative * unit, center - half, center + half))
        if self.interval is not None:
            entries = TruncatedEntries(lower=center - half, upper=center + half, mean=mean)
            squares = _means_of_offsets(rows, center, half, lambda off, r: np.clip(off / r, -1, 1) ** 2)
            spread = RowSpread(squares, entries.shares_above(rows), Unseen(near=rare))
            noise = unit * noise_std
            spend.keep_interval(entry_interval(rows, spend, self.interval, entries, spread, noise))
        return rows.by_replicate(mean)

    def _released(
        self, rows: Rows, spend: Spend, means: FloatArray, widths: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Release mean offsets over ``widths``, (d, R); return them in a unit, the unit, and their noise."""
        if self.calibration == "paper":
            released, std = spend(MEAN, interval.of(rows.by_replicate(means), 1, rows.n))
            return rows.by_column(released), widths, std
        root = np.sqrt(widths)
        released, std = spend(MEAN, box.of(rows.by_replicate(means * root), root, rows.n))
        return rows.by_column(released), root, std


def spread_levels(std_bounds: tuple[float, float]) -> FloatArray:
    """Return the minima 2^k of the bins of pair differences that can give a σ within the bounds."""
    low, high = np.log2(std_bounds)
    return np.asarray(2.0 ** np.arange(np.floor(low) - 2, np.ceil(high) + 1))


def _choose(spend: Spend, label: str, counts: FloatArray, allowed: BoolArray | None) -> IntArray:
    """Release which bin of each column is fullest, (d, R), from counts (K, d, R)."""
    slot = spend.slot(label, Selection)

    def draw() -> IntArray:
        size, noise = counts.shape[0] * counts.shape[1], spend.noise
        drawn = noise.laplace(size) if slot.by == "peeling" else noise.gumbel(size)
        noisy = counts + 2 / slot.epsilon * drawn.reshape(counts.shape)
        if allowed is not None:
            noisy[~np.broadcast_to(allowed, noisy.shape)] = -np.inf
        return np.asarray(noisy.argmax(axis=0))

    return spend.choose_each(label, count.of(counts), draw, allowed=allowed)


def _pair_counts(rows: Rows, levels: FloatArray) -> FloatArray:
    """Count the differences of each replicate's first and second row, third and fourth, …, (K, d, R)."""
    edges, sample = np.append(levels, 2 * levels[-1]), rows.sample

    def counted(X: FloatArray) -> FloatArray:
        even = len(X) // 2 * 2
        differences = np.abs(X[1:even:2] - X[0:even:2])
        counts = [np.bincount(_bins(column, edges), minlength=len(levels)) for column in differences.T]
        return np.stack(counts, axis=1).astype(float)

    if sample.row_mask is None:  # blocks have an even number of rows, except the last one
        counts = rows.sum(lambda block: counted(block.X))
        return np.repeat(counts[:, :, None], sample.n_replicates, axis=-1)
    return np.stack([counted(sample.X[own]) for own in sample.mask_by_replicate], axis=-1)


def _center_counts(rows: Rows, std: FloatArray, last: FloatArray, most: int) -> FloatArray:
    """Count each column in bins of its width around multiples of it, (2 most + 1, d, R)."""
    edges = np.arange(-most, most + 2) - 0.5

    def counted(block: Block) -> FloatArray:
        counts = np.zeros((2 * most + 1, *std.shape))
        for j in range(len(std)):
            for width in np.unique(std[j]):
                chosen = std[j] == width
                outermost = last[j, chosen][0]  # values beyond count there
                place = _bins(np.clip(block.X[:, j] / width, -outermost, outermost), edges)
                counts[:, j, chosen] = np.atleast_2d(block.of(chosen).histogram(place, len(counts))).T
        return counts

    return rows.sum(counted)


def _bins(values: FloatArray, edges: FloatArray) -> IntArray:
    """Return the bins of values, (n,); values beyond the outermost edges are in the outermost bins."""
    return np.searchsorted(edges[1:-1], values, side="right")


def _means_of_offsets(
    rows: Rows,
    center: FloatArray,
    half: FloatArray,
    function: Callable[[FloatArray, float], FloatArray],
) -> FloatArray:
    """Average a function of each column's offsets and half-width, computed once per distinct interval."""

    def summed(block: Block) -> FloatArray:
        total = np.zeros_like(center)
        for j in range(len(center)):
            for middle, radius in np.unique(np.stack([center[j], half[j]]), axis=1).T:
                chosen = (center[j] == middle) & (half[j] == radius)
                total[j, chosen] = block.of(chosen).total(function(block.X[:, j] - middle, radius))
        return total

    return rows.mean(summed)
