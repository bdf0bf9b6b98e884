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

import numpy as np
import scipy

from dpalgos.accounting.calibration import NoisePlan, least_noise, split_plan
from dpalgos.accounting.events import BoundedRangeEvent, Event, PureEvent
from dpalgos.catalog import Form, Release, register
from dpalgos.errors import InputError
from dpalgos.intervals.means import (
    ENTRY_SQUARES,
    ENTRY_TAIL,
    SHARES,
    RowSpread,
    entry_interval,
)
from dpalgos.intervals.spread import TruncatedEntries
from dpalgos.intervals.tails import Unseen
from dpalgos.mechanisms.sensitivity import box, count, interval
from dpalgos.mechanisms.top_k import release_laplace
from dpalgos.params import IntervalParams, checked, positive
from dpalgos.release.checks import check_std_bounds
from dpalgos.release.spend import Spend
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.typing import BoolArray, FloatArray, IntArray

_MOST_BINS = 1e5  # on either side of 0
_MISS = 0.05  # of the intervals, over all columns; affects accuracy only


@dataclass(frozen=True, kw_only=True)
class KarwaVadhanMeanParams(IntervalParams):
    """Keywords of :func:`karwa_vadhan_mean`."""

    mean_bound: float = positive("B: every coordinate of the mean lies in ±B")
    std_bounds: tuple[float, float] = checked(
        "(low, high) of the columns' standard deviations; equal if known", check_std_bounds
    )

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


SPREAD = Release("spread", count)
CENTER = Release("center", count)
MEAN = Release("mean", box)
RELEASES = (
    SPREAD,
    CENTER,
    MEAN,
    ENTRY_SQUARES,
    ENTRY_TAIL,
)


@register(
    title="Karwa–Vadhan mean",
    order=13,
    task="mean",
    reference="Karwa & Vadhan (2018), Gaussian mean",
    summary="Finds each coordinate's bin, then releases the mean of values truncated around it.",
    example={"mean_bound": 1.0, "std_bounds": (0.6, 0.6)},
    releases=RELEASES,
    forms={
        "private spread": Form(keywords={"std_bounds": (0.3, 1.0)}, calibrations=("tight", "paper")),
        "interval": Form(keywords={"interval": 0.95}),
        "interval, private spread": Form(keywords={"std_bounds": (0.3, 1.0), "interval": 0.95}),
    },
)
def karwa_vadhan_mean(sample: Sample, params: KarwaVadhanMeanParams, transcript: Transcript) -> FloatArray:
    """Return the mean, (d, R)."""
    d, (low, high) = sample.n_features, params.std_bounds
    std, rare = np.full((d, sample.n_replicates), high), np.zeros((d, sample.n_replicates))
    if not params.std_known:
        counts = _pair_counts(sample, _spread_levels(params))
        chosen = _choose(transcript, counts, None, params, d, SPREAD.label)
        std, rare = _spread_of(params, chosen), np.where(chosen == 0, np.inf, 0.0)
    last = np.ceil(params.mean_bound / std)
    # As many bins as the least σ needs; those beyond ±⌈B/σ⌉ are empty and never drawn.
    most = int(np.ceil(params.mean_bound / low))
    allowed = np.abs(np.arange(-most, most + 1))[:, None, None] <= last
    bins = _choose(transcript, _center_counts(sample, std, last, most), allowed, params, d, CENTER.label)
    center = np.asarray(std * (bins - most), dtype=float)
    half = 4 * std * np.sqrt(np.log(sample.n_rows * d / _MISS))
    cut = _means_of_offsets(sample, center, half, lambda offset, radius: np.clip(offset, -radius, radius))
    widths, noise = 2 * half, planned_noise(params, d)
    relative, root, n = cut / widths, np.sqrt(widths), sample.n_rows
    if params.calibration == "paper":
        sensitivity, epsilon = interval(1, n), noise.epsilon_of(MEAN.label)
        noisy = release_laplace(transcript, MEAN, relative, linf_sensitivity=sensitivity, epsilon=epsilon)
        return np.asarray(np.clip(center + noisy * widths, center - half, center + half))
    spend = Spend(transcript, noise.released)
    released, std = spend(MEAN, box.of(relative * root, root, n))
    mean = np.asarray(np.clip(center + released * root, center - half, center + half))
    if params.interval is not None:
        entries = TruncatedEntries(lower=center - half, upper=center + half, mean=mean)
        squares = _means_of_offsets(sample, center, half, lambda off, r: np.clip(off / r, -1, 1) ** 2)
        spread = RowSpread(squares, entries.shares_above(sample), Unseen(near=rare))
        transcript.interval = entry_interval(spend, params.interval, entries, n, spread, root * std)
    spend.check_complete()
    return mean


def planned_noise(params: KarwaVadhanMeanParams, d: int) -> NoisePlan:
    """Return the plan of choices, means and an interval's squares, or of choices and means as printed."""
    kinds = ("center",) if params.std_known else ("spread", "center")
    if params.calibration == "paper":
        each = PureEvent(label="", epsilon=params.epsilon / d / (len(kinds) + 1), sensitivity=1.0, count=d)
        return NoisePlan(params.epsilon, params.delta, dict.fromkeys((*kinds, "mean"), each))
    reserved = {} if params.interval is None else SHARES
    return least_noise(
        split_plan(
            params.split_budget({"mean": 1.0}, dict.fromkeys(kinds, 0.1) | reserved, gaussian=False),
            selected=dict.fromkeys(kinds, d),
            released=dict.fromkeys((*reserved, "mean"), 1),
        )
    )


