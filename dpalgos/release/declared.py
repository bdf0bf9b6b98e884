"""What an estimator releases, declared once: catalogs print it, budgets and tests are made of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpalgos.typing import FloatArray

Neighbors = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
Published = Sequence[FloatArray]  # what was released so far, in order
Witnesses = Sequence[Neighbors | None]  # of releases, in their order
Share = float | str


@dataclass(frozen=True)
class Release:
    """One release of an estimator.

    Attributes
    ----------
    label : str
        Of its events; the number of a round is written "t".
    share : float, str or callable
        Of μ², or of ρ where not all noise is Gaussian, also as a function of ``params``; or words.
    lemma : callable or str
        The function of :mod:`dpalgos.mechanisms.sensitivity`, or a function named ``…_sensitivity``, that
        bounds how far one row moves it; or the sensitivity as text: Python of n, d, ``sqrt`` and keywords, or
        words.
    made_in : callable or None
        The function that makes it; None: the estimator's own file.
    when : callable
        ``(params) -> bool``, whether it is made; None where n and d decide, too.
    witness : callable or None
        ``(params, d, published) -> (X, y, X', y')``: neighboring data sets that attain the sensitivity, given
        what was published (on one row, or a few people); the executable half of the privacy argument.
    """

    label: str
    share: Share | Callable[[Any], Share]
    lemma: Callable[..., FloatArray] | str
    made_in: Callable[..., Any] | None = None
    when: Callable[[Any], bool | None] = lambda params: True
    witness: Callable[[Any, int, Published], Neighbors | None] | None = None

    @property
    def sensitivity(self) -> str:
        """The sensitivity as a formula."""
        return self.lemma if isinstance(self.lemma, str) else str(getattr(self.lemma, "formula", ""))

    def share_for(self, params: Any) -> Share:
        return self.share(params) if callable(self.share) else self.share


def witnessed(
    witnesses: Callable[[Any, int, Published], Witnesses], *releases: Release
) -> tuple[Release, ...]:
    """Return releases, of which one function returns the witnesses that they lack, in order."""
    lacking = [one for one in releases if not one.witness]

    def witness(i: int, *run: Any) -> Neighbors | None:
        return next(iter(witnesses(*run)[i : i + 1]), None)

    own = (replace(one, witness=partial(witness, i)) for i, one in enumerate(lacking))
    return tuple(one if one.witness else next(own) for one in releases)


def scaled(whole: Share, releases: Sequence[Release]) -> tuple[Release, ...]:
    """Return releases that share ``whole`` as they shared what they took before."""

    def share(one: Release, params: Any) -> Share:
        own = shares_of(releases, params)
        if isinstance(whole, str) or one.label not in own:
            return f"of {whole}"
        return whole / sum(own.values()) * own[one.label]

    return tuple(replace(one, share=partial(share, one)) for one in releases)


def shares_of(releases: Sequence[Release], params: Any) -> dict[str, float]:
    """Return the shares that are numbers, by label, of the releases that ``params`` lead to."""
    made = {one.label: one.share_for(params) for one in releases if one.when(params)}
    return {label: share for label, share in made.items() if not isinstance(share, str)}


def witnesses_of(
    releases: Sequence[Release], params: Any, d: int, published: Published
) -> dict[str, Neighbors]:
    """Return the witnesses of releases by label."""
    found = [(one.label, one.witness(params, d, published)) for one in releases if one.witness]
    return {label: neighbors for label, neighbors in found if neighbors is not None}


def pair(row: ArrayLike, other: ArrayLike, y: float = 0.0, other_y: float | None = None) -> Neighbors:
    """Return neighboring data sets of a row (d,), or some rows (n, d), each; responses are all the same."""
    rows, others = np.atleast_2d(row), np.atleast_2d(other)
    return rows, np.full(len(rows), y), others, np.full(len(others), y if other_y is None else other_y)


def with_interval(params: Any) -> bool:
    """Return whether an interval is wanted: for ``when``."""
    return getattr(params, "interval", None) is not None
