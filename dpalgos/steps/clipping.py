"""Means of vectors of users that are clipped to a ball."""

from collections.abc import Iterator, Sequence

import numpy as np

from dpalgos.rows.clipping import clip_factor
from dpalgos.typing import FloatArray, IntArray


def mean_in_ball(vectors: Sequence[FloatArray], center: FloatArray, radius: FloatArray) -> FloatArray:
    """Return c + (1/n) Σ_i clip(x_i − c, r), (d, R), for centers (d, R) and radii (R,), public or released.

    ``vectors`` holds an array (n_r, d) per replicate, which may be one and the same: then all are two
    products. Clipping shortens a vector to ℓ2 norm r.
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
) -> tuple[FloatArray, list[FloatArray]]:
    """Return mean squares of offsets clipped likewise, (d, R), and each vector's distance over the radius.

    The arguments are those of :func:`mean_in_ball`.
    """
    squares, sizes = np.empty_like(center), []
    for r, X in enumerate(vectors):
        offsets = X - center[:, r]
        norms = np.linalg.norm(offsets, axis=1)
        squares[:, r] = clip_factor(norms, radius[r]) ** 2 @ offsets**2 / len(X)
        sizes.append(norms / radius[r])
    return squares, sizes


def distinct(arrays: Sequence[FloatArray]) -> Iterator[tuple[FloatArray, IntArray]]:
    """Yield every array of a sequence over replicates once, with the replicates that share it."""
    replicates: dict[int, list[int]] = {}
    for r, array in enumerate(arrays):
        replicates.setdefault(id(array), []).append(r)
    for chosen in replicates.values():
        yield arrays[chosen[0]], np.array(chosen)
