"""The mean of vectors clipped to a ball around a public or released center.

    m = c + (1/n) Σ_i clip(x_i − c, r),   clip shortens a vector to ℓ2 norm r

Replacing one vector moves it by at most 2r/n: :func:`ball_mean_sensitivity`.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from dpalgos.steps.clipping import clip_factor
from dpalgos.typing import FloatArray, IntArray


def ball_mean_sensitivity(radius: float | FloatArray, n_rows: FloatArray) -> FloatArray:
    """Return the ℓ2 sensitivity 2r/n of means of vectors in a ball: vectors at opposite ends of the ball."""
    return np.asarray(2 * radius / n_rows)


def unit_mean_sensitivity(n_rows: FloatArray) -> FloatArray:
    """Return the sensitivity 1/n of a mean over rows of numbers in [0, 1], and of several such means in ℓ∞.

    Attained by a row of zeros against a row of ones.
    """
    return np.asarray(1 / n_rows)


def box_mean_sensitivity(widths: FloatArray, n_rows: FloatArray) -> FloatArray:
    """Return the ℓ2 sensitivity ‖u − l‖₂/n of means of entries in intervals of these widths (k, R).

    Attained by a row of upper ends against one of lower ends.
    """
    return np.asarray(np.linalg.norm(widths, axis=0) / n_rows)


def ball_mean(vectors: Sequence[FloatArray], center: FloatArray, radius: FloatArray) -> FloatArray:
    """Return the means (d, R) of vectors clipped to balls of ``radius`` (R,) around ``center`` (d, R).

    ``vectors`` holds an array (n_r, d) per replicate, which may be one and the same: then all are two
    products.
    """
    means = np.empty_like(center)
    for X, replicates in distinct(vectors):
        middles, radii = center[:, replicates], radius[replicates]
        origin = middles.mean(axis=1, keepdims=True)  # what distances are computed from, against cancellation
        offsets, moved = X - origin.T, middles - origin
        squares = np.einsum("ij,ij->i", offsets, offsets)[:, None] - 2 * offsets @ moved
        squares += (moved**2).sum(axis=0)
        factor = clip_factor(np.sqrt(np.maximum(squares, 0)), radii)
        means[:, replicates] = middles + (offsets.T @ factor - moved * factor.sum(axis=0)) / len(X)
    return means


def ball_squares(
    vectors: Sequence[FloatArray], center: FloatArray, radius: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean squares of offsets clipped likewise, (d, R), and the share of vectors clipped, (R,).

    The arguments are those of :func:`ball_mean`.
    """
    squares, clipped = np.empty_like(center), np.empty(len(radius))
    for r, X in enumerate(vectors):
        offsets = X - center[:, r]
        norms = np.linalg.norm(offsets, axis=1)
        squares[:, r] = clip_factor(norms, radius[r]) ** 2 @ offsets**2 / len(X)
        clipped[r] = (norms > radius[r]).mean()
    return squares, clipped


def distinct(arrays: Sequence[FloatArray]) -> Iterator[tuple[FloatArray, IntArray]]:
    """Yield every array of a sequence over replicates once, with the replicates that share it."""
    replicates: dict[int, list[int]] = {}
    for r, array in enumerate(arrays):
        replicates.setdefault(id(array), []).append(r)
    for chosen in replicates.values():
        yield arrays[chosen[0]], np.array(chosen)
