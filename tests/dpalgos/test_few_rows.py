"""With few rows, a regression predicts as well as the private constant, up to 5% of its excess error."""

import numpy as np
import pytest

from dpalgos.sklearn import DPLinearRegression

N, D, EPSILON, WIDTH, SEEDS = 1300, 14, 0.3, 30.0, 12


def excess(seed):
    """Return the error of slopes about the regression function, over its variance."""
    rng = np.random.default_rng([3, seed])
    X = (rng.random((N, D)) < np.linspace(0.05, 0.4, D)).astype(float)
    signal = X @ rng.standard_normal(D)
    signal = 0.5 * (signal - signal.mean()) / signal.std()
    y = 10 + signal + np.sqrt(0.75) * rng.standard_normal(N)
    settings = {"bounds": ([0] * D, [1] * D), "y_bounds": (0, WIDTH), "random_state": seed}
    model = DPLinearRegression(epsilon=EPSILON, delta=N**-2.0, **settings).fit(X, y)
    return ((model.predict(X) - 10 - signal) ** 2).mean() / signal.var()


@pytest.mark.slow
def test_slopes_of_few_rows_are_not_worse_than_the_constant():
    constant = 1 + 2 * (WIDTH / (N * EPSILON)) ** 2 / 0.25
    assert np.mean([excess(seed) for seed in range(SEEDS)]) < 1.05 * constant