def _choose(
    transcript: Transcript,
    counts: FloatArray,
    allowed: BoolArray | None,
    params: KarwaVadhanMeanParams,
    d: int,
    label: str,
) -> IntArray:
    """Release which bin of each column is fullest, (d, R), from counts (K, d, R)."""
    tight, epsilon = params.calibration == "tight", planned_noise(params, d).epsilon_of(label)

    def draw() -> IntArray:
        size = counts.shape[0] * counts.shape[1]
        noise = transcript.noise.gumbel(size) if tight else transcript.noise.laplace(size)
        noisy = counts + 2 / epsilon * noise.reshape(counts.shape)
        if allowed is not None:
            noisy[~np.broadcast_to(allowed, noisy.shape)] = -np.inf
        return np.asarray(noisy.argmax(axis=0))

    event: Event = BoundedRangeEvent(label=label, epsilon=epsilon, sensitivity=count(), count=d)
    if not tight:
        event = PureEvent(label=label, epsilon=epsilon, sensitivity=count(), count=d, norm=np.inf)
    return transcript.choose_each(counts, draw, event, allowed=allowed)


def _spread_levels(params: KarwaVadhanMeanParams) -> FloatArray:
    """Return the lower edges 2^k of the bins of pair differences that can give a σ within the bounds."""
    low, high = np.log2(params.std_bounds)
    return np.asarray(2.0 ** np.arange(np.floor(low) - 2, np.ceil(high) + 1))


def _spread_of(params: KarwaVadhanMeanParams, chosen: IntArray | FloatArray) -> FloatArray:
    """Return σ of every column from the number of its bin of pair differences."""
    return np.asarray(np.clip(4 * _spread_levels(params)[chosen], *params.std_bounds))


def _pair_counts(sample: Sample, levels: FloatArray) -> FloatArray:
    edges = np.append(levels, 2 * levels[-1])
    counts = np.empty((len(levels), sample.n_features, sample.n_replicates))
    if sample.row_mask is None:  # blocks of a stream hold an even number of rows, but for the last

        def counted(part: Sample) -> FloatArray:
            return np.asarray(sum(_differences_counted(group.X, edges) for group in part.row_blocks()))

        counts[:] = sample.total(counted)
        return counts
    for r in range(sample.n_replicates):
        counts[:, :, r] = _differences_counted(sample.X[sample.row_mask[:, r]], edges)[:, :, 0]
    return counts


def _differences_counted(X: FloatArray, edges: FloatArray) -> FloatArray:
    even = len(X) // 2 * 2
    differences = np.abs(X[1:even:2] - X[0:even:2])
    weights = np.ones((len(differences), 1))
    return np.stack([_bin_counts(column, edges, weights) for column in differences.T], axis=1)


def _center_counts(sample: Sample, std: FloatArray, last: FloatArray, most: int) -> FloatArray:
    """Count each column in bins of its width around multiples of it, (2 most + 1, d, R)."""
    edges = np.arange(-most, most + 2) - 0.5

    def counted(part: Sample) -> FloatArray:
        counts = np.zeros((2 * most + 1, *std.shape))
        for group in part.row_blocks():
            for j in range(len(std)):
                for width in np.unique(std[j]):
                    chosen = std[j] == width
                    outermost = last[j, chosen][0]  # values beyond count there
                    position = np.clip(group.X[:, j] / width, -outermost, outermost)
                    counts[:, j, chosen] += _bin_counts(position, edges, _of(group.weights, chosen))
        return counts

    return sample.total(counted)


def _bin_counts(values: FloatArray, edges: FloatArray, weights: FloatArray) -> FloatArray:
    """Count rows in bins, (K, R); values beyond the outermost edges count in the outermost bins."""
    index, n = np.searchsorted(edges[1:-1], values, side="right"), len(values)
    bins = scipy.sparse.csr_array((np.ones(n), (index, np.arange(n))), shape=(len(edges) - 1, n))
    return np.asarray(bins @ weights)


def _means_of_offsets(
    sample: Sample,
    center: FloatArray,
    half: FloatArray,
    function: Callable[[FloatArray, float], FloatArray],
) -> FloatArray:
    """Average a function of each column's offsets and half-width, computed once per distinct interval."""

    def summed(part: Sample) -> FloatArray:
        total = np.zeros_like(center)
        for group in part.row_blocks():
            for j in range(len(center)):
                for middle, radius in np.unique(np.stack([center[j], half[j]]), axis=1).T:
                    chosen = (center[j] == middle) & (half[j] == radius)
                    column = function(group.X[:, j] - middle, radius)
                    total[j, chosen] += column @ _of(group.weights, chosen)
        return total

    return sample.total(summed) / sample.n_rows


def _of(weights: FloatArray, chosen: BoolArray) -> FloatArray:
    return weights if weights.shape[1] == 1 and len(chosen) > 1 else weights[:, chosen]
