"""Sensitivities of means over n rows under replacing one row; for a sum, pass ``n_rows=1``.

A release passes the value of a lemma, of products of lemmas with public numbers, or of a function named
``…_sensitivity`` with a proof. Distances are in ℓ2 unless a lemma names another norm. Sizes are public
or released before, a number or one per replicate (R,).

Releases of an estimator, declared once, with their lemmas: the source of catalogs, budgets and tests.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, ParamSpec, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from dpalgos.release.checks import LARGEST_VALUE
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
        executable half of the privacy argument. If it is None, one of :func:`shared_pairs` attains it.
    """

    label: str
    lemma: Lemma[...]
    witness: Witness | None = None

    @property
    def sensitivity(self) -> str:
        """The sensitivity as a formula."""
        return self.lemma.formula


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


@lemma("2/n")
def residual_sensitivity(n_rows: Number) -> FloatArray:
    """Return 2/n: (t, t²) and (s, s²), t and s in [−1, 1], are at most 2 apart.

    With a = |t − s| ≤ 2 and |t + s| ≤ 2 − a their squared distance is a² (1 + (t + s)²) ≤ a² (1 + (2 − a)²),
    at most 4, attained by t = 1 and s = −1.
    """
    return np.asarray(np.divide(2, n_rows))


@lemma("√5/n")
def people_residual_sensitivity(n_rows: Number) -> FloatArray:
    """Return √5/n: (t, t², q) with q in [0, 1]: 4 by the first two, 1 by the last; both are attained."""
    return np.asarray(np.divide(np.sqrt(5), n_rows))


@lemma("√3/n")
def life_table_sensitivity(n_rows: Number) -> FloatArray:
    """Return √3/n: nonnegative vectors of norm 1 at most, and vectors in [0, 1/√K]^K, next to each other.

    The former are at most √2 apart, as their product is not negative. The latter are at most 1 apart. Both
    are attained: events in two periods, and a time at risk in all periods or in none.
    """
    return np.asarray(np.divide(np.sqrt(3), n_rows))


@lemma("√2 L/n")
def curvature_sensitivity(threshold: Number, n_rows: Number) -> FloatArray:
    """Return √2 L/n: parts of Frobenius norm L each, positive semidefinite, of orthogonal z."""
    return np.asarray(np.sqrt(2) * np.divide(threshold, n_rows))


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


@lemma("∞")
def unbounded_sensitivity() -> FloatArray:
    """Return ∞, for a release without clipping: no noise makes it private."""
    return np.asarray(np.inf)


@lemma("0, except with the charged probability")
def failure_sensitivity() -> FloatArray:
    """Return 0, of a failure probability: it is charged to δ, and nothing is released."""
    return np.zeros(())


@lemma("B²")
def eigenvalue_sensitivity(row_bound: float) -> FloatArray:
    """Return the sensitivity B² of the smallest eigenvalue of X'X under replacing one row.

    Removing a row lowers it by at most ‖x‖², adding one raises it by at most that, and the two do not add up.
    The only row along an axis against one along another attains it. The loss of a sketch depends on a row
    through the same B² over its ridge.
    """
    return np.asarray(row_bound**2)
