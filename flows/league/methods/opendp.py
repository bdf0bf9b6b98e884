"""OpenDP: least squares from noisy sums of products; its Theil-Sen regression, which takes one covariate."""

import numpy as np
import opendp.prelude as dp

REQUIRES = ("opendp==0.16.0", "scikit-learn==1.7.2", "polars==1.32.0")
FAMILIES = {"OpenDP sums": ["linear"], "OpenDP Theil-Sen": ["linear"]}
dp.enable_features("contrib", "idealized-numerics")


def sums(table, epsilon, delta, seed):
    """Solve the normal equations of clamped products, each a Gaussian sum with an equal share of ρ."""
    names = range(table.X.shape[1])
    Z = [*(table.X[:, j] for j in names), np.ones(len(table.X)), table.y]
    lower, upper = [*table.lower, 1.0, table.y_lower], [*table.upper, 1.0, table.y_upper]
    pairs = [(i, j) for i in range(len(Z)) for j in range(i, len(Z)) if j + 1 < len(Z) or i + 1 < len(Z)]
    pairs.remove((len(Z) - 2, len(Z) - 2))  # the number of rows is public
    rho = _rho(epsilon, delta) / len(pairs)
    moments = np.full((len(Z), len(Z)), float(len(table.X)))
    for i, j in pairs:
        ends = [a * b for a in (lower[i], upper[i]) for b in (lower[j], upper[j])]
        low = 0.0 if i == j and lower[i] < 0 < upper[i] else min(ends)
        moments[i, j] = moments[j, i] = _sum(Z[i] * Z[j], (low, max(ends)), rho)
    return np.linalg.lstsq(moments[:-1, :-1], moments[:-1, -1], rcond=None)[0]


def _sum(values, bounds, rho):
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(values))
    clamped = (domain, dp.symmetric_distance()) >> dp.t.then_clamp(bounds) >> dp.t.then_sum()
    scale = clamped.map(2) / np.sqrt(2 * rho)
    return (clamped >> dp.m.then_gaussian(scale))(values.tolist())


def _rho(epsilon, delta):
    return (np.sqrt(np.log(1 / delta) + epsilon) - np.sqrt(np.log(1 / delta))) ** 2


def theil_sen(table, epsilon, delta, seed):
    if table.X.shape[1] != 1:
        raise ValueError("it takes one covariate")
    ends = [(float(table.lower[0]), float(table.upper[0]))]

    def made(scale):
        return dp.sklearn.linear_model.LinearRegression(
            dp.max_divergence(), x_bounds=ends, y_bounds=(table.y_lower, table.y_upper), scale=scale
        )

    scale = dp.binary_search(lambda s: made(s).measurement.map(2) <= epsilon, bounds=(1e-3, 1e6))
    model = made(scale).fit(table.X, table.y)
    return np.append(model.coef_, model.intercept_)


METHODS = dict(zip(FAMILIES, (sums, theil_sen), strict=True))
