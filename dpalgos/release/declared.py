"""Releases of an estimator, declared once: the source of catalogs, budgets and tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpalgos.typing import FloatArray

Neighbors = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
Published = Sequence[FloatArray]  # what was released so far, in order
Witness = Callable[[Any, int, Published], Neighbors | None]


@dataclass(frozen=True)
class Release:
    """One release of an estimator.

    Attributes
    ----------
    label : str
        Label of its events.
    lemma : callable
        The function that bounds how far one row moves the release. It is from
        :mod:`dpalgos.mechanisms.sensitivity`, or is named ``…_sensitivity``.
    share : float or callable, optional
        Share of μ², or of ρ where not all noise is Gaussian: a number, or a function of ``params``. If it is
        None, the estimator's plan states it.
    when : callable
        ``(params) -> bool``, False if the release is never made with these parameters.
    witness : callable or None
        ``(params, d, published) -> (X, y, X', y')``: neighboring datasets that attain the sensitivity, given
        earlier releases. It is the executable half of the privacy argument.
    """

    label: str
    lemma: Callable[..., FloatArray]
    share: float | Callable[[Any], float | None] | None = None
    when: Callable[[Any], bool] = lambda params: True
    witness: Witness | None = None

    @property
    def sensitivity(self) -> str:
        """The sensitivity as a formula."""
        return str(getattr(self.lemma, "formula", ""))

    def share_for(self, params: Any) -> float | None:
        return self.share(params) if callable(self.share) else self.share


def shares_of(releases: Sequence[Release], params: Any) -> dict[str, float]:
    """Return the stated shares, by label, of the releases that ``params`` lead to."""
    shares = {one.label: one.share_for(params) for one in releases if one.when(params)}
    return {label: share for label, share in shares.items() if share is not None}


def witnesses_of(
    releases: Sequence[Release], params: Any, d: int, published: Published
) -> dict[str, Neighbors]:
    """Return the witnesses of releases by label; persons have as many rows as count."""
    possible = [one for one in releases if one.when(params)]
    witnesses = {one.label: one.witness(params, d, published) for one in possible if one.witness}
    n_rows = getattr(params, "max_rows", None) or 1
    return {label: _repeated(pair, n_rows) for label, pair in witnesses.items() if pair is not None}


def _repeated(neighbors: Neighbors, n_rows: int) -> Neighbors:
    """Return neighbors of one row each with that row several times."""
    X, _, other_X, _ = neighbors
    if len(X) != 1 or len(other_X) != 1:
        return neighbors
    return tuple(np.repeat(each, n_rows, axis=0) for each in neighbors)  # type: ignore[return-value]


def pair(row: ArrayLike, other: ArrayLike, y: float = 0.0, other_y: float | None = None) -> Neighbors:
    """Return neighboring datasets of one row (d,) or several rows (n, d) each, with constant responses."""
    rows, others = np.atleast_2d(row), np.atleast_2d(other)
    return rows, np.full(len(rows), y), others, np.full(len(others), y if other_y is None else other_y)


# Witnesses that attain most sensitivities: far rows and responses, which the estimator clips.
_FAR, _FAR_RESPONSE = 1e9, 1e15


def opposite_rows(params: Any, d: int, _: Published) -> Neighbors:
    """Return opposite rows with one far response, or with a label of the family."""
    row = np.full(d, _FAR)
    return pair(row, -row, getattr(params, "far_response", _FAR_RESPONSE))


def opposite_responses(_: Any, d: int, __: Published) -> Neighbors:
    """Return a far row along the first axis, with opposite responses."""
    row = _FAR * np.eye(1, d)
    return pair(row, row, _FAR_RESPONSE, -_FAR_RESPONSE)


def orthogonal_rows(_: Any, d: int, __: Published) -> Neighbors:
    """Return far rows along the first and the last axis; a far row and zeros if there is one axis."""
    first, last = _FAR * np.eye(d)[0], _FAR * np.eye(d)[-1]
    return pair(first, last * (d > 1))


def far_row_and_zeros(_: Any, d: int, __: Published) -> Neighbors:
    """Return a far row, and zeros."""
    return pair(np.full(d, _FAR), np.zeros(d), 1.0)


def with_interval(params: Any) -> bool:
    """Return whether ``params`` request an interval: for ``when``."""
    return getattr(params, "interval", None) is not None
