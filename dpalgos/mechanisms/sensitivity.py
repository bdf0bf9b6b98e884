"""Sensitivities of means over n rows under replacing one row; for a sum, pass ``n_rows=1``.

A release passes the value of a lemma, of products of lemmas with public numbers, or of a function named
``…_sensitivity`` with a proof. Distances are in ℓ2 unless a lemma names another norm. Sizes are public
or released before, a number or one per replicate (R,).
"""

import numpy as np

from dpalgos.release.declared import lemma
from dpalgos.typing import FloatArray, Number


@lemma("2r/n")
def ball_mean(radius: Number, n_rows: Number) -> FloatArray:
    """Return 2r/n, for vectors of norm r at most: vectors at opposite ends of the ball.

    In ℓ∞, too, where every entry is at most r in magnitude, and for numbers.
    """
    moves: FloatArray = np.divide(np.multiply(2, radius), n_rows)
    return moves


@lemma("2r")
def ball_sum(radius: Number) -> FloatArray:
    """Return 2r, for sums of vectors of norm r at most: :func:`ball_mean` times n."""
    return ball_mean(radius, 1)


@lemma("√p")
def count(n_columns: int = 1) -> FloatArray:
    """Return √p, for p counts of rows: each rises by one, falls by one or stays; 1 in ℓ∞, as for one count.

    Attained if a row that every count includes replaces one that no count includes.
    """
    moves: FloatArray = np.sqrt(np.float64(n_columns))
    return moves


@lemma("√(2p)/n")
def histogram(n_columns: int = 1, n_rows: Number = 1) -> FloatArray:
    """Return √(2p)/n, for shares of rows in bins, in p histograms: a row leaves one bin and enters another.

    Attained by rows in different bins of every histogram; the ℓ1 distance is 2p/n, that of each share 1/n.
    """
    moves: FloatArray = np.divide(np.sqrt(2 * n_columns), n_rows)
    return moves


@lemma("√(2p)")
def histogram_sum(n_columns: int = 1) -> FloatArray:
    """Return √(2p), for numbers of rows in bins, in p histograms: :func:`histogram` times n."""
    return histogram(n_columns)


@lemma("√2 r²/n")
def outer_product(radius: Number, n_rows: Number, size: int | None = None) -> FloatArray:
    """Return √2 r²/n, for products z z' (Frobenius), or squares z_j², of vectors of norm r at most.

    ‖zz' − tt'‖² = ‖z‖⁴ + ‖t‖⁴ − 2 (z't)² ≤ 2 r⁴, for squares 2 Σ z_j² t_j² in the place of 2 (z't)²; attained
    by vectors of norm r along two axes. A square of a number (``size`` = 1) lies in [0, r²]: r²/n.
    """
    factor = 1.0 if size == 1 else np.sqrt(2)
    moves: FloatArray = np.divide(factor * np.square(radius), n_rows)
    return moves


@lemma("√2 r²")
def outer_product_sum(radius: Number) -> FloatArray:
    """Return √2 r², for sums of products z z' of vectors of norm r at most: :func:`outer_product` times n."""
    return outer_product(radius, 1)


@lemma("2/n")
def residual_sensitivity(n_rows: Number) -> FloatArray:
    """Return 2/n: (t, t²) and (s, s²), t and s in [−1, 1], are at most 2 apart.

    With a = |t − s| ≤ 2 and |t + s| ≤ 2 − a their squared distance is a² (1 + (t + s)²) ≤ a² (1 + (2 − a)²),
    at most 4, attained by t = 1 and s = −1.
    """
    return np.asarray(np.divide(2, n_rows))


@lemma("√5/n")
def people_residual_sensitivity(n_rows: Number) -> FloatArray:
    """Return √5/n: (t, t², q) with q in [0, 1]: 4 by the first two, 1 by the last; both are attained."""
    return np.asarray(np.divide(np.sqrt(5), n_rows))


@lemma("√2 L/n")
def curvature_sensitivity(threshold: Number, n_rows: Number) -> FloatArray:
    """Return √2 L/n: parts of Frobenius norm L each, positive semidefinite, of orthogonal z."""
    return np.asarray(np.sqrt(2) * np.divide(threshold, n_rows))


@lemma("w/n")
def interval(width: Number, n_rows: Number) -> FloatArray:
    """Return w/n, for numbers in an interval of width w: one end against the other.

    In ℓ∞, too, for several means of numbers in intervals of that width.
    """
    moves: FloatArray = np.divide(width, n_rows)
    return moves


@lemma("‖w‖₂/n")
def box(widths: FloatArray, n_rows: Number) -> FloatArray:
    """Return ‖w‖₂/n, for vectors whose entries lie in intervals of widths w, (k,) or (k, R).

    Attained by a row of upper limits against one of lower limits.
    """
    moves: FloatArray = np.divide(np.linalg.norm(widths, axis=0), n_rows)
    return moves


@lemma("∞")
def unbounded_sensitivity() -> FloatArray:
    """Return ∞, for a release without clipping: no noise makes it private."""
    return np.asarray(np.inf)


@lemma("0, except with the charged probability")
def failure_sensitivity() -> FloatArray:
    """Return 0, of a failure probability: it is charged to δ, and nothing is released."""
    return np.zeros(())


@lemma("B²")
def eigenvalue_sensitivity(row_bound: float) -> FloatArray:
    """Return the sensitivity B² of the smallest eigenvalue of X'X under replacing one row.

    Removing a row lowers it by at most ‖x‖², adding one raises it by at most that, and the two do not add up.
    The only row along an axis against one along another attains it. The loss of a sketch depends on a row
    through the same B² over its ridge.
    """
    return np.asarray(row_bound**2)
