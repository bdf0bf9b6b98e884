"""How the privacy term of an error grows: log-log slopes, measured and predicted.

The privacy term is the squared distance between a private answer and the non-private answer on the same
data. Theory says how it depends on n, d, s and ε (paper A, Theorems 3.2, 3.4, 4.2):

    mean                d² log(1/δ) log n / (n ε)²
    sparse mean         (s log(d/s))² log(1/δ) log n / (n ε)²
    linear regression   d² log(1/δ) log³ n / (n ε)²      in the norm of the design's second moments

The paper writes log d for the sparse mean, the same up to a constant where s = o(d^(1−ω)). At sizes that can
be run it is not: each of s places goes to the best of d/s, and from s = 2 to 16 of d = 1,000 columns the
slope in s is 1.61 with log(d/s) and 2 with log d (:func:`printed_sparse_mean_term`).

A prediction is the slope of such a term fitted over the same values as the measurement, so that logarithms
are in it: over a factor of eight in n around 10⁴, log³ n turns −2 into about −1.7.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpalgos.errors import InputError
from dpalgos.typing import FloatArray

Setting = Mapping[str, float]  # values of n, d, s, epsilon, delta


@dataclass(frozen=True)
class Slope:
    """The slope of the log of a squared privacy term in the log of one variable."""

    variable: str
    measured: float
    standard_error: float
    predicted: float

    @property
    def excess(self) -> float:
        """Measured less predicted."""
        return self.measured - self.predicted


def mean_term(at: Setting) -> float:
    """Return d² log(1/δ) log n / (n ε)²."""
    return float(at["d"] ** 2 * _shared(at) * np.log(at["n"]))


def sparse_mean_term(at: Setting) -> float:
    """Return (s log(d/s))² log(1/δ) log n / (n ε)²."""
    return float((at["s"] * np.log(at["d"] / at["s"])) ** 2 * _shared(at) * np.log(at["n"]))


def printed_sparse_mean_term(at: Setting) -> float:
    """Return (s log d)² log(1/δ) log n / (n ε)², as paper A, Theorem 3.4, has it."""
    return float((at["s"] * np.log(at["d"])) ** 2 * _shared(at) * np.log(at["n"]))


def linear_regression_term(at: Setting) -> float:
    """Return d² log(1/δ) log³ n / (n ε)²."""
    return float(at["d"] ** 2 * _shared(at) * np.log(at["n"]) ** 3)


def slope_table(
    measure: Callable[[Setting], FloatArray],
    term: Callable[[Setting], float],
    base: Setting,
    grids: Mapping[str, Sequence[float]],
) -> tuple[Slope, ...]:
    """Vary one variable at a time around a base and fit slopes.

    Parameters
    ----------
    measure : callable
        From a setting to squared privacy terms of independent repetitions, (R,).
    term : callable
        From a setting to the predicted term, up to a constant.
    base : mapping
        n, d, s, epsilon and delta, as far as they matter.
    grids : mapping of str to sequence
        The values that a variable takes, at least three.
    """
    table = []
    for variable, values in grids.items():
        settings = [{**base, variable: value} for value in values]
        measured, error = fit_slope(values, [measure(at) for at in settings])
        predicted, _ = fit_slope(values, [np.array([term(at)]) for at in settings])
        table.append(Slope(variable, measured, error, predicted))
    return tuple(table)


def fit_slope(values: Sequence[float], terms: Sequence[FloatArray]) -> tuple[float, float]:
    """Fit log(mean term) = a + b log(value) by least squares; return b and its standard error.

    The error is that of the means over repetitions, by the delta method; zero where there is only one.
    """
    if len(values) < 3:
        raise InputError(f"a slope needs at least 3 values, got {len(values)}; vary the variable more widely")
    x = np.log(np.asarray(values, dtype=float))
    weights = (x - x.mean()) / np.sum((x - x.mean()) ** 2)
    means = np.array([np.mean(term) for term in terms])
    if not (means > 0).all():
        raise InputError("privacy terms must be positive on average; repeat more often or with less data")
    variances = np.array([np.var(term, ddof=1) / len(term) if len(term) > 1 else 0.0 for term in terms])
    return float(weights @ np.log(means)), float(np.sqrt(weights**2 @ (variances / means**2)))


def _shared(at: Setting) -> float:
    return float(np.log(1 / at["delta"]) / (at["n"] * at["epsilon"]) ** 2)
