# /// script
# dependencies = ["opendp==0.16.0", "scikit-learn==1.7.2", "polars==1.32.0"]
# ///
"""OpenDP: means and least squares from noisy sums; its Theil-Sen regression, which takes one covariate."""

import numpy as np
import opendp.prelude as dp

FAMILIES = {"OpenDP sums": ["linear", "means"], "OpenDP Theil-Sen": ["linear"]}
dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")


def sums(table, epsilon, delta, seed):
    """Sum clamped products, with Gaussian noise and equal shares of ρ, by OpenDP's conversion of ρ."""
    products = table.products()
    rho = dp.binary_search(lambda rho: _epsilon(rho, delta) <= epsilon, bounds=(1e-9, 1e3))
    multiplier = np.sqrt(len(products) / (2 * rho))
    table.shows(multiplier, times=len(products))
    return table.solved([_sum(*each, multiplier) for each in products])


def _epsilon(rho, delta):
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    noise = dp.m.make_gaussian(*space, scale=float(np.sqrt(1 / (2 * rho))))
    return dp.c.make_zCDP_to_approxDP(noise).map(1.0).epsilon(delta)


def _sum(values, low, high, multiplier):
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(values))
    clamped = (domain, dp.symmetric_distance()) >> dp.t.then_clamp((low, high)) >> dp.t.then_sum()
    return (clamped >> dp.m.then_gaussian(clamped.map(2) * multiplier))(values.tolist())


def theil_sen(table, epsilon, delta, seed):
    if table.X.shape[1] != 1:
        raise ValueError("it takes one covariate")
    ends = [(float(table.lower[0]), float(table.upper[0]))]

    def model_of(scale):
        return dp.sklearn.linear_model.LinearRegression(
            dp.max_divergence(), x_bounds=ends, y_bounds=(table.y_lower, table.y_upper), scale=scale
        )

    scale = dp.binary_search(lambda s: model_of(s).measurement.map(2) <= epsilon, bounds=(1e-3, 1e6))
    model = model_of(scale).fit(table.X, table.y)
    return np.append(model.coef_, model.intercept_)


METHODS = dict(zip(FAMILIES, (sums, theil_sen), strict=True))
