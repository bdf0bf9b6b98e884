"""Second moments of rows: symmetric matrices as vectors, and sums of z z' over rows in memory or streamed.

svec(M) = (M_ii, √2 M_ij for i < j) is an isometry from the Frobenius norm to ℓ2, so that Gaussian noise of
standard deviation σ on svec(M) is σ on the diagonal and σ/√2 off it, and the matrix stays symmetric.

Rows are clipped before they are summed, in double precision (:mod:`dpalgos.rows.blocks` on rounding), so that
X'X and X'y move by what rows and responses within the bounds can move them. Every row is multiplied by its
factor, also where that is 1, so that the time does not tell how many rows are long.
"""

from collections.abc import Callable, Iterator

import numpy as np
import scipy

from dpalgos.release.symmetric import from_upper_triangles, svec_layout
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import clip_factor, clip_rows_l2, row_lengths, truncate
from dpalgos.typing import FloatArray

_SHORT = 16  # columns of which all products of pairs are worth forming
_IN_CACHE = 2**16  # numbers
_MANY = 16  # replicates: for as many it is worth the copy to store the rows by column


def row_norms(Z: FloatArray, matrices: FloatArray | None) -> FloatArray:
    """Return ‖z‖ of the rows z of Z (n, p), shape (n, 1), or ‖Wz‖ for symmetric W (R, p, p), shape (n, R).

    The vector Wz is formed, since z'W²z cancels where W is ill-conditioned.
    """
    if matrices is None:
        return row_lengths(Z)[:, None]
    norms = np.empty((len(matrices), len(Z)))
    for some, rows in _whitened_in_cache(Z, matrices):
        norms[some] = row_lengths(rows)
    return norms.T


def whitened(Z: FloatArray, matrices: FloatArray) -> FloatArray:
    """Return the rows Wz, (…, n, p), stored by column: sums over few columns take less time so."""
    return np.asarray(matrices.swapaxes(-1, -2) @ Z.T).swapaxes(-1, -2)


