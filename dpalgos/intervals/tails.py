"""A bound on the bias of a mean by clipping, from released shares of rows by size.

The size t of a row is its norm over the clipping threshold. Clipping moves the row by (t − 1)₊ thresholds.
The shares of rows in the size bins between 0, 1/64, 1/16, 1/4, 1/2, 1, 2 and ∞ are released. Each row is in
one bin. Therefore replacing a row moves all shares by √2/n together (:func:`tail_sensitivity`), for any
number of bins. True shares sum to 1. Any difference of the released sum from 1 is noise, and is
spread over all shares. If every column is cut to its own bounds, each column has a tail next to the common
one. The common tail counts rows by their largest entry. A bound from either tail is valid.

Let T(t) be the share of rows larger than t. The effect of clipping is at most

    E (t^p − 1)₊ = ∫₁^∞ p t^(p−1) T(t) dt ≤ p T(1) / (a − p)

if T falls at least as t^(−a) above 1. The power p is 1, or 2 if covariate and residual grow together. Without
an assumption, no release bounds a far tail. The assumption here: as t grows, log T falls at a constant or
increasing rate in log t. This holds for normal, exponential, log-normal, Student and Pareto distributions.
Slopes between released levels then bound the slope above them, and T(1) by extrapolation. Four corrections
make the bound larger:

- noise: upper bounds are one standard deviation above the release, lower bounds one below;
- slope: the slope seen directly over [1/4, 1] is used if it is lower, as with a heavy tail behind a light
  middle. If shares are surely larger than earlier shares predict, they replace that prediction;
- steepness: no slope above 3 is extrapolated; for p = 1, the mean excess is at least two thirds of a
  threshold;
- outliers that the noise hides: T(1), if it is below two standard deviations, plus one standard deviation
  lies ``unseen.near`` thresholds beyond. T(2) plus a standard deviation, at most a thousandth, lies
  ``unseen.far`` beyond. If the noise hides T(1), these outliers are the bound.

Outliers may raise a released T(1) or T(2) two and a half standard deviations above its extrapolation. Then
there is no bound. This may hold for the tail of rows while a column has no visible outliers of its own. For
this column, T(1) and two standard deviations of them are then taken to lie four thresholds away. More, or
farther, outliers than these remain unseen.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpalgos.accounting.events import Gaussian
from dpalgos.core.ball import Ball
from dpalgos.core.rows import Block, Rows
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Release, lemma
from dpalgos.typing import BoolArray, FloatArray, Number

TAIL = "shares by size"
LEVELS = np.array([1 / 64, 1 / 16, 1 / 4, 1 / 2, 1, 2])

FAR = 4.0  # the size of a row with a cell that was clipped before
_RARE = 1e-3  # the maximum share of distant outliers that the noise hides
_DEVIATIONS, _COLUMN_DEVIATIONS, _VISIBLE, _IRREGULAR = 1.0, 2.0, 2.0, 2.5  # standard deviations
# With fewer than 4, a share at size 1/4 would seem to fall too slowly, whatever the noise hides at size 1.
_CLEAR = 4.5
_STEEPEST, _STEEPEST_BEYOND = 3.0, 1.5  # the latter more than p
_INNER, _CLIP = 2, 4  # sizes 1/4 and 1
_TINY = 1e-12


class Unseen(NamedTuple):
    """Assumed distances, in thresholds, of outliers that the noise hides.

    ``near``, a number or one per column, applies to as many outliers as the noise may hide. ``far`` applies
    to at most a thousandth of the rows.
    """

    near: FloatArray | float = 0.0
    far: float = 0.0


NONE_UNSEEN = Unseen()


@lemma("√2/n")
def tail_sensitivity(n_rows: Number, columns: bool = False) -> FloatArray:
    """Return the ℓ2 sensitivity √2/n of shares in bins: a row leaves one and enters another.

    With the d columns' own shares, weighted by 1/√(2d): √3/n.
    """
    return np.asarray(np.divide(np.sqrt(3 if columns else 2), n_rows))


@lemma("2/n")
def tail_l1_sensitivity(n_rows: Number, columns: bool = False) -> FloatArray:
    """Return the ℓ1 sensitivity 2/n of shares in bins: a row leaves one and enters another.

    With the d columns' own shares, weighted by 1/(2d): 3/n.
    """
    return np.asarray(np.divide(3 if columns else 2, n_rows))


def shares_above(rows: Rows, ball: Ball) -> FloatArray:
    """Return the shares of rows whose distances over the radius exceed each level, (6, R).

    If a cell of a row was clipped before, the row counts as far beyond: its true size is unknown.
    """

    def part(block: Block) -> FloatArray:
        sizes = ball.distances(block) / ball.radius[..., None]
        if block.is_clipped is not None:
            sizes = np.where(block.is_clipped, FAR, sizes)
        return np.stack([block.sum(sizes > level) for level in LEVELS], axis=-1)

    return rows.by_column(rows.mean(part))


@dataclass(frozen=True, eq=False, kw_only=True)
class Tail:
    """Released shares of rows larger than each level, (6, R), and their noise, (6, R).

    If every column has its own shares in addition to those of rows, the shapes are (6, 1 + d, R).
    """

    above: FloatArray
    std: FloatArray

    @property
    def share_outside(self) -> FloatArray:
        """The share of rows larger than 1, (R,), or by columns (d, R)."""
        return self.above[_CLIP] if self.above.ndim == 2 else self.above[_CLIP, 1:]

    @property
    def is_visible(self) -> BoolArray:
        """Whether rows larger than 1 stand out of the noise, (R,), or by columns (d, R)."""
        std = self.std[_CLIP] if self.above.ndim == 2 else self.std[_CLIP, 1:]
        return np.asarray(self.share_outside > _IRREGULAR * std)

    def moved(self, largest: FloatArray, power: float = 1.0, unseen: Unseen = NONE_UNSEEN) -> FloatArray:
        """Return the maximum change of a mean by clipping, (…, R): (t^p − 1)₊ ``largest`` for each row."""
        excess = np.broadcast_to(self.excess(power, unseen), np.shape(largest))
        unbounded = np.isinf(excess)
        return np.where(unbounded, np.inf, np.where(unbounded, 0.0, excess) * largest)

    def excess(self, power: float = 1.0, unseen: Unseen = NONE_UNSEEN) -> FloatArray:
        """Return a bound on E (t^p − 1)₊ for sizes t, (R,) or by columns (d, R); infinite without one."""
        if self.above.ndim == 2:
            return self._bound(power, unseen, _DEVIATIONS)[0]
        rows, columns = (Tail(above=self.above[:, k], std=self.std[:, k]) for k in (0, slice(1, None)))
        bound, irregular = rows._bound(power, unseen, _DEVIATIONS)
        by_columns, _ = columns._bound(power, unseen, _COLUMN_DEVIATIONS)
        most = np.maximum(columns.above[_CLIP], 0) + _COLUMN_DEVIATIONS * columns.std[_CLIP]
        by_columns = np.where(irregular, np.maximum(by_columns, FAR * most), by_columns)
        return np.minimum(bound, by_columns)

    def _bound(self, power: float, unseen: Unseen, deviations: float) -> tuple[FloatArray, BoolArray]:
        """Return the bound, and whether outliers stand out."""
        above, unsure = self.above, self.std
        low, high = above - deviations * unsure, above + deviations * unsure
        slope, most = np.zeros_like(above[0]), np.clip(high[0], _TINY, 1.0)
        for k in range(1, _CLIP + 1):
            ratio = LEVELS[k] / LEVELS[k - 1]
            along = most * ratio ** -np.minimum(slope, _STEEPEST)
            slower = along < above[k] - _VISIBLE * unsure[k]  # than at the levels before
            most = np.maximum(np.where(slower, high[k], np.minimum(along, high[k])), _TINY)
            here = np.log(np.maximum(low[k - 1], _TINY) / most) / np.log(ratio)
            slope = np.where(slower, here, np.maximum(slope, here))
        visible = above[_CLIP] > _VISIBLE * unsure[_CLIP]
        at_clip = np.where(visible, high[_CLIP], np.maximum(above[_CLIP], unsure[_CLIP]))
        log_ratio = np.log(np.maximum(above[_INNER], _TINY) / at_clip)
        clear = above[_INNER] > _CLEAR * unsure[_INNER]
        slope = np.where(clear, np.minimum(slope, log_ratio / np.log(1 / LEVELS[_INNER])), slope)
        slope = np.minimum(slope, power + _STEEPEST_BEYOND)
        allowed = np.stack([most, most * 2.0**-slope]) + _IRREGULAR * unsure[_CLIP:]
        irregular = (above[_CLIP:] > allowed).any(axis=0)
        most = np.where(visible, high[_CLIP], np.maximum(most, low[_CLIP]))
        bound = power * most / np.maximum(slope - power, _TINY)
        hidden = np.where(visible, 0.0, np.maximum(above[_CLIP], 0)) + unsure[_CLIP]
        rare = np.minimum(np.maximum(above[-1], 0) + unsure[-1], _RARE)
        outliers = np.maximum(unseen.near * hidden, unseen.far * rare)
        extrapolated = np.where(slope <= power, np.inf, np.maximum(bound, outliers))
        is_hidden = ~visible & (np.asarray(unseen.near) > 0)
        return np.where(irregular, np.inf, np.where(is_hidden, outliers, extrapolated)), irregular


def release_tail(spend: Spend, release: Release, above: FloatArray, n_rows: Number) -> Tail:
    """Release the shares of rows above each level, (6, R), or with those of columns, (6, 1 + d, R).

    Noise is added to the shares in the bins between levels.
    """
    bins, columns = bins_between(above), above.ndim == 3
    weight = _weights(above, 0.5 if isinstance(spend.plan[release.label], Gaussian) else 1.0)
    released, std = spend.columns(release.label, release.lemma.of(bins * weight, n_rows, columns))
    return tail_of_bins(released / weight, std / weight)


def bins_between(above: FloatArray) -> FloatArray:
    """Return the shares of rows in the bins between levels, (7, …), from those above each level, (6, …)."""
    return np.asarray(-np.diff(above, axis=0, prepend=1.0, append=0.0))


def tail_of_bins(bins: FloatArray, std: FloatArray) -> Tail:
    """Return the tail by released shares in bins, (7, …), whose noise is ``std``."""
    bins = bins - (bins.sum(axis=0) - 1) / len(bins)
    outer = bins[:0:-1].cumsum(axis=0)[::-1]
    k = np.arange(len(outer), 0, -1).reshape(-1, *[1] * (bins.ndim - 1))
    return Tail(above=outer, std=np.sqrt(k * (1 - k / len(bins))) * std)


def _weights(above: FloatArray, power: float) -> FloatArray:
    """Return 1 for the shares of rows, and (2d)^−power for those of each of d columns."""
    if above.ndim == 2:
        return np.ones(1)
    d = above.shape[1] - 1
    return np.concatenate([[1.0], np.full(d, float(2 * d) ** -power)])[:, None]
