"""Witnesses: neighboring datasets that attain the sensitivity of a release."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpalgos.mechanisms.sensitivity import Neighbors, Release
from dpalgos.release.checks import LARGEST_VALUE


def witnesses_of(releases: Sequence[Release], params: Any, d: int, n_people: int = 1) -> dict[str, Neighbors]:
    """Return neighbors that attain the sensitivities, by description: hand-made ones, and shared ones.

    A person has as many rows as count. With several people of one row each, the last one is replaced.
    """
    witnesses = shared_pairs(d)
    for one in releases:
        if one.witness:
            witnesses[f"witness of {one.label!r}"] = one.witness(params, d)
    single = {label for label, (X, _, other_X, _) in witnesses.items() if len(X) == len(other_X) == 1}
    if n_people > 1:
        return {label: _among(n_people, pair) for label, pair in witnesses.items() if label in single}
    n_rows = getattr(params, "max_rows", None) or 1
    return {label: _repeated(pair, n_rows) if label in single else pair for label, pair in witnesses.items()}


def _repeated(neighbors: Neighbors, n_rows: int) -> Neighbors:
    """Return neighbors of one row each with that row several times."""
    X, y, other_X, other_y = (np.repeat(part, n_rows, axis=0) for part in neighbors)
    return X, y, other_X, other_y


def _among(n_people: int, neighbors: Neighbors) -> Neighbors:
    """Return several equal people, and the same with the last one replaced."""
    X, y, other_X, other_y = neighbors
    rows, responses = np.repeat(X, n_people, axis=0), np.repeat(y, n_people)
    return rows, responses, np.vstack([rows[1:], other_X]), np.append(responses[1:], other_y)


def pair(row: ArrayLike, other: ArrayLike, y: float = 0.0, other_y: float | None = None) -> Neighbors:
    """Return neighboring datasets of one row (d,) or several rows (n, d) each, with constant responses."""
    rows, others = np.atleast_2d(row), np.atleast_2d(other)
    return rows, np.full(len(rows), y), others, np.full(len(others), y if other_y is None else other_y)


_FAR, _FAR_RESPONSE = 1e9, 1e15


def shared_pairs(d: int) -> dict[str, Neighbors]:
    """Return pairs that attain most sensitivities: rows and responses far outside of every bound."""
    row, axes = np.full(d, _FAR), _FAR * np.eye(d)
    farthest = np.array([*np.full(d - 1, 1e20), _FAR_RESPONSE])
    narrow = np.array([*np.ones(d - 1), 1e-6])
    lost_axis, responses = np.vstack([axes[:-1], axes[:1]]), np.full(d, _FAR_RESPONSE)
    opposite = np.append(responses[:-1], -_FAR_RESPONSE)
    zeros = np.zeros((2, d))
    return {
        "far rows, opposite rows": pair(row, -row, -_FAR_RESPONSE),
        "far rows, opposite rows in a half-space": pair(row - axes[0], 2 * axes[0] - row, -_FAR_RESPONSE),
        "far rows, opposite responses": pair(axes[0], axes[0], _FAR_RESPONSE, -_FAR_RESPONSE),
        "far rows along two axes": pair(axes[0], axes[-1] * (d > 1), 1e12, 0.0),
        "far rows along two later axes": pair(axes[1 % d], axes[-1] * (d > 2), 1e12, 0.0),
        "far row against zeros": pair(row, 0 * row, _FAR_RESPONSE, -_FAR_RESPONSE),
        "far row against a narrow one": pair(farthest, narrow, _FAR_RESPONSE, -_FAR_RESPONSE),
        "far rows, one axis lost": (axes, responses, lost_axis, opposite),
        "one far row next to zeros": pair(zeros, np.vstack([zeros[:1], row])),
        "largest row against zeros": pair(np.full(d, LARGEST_VALUE), 0 * row, LARGEST_VALUE, 0.0),
    }
