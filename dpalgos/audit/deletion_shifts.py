"""How far deleting a few rows moves an answer without privacy: the data's own limit for private answers.

If deleting one row moves the answer by Δ, then no (ε, 0)-private answer can be closer than
Δ / (1 + e^ε) in expectation to both answers: a two-point bound on these very data.

Computed from the data without noise: research only, not private.
"""

from collections.abc import Sequence

import numpy as np

from dpalgos.errors import InputError
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray


def deletion_shifts(X: object, y: object, to_output: object, n_deleted: Sequence[int]) -> dict[int, float]:
    """Return how far greedy deletion of rows moves least-squares coefficients, by the number of deleted rows.

    ``to_output`` (k, d) maps coefficients to the quantity whose ℓ2 shift is measured; ``n_deleted`` are the
    numbers to report, each below n − d. Deleting row i moves β̂ by (X'X)⁻¹ x_i e_i / (1 − h_i), exactly. Each
    round deletes the row that takes the answer farthest from where it started; for one row this is the
    maximum, for more it is a lower bound of it.
    """
    sample = Sample(X, y)
    design, response, output = sample.X, sample.response(), np.asarray(to_output, dtype=float)
    n, d = design.shape
    if not n_deleted or min(n_deleted) < 1 or max(n_deleted) >= n - d:
        raise InputError(f"n_deleted must lie between 1 and n - d - 1 = {n - d - 1}, got {n_deleted}")
    kept = np.ones(n, dtype=bool)
    start = output @ _solve(design, response)
    shifts = {}
    for deleted in range(1, max(n_deleted) + 1):
        candidates = output @ _leave_one_out(design, response, kept)
        distance = np.linalg.norm(candidates - start[:, None], axis=0)
        distance[~kept] = -1.0
        worst = int(np.argmax(distance))
        kept[worst] = False
        if deleted in n_deleted:
            shifts[deleted] = float(distance[worst])
    return shifts


def difference_deletion_shifts(first: object, second: object, n_deleted: Sequence[int]) -> dict[int, float]:
    """Return how far greedy deletion of rows, of either group, moves the difference of two groups' means.

    As :func:`deletion_shifts`, for numbers below the smaller group's size.
    """
    groups = [Sample(first).X, Sample(second).X]
    smallest = min(map(len, groups))
    if not n_deleted or min(n_deleted) < 1 or max(n_deleted) >= smallest:
        raise InputError(f"n_deleted must lie between 1 and {smallest - 1}, got {n_deleted}")
    kept = [np.ones(len(rows), dtype=bool) for rows in groups]
    means = [rows.mean(axis=0) for rows in groups]
    start = means[0] - means[1]
    shifts = {}
    for deleted in range(1, max(n_deleted) + 1):
        distances = []
        for rows, left, sign, mean, other in zip(groups, kept, (1, -1), means, means[::-1], strict=True):
            without = mean + (mean - rows) / (left.sum() - 1)
            distance = np.linalg.norm(sign * (without - other) - start, axis=1)
            distances.append(np.where(left, distance, -1.0))
        group = int(np.argmax([distance.max() for distance in distances]))
        row = int(np.argmax(distances[group]))
        kept[group][row] = False
        means[group] = groups[group][kept[group]].mean(axis=0)
        if deleted in n_deleted:
            shifts[deleted] = float(distances[group][row])
    return shifts


def two_point_bound(shift: float, epsilon: float) -> float:
    """Return shift / (1 + e^ε), below which no ε-private answer's error can be on both data sets."""
    return float(shift / (1 + np.exp(epsilon)))


def _leave_one_out(X: FloatArray, y: FloatArray, kept: np.ndarray) -> FloatArray:
    """Return the coefficients without row i, for every row at once, (d, n)."""
    inverse = np.linalg.inv(X[kept].T @ X[kept])
    coef = inverse @ (X[kept].T @ y[kept])
    projected = X @ inverse
    leverage = np.einsum("ij,ij->i", projected, X)
    residual = (y - X @ coef) / np.maximum(1 - leverage, np.finfo(float).tiny)
    return np.asarray(coef[:, None] - (projected * residual[:, None]).T)


def _solve(X: FloatArray, y: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.lstsq(X, y, rcond=None)[0])
