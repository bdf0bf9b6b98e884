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

The noise of ``n_replicates`` runs on one data set is an axis. Nothing clips: bounds are those of the papers'
experiments, R = 4 √log n, and means and coefficients lie well within.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpalgos.api import estimate
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
    x = np.log(np.asarray(values, dtype=float))
    weights = (x - x.mean()) / np.sum((x - x.mean()) ** 2)
    means = np.array([np.mean(term) for term in terms])
    variances = np.array([np.var(term, ddof=1) / len(term) if len(term) > 1 else 0.0 for term in terms])
    return float(weights @ np.log(means)), float(np.sqrt(weights**2 @ (variances / means**2)))


def _shared(at: Setting) -> float:
    return float(np.log(1 / at["delta"]) / (at["n"] * at["epsilon"]) ** 2)


Measure = Callable[[Setting, np.random.Generator, int], FloatArray]


def mean_privacy_term(at: Setting, rng: np.random.Generator, n_replicates: int) -> FloatArray:
    """Return ‖dp_mean − sample mean‖² of rows N(μ, I), |μ_j| ≤ 1, (R,)."""
    n, d = int(at["n"]), int(at["d"])
    X = rng.standard_normal((n, d)) + rng.uniform(-1, 1, d)
    private = _private("dp_mean", X, None, at, rng, n_replicates, value_bound=_truncation(at))
    return _squared_distance(private, X.mean(axis=0))


def sparse_mean_privacy_term(at: Setting, rng: np.random.Generator, n_replicates: int) -> FloatArray:
    """Return ‖dp_sparse_mean − thresholded sample mean‖² at the worst strength of the signal, (R,).

    The rate is a minimax one. Strong means are always selected and cost s noises, without log d; weak ones
    cost nothing when missed. The worst lie where selection begins to fail, at a multiple of λ √s log d / ε.
    """
    n, d, s = int(at["n"]), int(at["d"]), int(at["s"])
    scale = 2 * _truncation(at) / n * np.sqrt(s * np.log(1 / at["delta"])) * np.log(d) / at["epsilon"]
    noise = rng.standard_normal((n, d))
    worst: FloatArray = np.zeros(n_replicates)
    for strength in np.geomspace(0.25, 2.0, 7) * scale:
        X = noise.copy()
        X[:, :s] += strength
        private = _private(
            "dp_sparse_mean", X, None, at, rng, n_replicates, value_bound=_truncation(at), sparsity=s
        )
        plain = estimate("sparse_sample_mean", X, sparsity=s, rng=rng).estimate
        found = _squared_distance(private, plain)
        worst = found if found.mean() > worst.mean() else worst
    return worst


def linear_regression_privacy_term(at: Setting, rng: np.random.Generator, n_replicates: int) -> FloatArray:
    """Return ‖dp_linear_regression − least squares‖² in the norm of the design's second moments I/(3d), (R,).

    Entries uniform on ±1/√d, unit coefficients, N(0, 1) noise; T = ⌈log n⌉ steps of 3d, as the theory has it,
    residuals clipped to R.
    """
    n, d = int(at["n"]), int(at["d"])
    X = rng.uniform(-1, 1, (n, d)) / np.sqrt(d)
    coef = rng.standard_normal(d)
    y = X @ (coef / np.linalg.norm(coef)) + rng.standard_normal(n)
    bound = _truncation(at)
    private = _private(
        "dp_linear_regression",
        X,
        y,
        at,
        rng,
        n_replicates,
        covariate_bound=1.0,
        response_bound=bound,
        residual_bound=bound,
        coef_bound=1e6,
        n_iterations=int(np.ceil(np.log(n))),
        step_size=3.0 * d,
    )
    return _squared_distance(private, estimate("ols", X, y, rng=rng).estimate) / (3 * d)


@dataclass(frozen=True, eq=False)
class SlopeExperiment:
    """Where the slopes of one estimator are taken."""

    measure: Measure
    term: Callable[[Setting], float]
    base: Setting
    grids: Mapping[str, Sequence[float]]

    def run(self, rng: np.random.Generator, n_replicates: int) -> tuple[Slope, ...]:
        """Measure and fit."""
        return slope_table(lambda at: self.measure(at, rng, n_replicates), self.term, self.base, self.grids)


# ε is small and δ far below 1/n², where √log(1/δ)/ε is near what a Gaussian release exactly needs: its own
# slope in ε, squared, is −1.92 at δ = 1e-9 (and −1.87 at 1e-6).
_SMALL_EPSILONS = (0.05, 0.1, 0.2, 0.4)

EXPERIMENTS: dict[str, SlopeExperiment] = {
    "dp_mean": SlopeExperiment(
        mean_privacy_term,
        mean_term,
        {"n": 8000, "d": 20, "epsilon": 0.2, "delta": 1e-9},
        {"n": (2000, 4000, 8000, 16000), "d": (10, 20, 40, 80), "epsilon": _SMALL_EPSILONS},
    ),
    "dp_sparse_mean": SlopeExperiment(
        sparse_mean_privacy_term,
        sparse_mean_term,
        {"n": 4000, "d": 1000, "s": 8, "epsilon": 0.4, "delta": 1e-9},
        {
            "n": (2000, 4000, 8000, 16000),
            "d": (250, 500, 1000, 2000),
            "s": (2, 4, 8, 16),
            "epsilon": (0.1, 0.2, 0.4),
        },
    ),
    "dp_linear_regression": SlopeExperiment(
        linear_regression_privacy_term,
        linear_regression_term,
        {"n": 20_000, "d": 10, "epsilon": 0.4, "delta": 1e-9},
        {"n": (10_000, 20_000, 40_000, 80_000), "d": (5, 10, 20, 40), "epsilon": (0.1, 0.2, 0.4)},
    ),
}


def _truncation(at: Setting) -> float:
    return float(4 * np.sqrt(np.log(at["n"])))


def _private(
    name: str,
    X: FloatArray,
    y: FloatArray | None,
    at: Setting,
    rng: np.random.Generator,
    n_replicates: int,
    **keywords: float,
) -> FloatArray:
    budget = {"epsilon": at["epsilon"], "delta": at["delta"], "calibration": "tight"}
    return estimate(name, X, y, rng=rng, replicates=n_replicates, **budget, **keywords).estimate


def _squared_distance(private: FloatArray, plain: FloatArray) -> FloatArray:
    return np.asarray(np.sum((private - plain[:, None]) ** 2, axis=0))
