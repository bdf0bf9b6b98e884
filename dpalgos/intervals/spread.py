"""Released spreads: second moments of vectors of bounded norm, and of entries truncated to intervals.

Of vectors g of norm at most C: means of svec(g g')/C², or of g_j²/C², √2/n, or 1/n for a single number
(:func:`dpalgos.mechanisms.sensitivity.outer_product`). Of entries truncated to an interval per column, of
middle c_j and half-width h_j: per column the mean of ((clip(x) − c)/h)², √d/n in ℓ2 and 1/n in ℓ∞, and shares
of rows by size. An entry's size is its distance from the released mean over that of the end on its side, a
row's the largest of its entries'. Columns share one tail of rows, and have one each in which there is √d
times the noise: a column beyond its bounds says nothing about another.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpalgos.intervals.tails import FAR, LEVELS, TAIL, Tail, counts, release_tail
from dpalgos.mechanisms.sensitivity import box, interval, outer_product
from dpalgos.release.symmetric import svec, unsvec
from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Sample
from dpalgos.steps.denoising import coordinate_std
from dpalgos.typing import BoolArray, FloatArray

SCORE_MOMENTS = "score moments"
_SQUARES_SHARE = 0.25  # of the ε for squares and shares by size


def release_second_moments(
    transcript: Transcript,
    moments: FloatArray,
    *,
    bound: FloatArray,
    n_rows: FloatArray,
    multiplier: float,
) -> tuple[FloatArray, FloatArray]:
    """Release second moments (R, d, d), or their diagonal (d, R), of vectors of norm at most ``bound`` (R,).

    Also return the noise in x'Mx for ‖x‖ = 1, (R,). No eigenvalue of the matrices is below zero.
    """
    full, square = moments.ndim == 3, np.asarray(bound) ** 2
    value = svec(moments) / square if full else moments / square
    size = moments.shape[1] if full else len(moments)
    sensitivity = outer_product(1, n_rows, size)
    released = square * transcript.gaussian(
        value, l2_sensitivity=sensitivity, noise_multiplier=multiplier, label=SCORE_MOMENTS
    )
    std = transcript.noise_std(sensitivity, multiplier, len(value)) * square
    if full:
        eigenvalues, vectors = np.linalg.eigh(unsvec(released, size))
        released = (vectors * np.maximum(eigenvalues, 0)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return released, std


@dataclass(frozen=True, eq=False, kw_only=True)
class TruncatedEntries:
    """Intervals to which entries were truncated, (d, R) or (d, 1), and the released mean (d, R)."""

    lower: FloatArray
    upper: FloatArray
    mean: FloatArray

    @property
    def center(self) -> FloatArray:
        """Return the mean, at least a twentieth of the interval away from its ends."""
        inside = (self.upper - self.lower) / 20
        return np.asarray(np.clip(self.mean, self.lower + inside, self.upper - inside))

    def shares_above(self, sample: Sample) -> FloatArray:
        """Return the shares of rows above each size, (6, R), or of rows and columns, (6, 1 + d, R)."""
        d, shape = sample.n_features, (len(LEVELS), sample.n_features + 1, sample.n_replicates)

        def counted(group: Group, moved: BoolArray | None) -> FloatArray:
            above = np.zeros(shape)
            for r, weights in enumerate(np.broadcast_to(group.weights, (len(group.X), shape[-1])).T):
                sizes = self.sizes(group.X, r)
                if moved is not None:
                    sizes = np.where(moved, FAR, sizes)
                sizes *= weights[:, None]
                above[:, :1, r] += counts(sizes.max(axis=1, keepdims=True))
                above[:, 1:, r] += counts(sizes)
            return above

        above = sample.grouped(sample.moved_cells, together=True).total(shape, counted)
        return np.asarray((above if d > 1 else above[:, 0]) / sample.n_rows)

    def sizes(self, rows: FloatArray, replicate: int) -> FloatArray:
        """Return the sizes of the entries of rows, (n, d)."""
        center = self.center[:, replicate]
        over, under = (self.upper - self.center)[:, replicate], (self.center - self.lower)[:, replicate]
        offsets = rows - center
        return np.asarray(np.maximum(offsets / over, -offsets / under))


def release_entry_squares(
    transcript: Transcript,
    squares: FloatArray,
    above: FloatArray,
    n_rows: FloatArray,
    multiplier: Callable[[str], float] | None = None,
    epsilon: float = 0.0,
) -> tuple[FloatArray, FloatArray, Tail]:
    """Release relative squares (d, R), with their noise (R,), and shares of rows and columns by size.

    With Gaussian noise by ``multiplier``, of either label; else with noise in a cube and Laplace noise, for
    ``epsilon`` together.
    """
    d = len(squares)
    if multiplier is not None:
        moved, z = box(np.ones(d), n_rows), multiplier(SCORE_MOMENTS)
        released = transcript.gaussian(squares, l2_sensitivity=moved, noise_multiplier=z, label=SCORE_MOMENTS)
        tail = release_tail(transcript, above, n_rows=n_rows, multiplier=multiplier(TAIL))
        return released, transcript.noise_std(moved, z, d), tail
    moved, spent = interval(1, n_rows), _SQUARES_SHARE * epsilon
    released = transcript.box(squares, linf_sensitivity=moved, epsilon=spent, label=SCORE_MOMENTS)
    tail = release_tail(transcript, above, n_rows=n_rows, epsilon=epsilon - spent)
    return released, transcript.box_scale(moved, spent, d) * coordinate_std(d), tail
