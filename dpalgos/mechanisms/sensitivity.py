"""Sensitivities of means over n rows under replacing one row; for a sum, pass ``n_rows=1``.

A release passes the value of a lemma, of products of lemmas with public numbers, or of a function named
``…_sensitivity`` with a proof. Distances are in ℓ2 unless a lemma names another norm. Sizes are public
or released before, a number or one per replicate (R,).

Releases of an estimator, declared once, with their lemmas: the source of catalogs, budgets and tests.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, ParamSpec, Protocol, cast

import numpy as np

from dpalgos.typing import FloatArray, Number

Neighbors = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
Witness = Callable[[Any, int], Neighbors]


P = ParamSpec("P")


class Bounded(NamedTuple):
    """A private value (…,) or (…, R), how far one row moves it, and the formula of that bound."""

    value: FloatArray
    sensitivity: FloatArray
    formula: str


class Lemma(Protocol[P]):
    """A function that bounds how far one row moves a release, and its formula for printed tables."""

    formula: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> FloatArray: ...

    def of(self, value: FloatArray, *args: P.args, **kwargs: P.kwargs) -> Bounded:
        """Return a value with the bound."""


# Label of a release → whose sensitivities it accepts.
Lemmas = Mapping[str, Lemma[...] | tuple[Lemma[...], ...]]


def lemma(formula: str) -> Callable[[Callable[P, FloatArray]], Lemma[P]]:
    """Attach the formula of a sensitivity to the function that computes it.

    A formula that ends in ``/n`` is of a mean. With ``n_rows=1`` the query is a sum: its formula has no n.
    """

    def attach(function: Callable[P, FloatArray]) -> Lemma[P]:
        parameters = inspect.signature(function).parameters
        place = list(parameters).index("n_rows") if "n_rows" in parameters else len(parameters)
        default = parameters["n_rows"].default if "n_rows" in parameters else None

        def of(value: FloatArray, *args: P.args, **kwargs: P.kwargs) -> Bounded:
            n_rows = args[place] if place < len(args) else kwargs.get("n_rows", default)
            is_sum = isinstance(n_rows, int) and n_rows == 1
            return Bounded(
                value, function(*args, **kwargs), formula.removesuffix("/n") if is_sum else formula
            )

        named = cast(Lemma[P], function)
        named.formula, named.of = formula, of  # type: ignore[method-assign]
        return named

    return attach


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
    witness : callable or None
        ``(params, d) -> (X, y, X', y')``: neighboring datasets that attain the sensitivity. It is the
        executable half of the privacy argument. If it is None, one of
        :func:`dpalgos.mechanisms.witnesses.shared_pairs` attains it.
    """

    label: str
    lemma: Lemma[...]
    witness: Witness | None = None

    @property
    def sensitivity(self) -> str:
        """The sensitivity as a formula."""
        return self.lemma.formula


@lemma("2r/n")
def ball_mean(radius: Number, n_rows: Number) -> FloatArray:
    """Return 2r/n, for vectors of norm r at most: vectors at opposite ends of the ball.

    In ℓ∞, too, where every entry is at most r in magnitude, and for numbers.
    """
    moves: FloatArray = np.divide(np.multiply(2, radius), n_rows)
    return moves


@lemma("2r")
def ball_sum(radius: Number) -> FloatArray:
    """Return 2r, for sums of vectors of norm r at most: :func:`ball_mean` times n."""
    return ball_mean(radius, 1)


@lemma("√p")
def count(n_columns: int = 1) -> FloatArray:
    """Return √p, for p counts of rows: each rises by one, falls by one or stays; 1 in ℓ∞, as for one count.

    Attained if a row that every count includes replaces one that no count includes.
    """
    moves: FloatArray = np.sqrt(np.float64(n_columns))
    return moves


@lemma("√(2p)/n")
def histogram(n_columns: int = 1, n_rows: Number = 1) -> FloatArray:
    """Return √(2p)/n, for shares of rows in bins, in p histograms: a row leaves one bin and enters another.

    Attained by rows in different bins of every histogram; the ℓ1 distance is 2p/n, that of each share 1/n.
    """
    moves: FloatArray = np.divide(np.sqrt(2 * n_columns), n_rows)
    return moves


@lemma("√(2p)")
def histogram_sum(n_columns: int = 1) -> FloatArray:
    """Return √(2p), for numbers of rows in bins, in p histograms: :func:`histogram` times n."""
    return histogram(n_columns)


@lemma("√2 r²/n")
def outer_product(radius: Number, n_rows: Number, size: int | None = None) -> FloatArray:
    """Return √2 r²/n, for products z z' (Frobenius), or squares z_j², of vectors of norm r at most.

    ‖zz' − tt'‖² = ‖z‖⁴ + ‖t‖⁴ − 2 (z't)² ≤ 2 r⁴, for squares 2 Σ z_j² t_j² in the place of 2 (z't)²; attained
    by vectors of norm r along two axes. A square of a number (``size`` = 1) lies in [0, r²]: r²/n.
    """
    factor = 1.0 if size == 1 else np.sqrt(2)
    moves: FloatArray = np.divide(factor * np.square(radius), n_rows)
    return moves


@lemma("√2 r²")
def outer_product_sum(radius: Number) -> FloatArray:
    """Return √2 r², for sums of products z z' of vectors of norm r at most: :func:`outer_product` times n."""
    return outer_product(radius, 1)


@lemma("w/n")
def interval(width: Number, n_rows: Number) -> FloatArray:
    """Return w/n, for numbers in an interval of width w: one end against the other.

    In ℓ∞, too, for several means of numbers in intervals of that width.
    """
    moves: FloatArray = np.divide(width, n_rows)
    return moves


@lemma("‖w‖₂/n")
def box(widths: FloatArray, n_rows: Number) -> FloatArray:
    """Return ‖w‖₂/n, for vectors whose entries lie in intervals of widths w, (k,) or (k, R).

    Attained by a row of upper limits against one of lower limits.
    """
    moves: FloatArray = np.divide(np.linalg.norm(widths, axis=0), n_rows)
    return moves
