"""Means: those of paper A, section 5, dense or sparse; and means whose rows have a stated shape."""

import numpy as np

from data.simulations import Shape, Simulated, centered_noise

MODELS = ("gaussian_mean", "shaped_mean")


def gaussian_mean(
    rng: np.random.Generator,
    n: int,
    d: int,
    *,
    sparsity: int | None = None,
    spread: float = 10.0,
    noise: Shape = "gaussian",
) -> Simulated:
    """Draw a mean μ and rows x_i ~ N(μ, I), or with skewed exponential noise, as in paper A, section 5.

    The first ``sparsity`` coordinates of the mean are uniform on ±``spread``, the others zero; all are
    uniform if it is omitted.
    """
    mean = np.zeros(d)
    support = d if sparsity is None else min(sparsity, d)
    mean[:support] = rng.uniform(-spread, spread, support)
    X = centered_noise(rng, noise, (n, d))
    X += mean
    return Simulated(X=X, y=None, truth=mean)


def shaped_mean(rng: np.random.Generator, n: int, d: int, *, rows: Shape = "gaussian") -> Simulated:
    """Draw rows of independent entries of standard deviation 1 around means spread evenly over ±½."""
    truth = np.linspace(-0.5, 0.5, d)
    return Simulated(X=truth + centered_noise(rng, rows, (n, d)), y=None, truth=truth)