def _whitened_in_cache(Z: FloatArray, matrices: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
    """Yield some replicates and their rows Wz, (k, n, p), in an array that the next ones overwrite."""
    if len(matrices) >= _MANY:
        Z = np.asfortranarray(Z)
    rows = None
    for some in replicates_in_cache(Z, len(matrices)):
        own = matrices[some].swapaxes(1, 2)
        rows = np.matmul(own, Z.T, out=None if rows is None else rows[: len(own)])
        yield some, rows.swapaxes(1, 2)


def clipped_row_sums(
    Z: FloatArray,
    matrices: FloatArray,
    factors: FloatArray,
    level: FloatArray,
    norms: FloatArray | None = None,
    made: FloatArray | None = None,
) -> FloatArray:
    """Return Σ_i of Wz_i f_i', clipped to the norm ``level``, (R,) or (n, R): (p, R) or (p, K, R).

    ``factors`` are (n, R) or (n, K, R), with a last axis of 1 where replicates share them. ``norms`` (n, R),
    made by :func:`row_norms` if they are known, and else here, are those of the vectors that are summed,
    after W: a row adds at most ``level`` as computed, whatever W is. ``made`` (R, n, p) are the rows Wz if
    they are known.
    """
    n_factors, levels = factors[0, ..., 0].size, np.atleast_2d(level).T
    sums = np.empty((Z.shape[1], *factors.shape[1:-1], len(matrices)))
    for some, rows in _whitened_in_cache(Z, matrices) if made is None else [(slice(None), made)]:
        own = factors if factors.shape[-1] == 1 else factors[..., some]
        own = own.T.reshape(-1, n_factors, len(Z))
        if norms is None:
            sizes = np.abs(own[:, 0]) if n_factors == 1 else row_lengths(own.swapaxes(1, 2))
            lengths = row_lengths(rows) * sizes
        else:
            lengths = norms[:, some].T
        clipped = own * clip_factor(lengths, levels[some])[:, None]
        sums[..., some] = (clipped @ rows).T.reshape(sums[..., some].shape)
    return sums


def replicates_in_cache(Z: FloatArray, n_replicates: int) -> Iterator[slice]:
    """Yield slices of replicates to which rows Z are brought at once: many where rows are few."""
    step = max(1, _IN_CACHE // Z.size)
    return (slice(start, start + step) for start in range(0, n_replicates, step))


def clipped_row_moments(
    Z: FloatArray, matrices: FloatArray | None, weights: FloatArray, level: FloatArray
) -> FloatArray:
    """Return Σ_i w_ir u_i u_i', u_i = Wz_i clipped to the norm ``level`` (R,), (R, p, p)."""
    if matrices is None:
        return weighted_moments(Z, weights * clip_factor(row_norms(Z, None), level) ** 2)
    weights = np.broadcast_to(weights, (len(Z), len(matrices)))
    moments = np.empty(matrices.shape)
    for some, rows in _whitened_in_cache(Z, matrices):
        rows *= clip_factor(row_lengths(rows), level[some, None])[..., None]
        moments[some] = (rows * weights.T[some, :, None]).swapaxes(1, 2) @ rows
    return moments


def whitened_moments(Z: FloatArray, matrices: FloatArray, weights: FloatArray) -> FloatArray:
    """Return Σ_i w_ir u_i u_i', u_i = Wz_i, for rows Z (n, p) and weights (n, R), (R, p, p)."""
    made = zip((whitened(Z, matrix) for matrix in matrices), weights.T, strict=True)
    return np.stack([_weighted_square(rows, own) for rows, own in made])


def _weighted_square(rows: FloatArray, weights: FloatArray) -> FloatArray:
    return np.asarray((rows * weights[:, None]).T @ rows)


def weighted_moments(Z: FloatArray, weights: FloatArray) -> FloatArray:
    """Return Σ_i w_ir z_i z_i' for rows Z (n, p) and weights (n, R), (R, p, p)."""
    p = Z.shape[1]
    if p > _SHORT or weights.shape[1] == 1:
        return np.stack([_weighted_square(Z, column) for column in weights.T])
    first, second, _ = svec_layout(p)
    columns = np.ascontiguousarray(Z.T)
    return from_upper_triangles(((columns[first] * columns[second]) @ weights).T, p)


def eigenvalue_sensitivity(row_bound: float) -> float:
    """Return the sensitivity B² of the least eigenvalue of X'X under replacing one row.

    Removing a row lowers it by at most ‖x‖², adding one raises it by at most that, and the two do not add up;
    attained by the only row along an axis against one along another. The loss of a sketch depends on a row
    through the same B² over its ridge.
    """
    return row_bound**2


def row_moments(
    sample: Sample,
    row_bound: float | None = None,
    response_bound: float | None = None,
    *,
    response_scale: float = 1.0,
) -> FloatArray:
    """Return the sums of z z' over each replicate's rows, (R, d + 1, d + 1), z = (x, ``response_scale`` y).

    Rows are clipped to the ℓ2 norm ``row_bound``, responses truncated to ± ``response_bound``, if these are
    given. Summed once, however many estimators ask.
    """
    sample.check_response()

    def of(part: Sample) -> FloatArray:
        total: FloatArray = np.zeros(())
        for group in part.together():
            rows = group.X if row_bound is None else clip_rows_l2(group.X, row_bound)
            y = group.y if response_bound is None else truncate(group.y, response_bound)
            weights = None if part.row_mask is None else group.weights
            total = total + _products(np.vstack([rows.T, response_scale * y]), weights)
        return total

    key = "row moments", row_bound, response_bound, response_scale
    moments = sample.computed(key, lambda: sample.total(of))
    return np.broadcast_to(moments, (sample.n_replicates, *moments.shape[-2:]))


def _products(columns: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Return sums of z z' for the columns (p, m) of rows z and weights (m, R), (R, p, p), or None, (p, p).

    All replicates are one matrix product: (p(p + 1)/2 products of columns) × weights.
    """
    p = len(columns)
    if weights is None:  # a general product: a fifth of the time of a symmetric one with 5 columns
        product = np.asarray(scipy.linalg.blas.dgemm(1.0, columns.T, columns.T, trans_a=True))
        return (product + product.T) / 2  # on some processors its halves differ by rounding
    first, second = np.triu_indices(p)
    return from_upper_triangles(weights.T @ (columns[first] * columns[second]).T, p)


def squared_error_gradient(
    sample: Sample, covariate_bound: float, level: float | FloatArray
) -> Callable[[FloatArray], FloatArray]:
    """Return β (d, R) ↦ X'(Xβ − y)/n; rows are clipped, responses truncated to ± ``level``, () or (R,)."""
    d, n_rows = sample.n_features, sample.n_rows[:, None, None]
    one_level = float(level) if np.ndim(level) == 0 else None
    moments = row_moments(sample, covariate_bound, one_level) / n_rows
    gram, cross = moments[:, :d, :d], moments[:, :d, d]
    if one_level is None:  # every replicate truncates at a level of its own

        def crossed(group: Group, responses: FloatArray) -> FloatArray:
            return clip_rows_l2(group.X, covariate_bound).T @ responses

        truncated = sample.grouped(
            lambda group: truncate(group.y[:, None], level) * group.weights, together=True
        )
        cross = (truncated.total((d, sample.n_replicates), crossed) / sample.n_rows).T

    def at(coef: FloatArray) -> FloatArray:
        return np.asarray((gram @ coef.T[:, :, None])[:, :, 0] - cross).T

    return at
