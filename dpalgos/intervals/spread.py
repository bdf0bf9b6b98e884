"""Released spreads: mean squares of vectors of bounded norm, and of entries truncated to intervals.

For vectors g of norm at most C, the releases are means of g_j²/C². Their sensitivity is √2/n, or 1/n for a
single number (:func:`dpalgos.mechanisms.sensitivity.outer_product`). Other entries are
truncated to an interval per column, of middle c_j and half-width h_j. Per column the mean of ((clip(x) −
c)/h)² is released, with sensitivity √d/n in ℓ2 and 1/n in ℓ∞. Shares of rows by size are released, too. An
entry's size is its distance from the released mean, divided by the distance from that mean to the bound on
its side. A row's size is the largest of its entries' sizes. All columns share one tail of rows. Each column
also has its own tail, with √d times the noise: a column outside its bounds says nothing about another.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.core.rows import Block, Rows, clipped_mean
from dpalgos.core.spend import Spend
from dpalgos.intervals.tails import FAR, LEVELS
from dpalgos.mechanisms.sensitivity import Release
from dpalgos.typing import FloatArray

SCORE_MOMENTS = "score moments"


def release_second_moments(
    spend: Spend, release: Release, moments: FloatArray, bound: FloatArray, n_rows: float
) -> tuple[FloatArray, FloatArray]:
    """Release mean squares (d, R) of vectors of norm at most ``bound`` (R,); also return their noise."""
    square = np.asarray(bound) ** 2
    released, std = spend.columns(release.label, release.lemma.of(moments / square, 1, n_rows, len(moments)))
    return square * released, std * square


@dataclass(frozen=True)
class RelativeSquares:
    """A function of rows with values ((clip(x) − c)/h)², compared by value, so results are cached."""

    middle: tuple[float, ...]
    half: tuple[float, ...]

    def __call__(self, rows: FloatArray, bound: float) -> FloatArray:
        relative = (rows - np.array(self.middle)) / np.array(self.half)
        return np.asarray(np.clip(relative, -bound, bound) ** 2)


@dataclass(frozen=True, eq=False, kw_only=True)
class TruncatedEntries:
    """Intervals to which entries were truncated, (d, R) or (d, 1), and the released mean (d, R)."""

    lower: FloatArray
    upper: FloatArray
    mean: FloatArray

    @property
    def center(self) -> FloatArray:
        """Return the mean, at least a twentieth of the interval away from its bounds."""
        inside = (self.upper - self.lower) / 20
        return np.asarray(np.clip(self.mean, self.lower + inside, self.upper - inside))

    def squares(self, rows: Rows) -> FloatArray:
        """Return means of squares relative to the intervals, the same for all replicates, (d, R)."""
        middle, half = (self.lower + self.upper)[:, 0] / 2, (self.upper - self.lower)[:, 0] / 2
        return rows.by_column(clipped_mean(rows, RelativeSquares(tuple(middle), tuple(half)), 1.0))

    def shares_above(self, rows: Rows) -> FloatArray:
        """Return the shares of rows above each size, (6, R), or of rows and columns, (6, 1 + d, R)."""
        d, n_replicates = self.mean.shape

        def part(block: Block) -> FloatArray:
            above = np.empty((len(LEVELS), 1 + d, n_replicates))
            for r, own in enumerate(block.replicates(n_replicates)):
                sizes = self.sizes(own.X, r)
                if own.clipped_cells is not None:
                    sizes = np.where(own.clipped_cells, FAR, sizes)
                each = np.column_stack([sizes.max(axis=1), sizes]).T
                above[:, :, r] = [own.sum(each > level) for level in LEVELS]
            return above

        above = rows.mean(part)
        return above if d > 1 else above[:, 0]

    def sizes(self, rows: FloatArray, replicate: int) -> FloatArray:
        """Return the sizes of the entries of rows, (n, d)."""
        center = self.center[:, replicate]
        over, under = (self.upper - self.center)[:, replicate], (self.center - self.lower)[:, replicate]
        offsets = rows - center
        return np.asarray(np.maximum(offsets / over, -offsets / under))
