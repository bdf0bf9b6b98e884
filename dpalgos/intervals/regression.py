"""Intervals of regressions that end with a step on released second moments.

    β̂ = β̃ + Â⁻¹ ĝ,   Â = A + N             released second moments of the rows
                      ĝ = A (β* − β̃) + ξ    a released mean score

β̃ is public by then (zero, or an earlier iterate) and ξ the sampling error of the scores plus their noise.
Exactly,

    β̂ − β* = A⁻¹ (ξ − N Δ),   Δ = β̂ − β̃  the step that was taken,

so that with known noise in N and ĝ and released second moments S of the scores (their mean square, hence
robust to errors whose spread depends on the row) the variance is that of Â⁻¹(ξ − N Δ):

    T_j = l_j'(S/n + s² I) l_j + (σ²/2) (‖Δ‖² ‖a_j‖² + (a_j'Δ)²),   a_j: row j of Â⁻¹

with l_j what brings scores to coefficient j, s the scores' noise and N of standard deviation σ in svec (σ on
the diagonal, σ/√2 off it). To second order Â⁻¹ N Δ has the mean (σ²/2) Â⁻¹ (tr(Â⁻¹) I + Â⁻¹) Δ, whose
square is added.

Where rows are clipped to a norm c_x it is those that say most: a clipped row along coefficient j has a score
of c_x times a residual, which is more than the 4 standard deviations that clipped scores are taken to be
moved by, where most rows are much shorter. The larger of both counts
(:mod:`dpalgos.intervals.half_widths`), and only
half a standard deviation of its noise is taken off the share: the errors of such answers are so large against
it that rows without a long one are hardly ever flagged.

A direction whose eigenvalue in Â is not well above the noise's
spectral norm, about √(2d) σ, is unresolved, and a coefficient that takes part in one is flagged.
"""

import numpy as np

from dpalgos.intervals.half_widths import REACH, ScoreMoments, moved_by_clipping, note_interval
from dpalgos.release.transcript import Transcript
from dpalgos.typing import BoolArray, FloatArray

RESOLVED = 2.2  # eigenvalues above this many √d σ
_LARGEST_BIAS = 0.25
_LARGEST_PART = 0.01  # of a unit coefficient's squared length, in unresolved directions


def resolved_floor(d: int, gram_std: FloatArray) -> FloatArray:
    """Return the least eigenvalue, (R,), that stands out from noise of ``gram_std`` (R,) in svec."""
    return np.asarray(RESOLVED * np.sqrt(d) * gram_std)


def unresolved_coordinates(eigenvalues: FloatArray, vectors: FloatArray, gram_std: FloatArray) -> BoolArray:
    """Return which coefficients, (d, R), take part in a direction whose eigenvalue noise may have made.

    ``vectors`` (R, d, d) are eigenvectors of released second moments, as columns; ``gram_std`` (R,) is σ.
    """
    floor = resolved_floor(eigenvalues.shape[1], gram_std)
    squares = vectors**2 / (vectors**2).sum(axis=2, keepdims=True)
    part = np.einsum("rjk,rk->jr", squares, (eigenvalues < floor[:, None]).astype(float))
    return np.asarray(part > _LARGEST_PART)


def note_step_interval(
    transcript: Transcript,
    level: float,
    *,
    inverse: FloatArray,
    lever: FloatArray,
    step: FloatArray,
    gram_std: FloatArray,
    score_std: FloatArray,
    scores: ScoreMoments,
    n_rows: FloatArray,
    unresolved: BoolArray,
    bias: FloatArray | float = 0.0,
    outer: FloatArray | None = None,
    row_bound: float = 0.0,
) -> None:
    """Note the half-widths of β̃ + Â⁻¹ĝ.

    Parameters
    ----------
    inverse, lever : (R, d, d) arrays
        Â⁻¹, and what brings scores, in the coordinates in which they were released, to coefficients.
    step : (d, R) array
        Δ.
    gram_std, score_std : (R,) arrays
        σ and s.
    unresolved : (d, R) bool array
        Of :func:`unresolved_coordinates`.
    bias : (d, R) array or float
        By how much a ridge or an early end moves each coefficient, about; more than a quarter of a standard
        error is flagged.
    outer : (R, d, d) array, optional
        What brings the coordinates of ``inverse`` and ``step`` to coefficients; omitted if they are the same.
    row_bound : float
        c_x, where rows are clipped and not scores.
    """
    spread = np.einsum("rjk,rkl,rjl->jr", lever, scores.moments, lever)
    length = np.einsum("rjk,rjk->jr", lever, lever)
    rows = inverse if outer is None else outer @ inverse
    across = np.einsum("rjk,rjk->jr", rows, rows) * (step**2).sum(axis=0)
    along = np.einsum("rjk,kr->jr", rows, step) ** 2
    trace = np.einsum("rjj->r", inverse)
    inner = trace * step + np.einsum("rjk,kr->jr", inverse, step)
    second = gram_std**2 / 2 * np.einsum("rjk,kr->jr", rows, inner)
    variance = second**2 + spread / n_rows + score_std**2 * length + gram_std**2 / 2 * (across + along)
    unsure = (scores.std * length) ** 2 + 2 * spread**2 / n_rows
    biased = np.abs(bias) > _LARGEST_BIAS * np.sqrt(variance)
    gram = np.linalg.inv(inverse)
    residual = np.sqrt(np.einsum("rjj->r", scores.moments) / np.einsum("rjj->r", gram))
    reach = np.maximum(REACH * np.sqrt(spread), row_bound * residual * np.sqrt(length))
    share = scores.share(0.5 if row_bound else 2.0)
    clipped = moved_by_clipping(share, reach, np.sqrt(variance))
    note_interval(
        transcript,
        level,
        variance=variance,
        variance_std=np.sqrt(unsure) / n_rows,
        sampling=spread / n_rows,
        flagged=unresolved | clipped | biased,
        reason="the coefficient takes part in a direction whose second moment the noise hides, or clipping "
        "or a ridge may have moved it",
    )
