"""Queries with their sensitivity: a value, how far one row moves it, and the lemma that says so."""

from collections.abc import Callable
from typing import NamedTuple, ParamSpec, Protocol, cast

from dpalgos.typing import FloatArray

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


def lemma(formula: str) -> Callable[[Callable[P, FloatArray]], Lemma[P]]:
    """Attach the formula of a sensitivity to the function that computes it."""

    def attach(function: Callable[P, FloatArray]) -> Lemma[P]:
        def of(value: FloatArray, *args: P.args, **kwargs: P.kwargs) -> Bounded:
            return Bounded(value, function(*args, **kwargs), formula)

        named = cast(Lemma[P], function)
        named.formula, named.of = formula, of  # type: ignore[method-assign]
        return named

    return attach
