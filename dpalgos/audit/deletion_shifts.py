"""How far deleting a few rows moves an answer without privacy: the data's own limit for private answers.

If deleting one row moves the answer by Δ, then no (ε, 0)-private answer can be closer than
Δ / (1 + e^ε) in expectation to both answers: a two-point bound on these very data.

Computed from the data without noise: research only, not private.
"""

from collections.abc import Callable, Sequence

import numpy as np

from dpalgos.errors import InputError
from dpalgos.rows.sample import Sample
from dpalgos.typing import BoolArray, FloatArray

_RANK = 1e-10  # of the largest eigenvalue, or of a row's leverage: less is rounding


def deletion_shifts(X: object, y: object, to_output: object, n_deleted: Sequence[int]) -> dict[int, float]:
    """Return how far greedy deletion of rows moves least-squares coefficients, by the number of deleted rows.

    ``to_output`` (k, d) maps coefficients to the quantity whose ℓ2 shift is measured; ``n_deleted`` are the
    numbers to report, each below n − d. Deleting row i moves β̂ by (X'X)⁻¹ x_i e_i / (1 − h_i), exactly. Each
    round deletes the row that takes the answer farthest from where it started; for one row this is the
    maximum, for more it is a lower bound of it. Where columns depend on each other β̂ is the shortest
    solution, and no row is deleted without which more of them would.
    """
    sample = Sample(X, y)
    design, response, output = sample.X, sample.response(), np.asarray(to_output, dtype=float)
    n, d = design.shape
    start = output @ np.linalg.lstsq(design, response, rcond=None)[0]

    def distances(kept: BoolArray) -> FloatArray:
        moved = output @ _leave_one_out(design, response, kept)
        return np.asarray(np.linalg.norm(moved - start[:, None], axis=0))

    return _greedily(distances, n, n - d - 1, n_deleted)


def difference_deletion_shifts(first: object, second: object, n_deleted: Sequence[int]) -> dict[int, float]:
    """Return how far greedy deletion of rows, of either group, moves the difference of two groups' means.

    As :func:`deletion_shifts`, for numbers below the smaller group's size.
    """
    groups = [Sample(first).X, Sample(second).X]
    sizes = [len(rows) for rows in groups]
    start = groups[0].mean(axis=0) - groups[1].mean(axis=0)

    def distances(kept: BoolArray) -> FloatArray:
        left = np.split(kept, sizes[:1])
        means = [rows[those].mean(axis=0) for rows, those in zip(groups, left, strict=True)]
        without = [
            mean + (mean - rows) / (those.sum() - 1)
            for mean, rows, those in zip(means, groups, left, strict=True)
        ]
        moved = np.concatenate([without[0] - means[1], means[0] - without[1]])
        return np.asarray(np.linalg.norm(moved - start, axis=1))

    return _greedily(distances, sum(sizes), min(sizes) - 1, n_deleted)


def _greedily(
    distances: Callable[[BoolArray], FloatArray], n: int, most: int, n_deleted: Sequence[int]
) -> dict[int, float]:
    """Return how far deletions move an answer; ``distances`` maps the rows kept to the move without each."""
    if not n_deleted or min(n_deleted) < 1 or max(n_deleted) > most:
        raise InputError(f"n_deleted must lie between 1 and {most}, got {n_deleted}")
    kept, shifts = np.ones(n, dtype=bool), {}
    for deleted in range(1, max(n_deleted) + 1):
        moved = np.where(kept, distances(kept), -1.0)
        worst = int(np.argmax(moved))
        kept[worst] = False
        shifts[deleted] = float(moved[worst])
    return {deleted: shifts[deleted] for deleted in shifts if deleted in n_deleted}


def two_point_bound(shift: float, epsilon: float) -> float:
    """Return shift / (1 + e^ε), below which no ε-private answer's error can be on both data sets."""
    return float(shift / (1 + np.exp(epsilon)))


def _leave_one_out(X: FloatArray, y: FloatArray, kept: np.ndarray) -> FloatArray:
    """Return the coefficients without row i, for every row at once, (d, n)."""
    inverse = np.linalg.pinv(X[kept].T @ X[kept], rcond=_RANK, hermitian=True)
    coef = inverse @ (X[kept].T @ y[kept])
    projected = X @ inverse
    left = 1 - np.einsum("ij,ij->i", projected, X)
    residual = np.divide(y - X @ coef, left, out=np.zeros_like(left), where=left > _RANK)
    return np.asarray(coef[:, None] - (projected * residual[:, None]).T)
