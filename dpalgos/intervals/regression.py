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

Clipping moves the mean score by at most a reach times what the released sizes bound
(:mod:`dpalgos.intervals.tails`): by the clip level where scores are clipped; where rows and responses are, by
c_x times 1.5 of the residuals' root mean square for a row of size 1, and by the square of the size beyond. Of
that a coefficient takes the part that the second moments of the scores show along its lever
(:func:`dpalgos.intervals.half_widths.reach_along`).

A direction whose eigenvalue in Â is not well above the noise's
spectral norm, about √(2d) σ, is unresolved, and a coefficient that takes part in one is flagged.
"""

import numpy as np

from dpalgos.intervals.half_widths import BENT, CLIPPED, ScoreMoments, note_interval, reach_along
from dpalgos.release.transcript import Transcript
from dpalgos.typing import BoolArray, FloatArray

RESOLVED = 2.2  # eigenvalues above this many √d σ
_RESIDUALS = 1.5  # root mean squares of the residuals that a clipped row's is taken to have
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
    score_level: FloatArray | None = None,
    row_bound: float = 0.0,
    power: float = 2.0,
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
        By how much a ridge or an early end moves each coefficient, about.
    outer : (R, d, d) array, optional
        What brings the coordinates of ``inverse`` and ``step`` to coefficients; omitted if they are the same.
    score_level : (R,) array, optional
        The norm to which scores are clipped.
    row_bound : float
        c_x, where rows are clipped and not scores.
    power : float
        2 where a row's residual grows with its size, 1 where it is bounded.
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
    along = np.sqrt(length) * reach_along(spread, np.einsum("rjj->r", scores.moments), length)
    if score_level is not None:
        moved = scores.tail.moved(score_level * along)
    else:
        gram = np.linalg.inv(inverse)
        residual = np.sqrt(np.einsum("rjj->r", scores.moments) / np.einsum("rjj->r", gram))
        moved = scores.tail.moved(row_bound * _RESIDUALS * residual * along, power)
    note_interval(
        transcript,
        level,
        variance=variance,
        variance_std=np.sqrt(unsure) / n_rows,
        sampling=spread / n_rows,
        biases={CLIPPED: moved, BENT: np.abs(bias) + np.zeros_like(moved)},
        hidden=unresolved,
    )
