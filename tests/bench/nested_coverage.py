"""How often intervals of nested models cover, how often tests reject, and how wide both are.

    python -m tests.bench.nested_coverage 200 gaussian

prints, for each shape of the columns and size: the coverage of the nested model's slopes and intercept, the
share of true hypotheses that tests at 5 % reject (of the nested model, of the whole one, and together), and
the width over that of a release of its own with the same ε.
"""

import sys
import warnings

import numpy as np
import statsmodels.api as sm

import dpalgos

BETA, KEPT, SIZES = (
    np.array([0.5, -0.4, 0.3, 0.0, 0.2]),
    [0, 1, 4],
    ((5_000, 1.0), (20_000, 1.0), (50_000, 3.0)),
)
SCALE = {"gaussian": 1.0, "logistic": 1.0, "poisson": 0.6}


def columns(shape, n, rng):
    """Four columns of a shape, and a constant."""
    share = {"normal": 0.0, "correlated": 0.6, "skewed": 0.4}.get(shape, 0.5)
    Z = rng.standard_normal((n, 4)) @ np.linalg.cholesky((1 - share) * np.eye(4) + share).T
    if shape == "skewed":
        Z = (np.exp(0.5 * Z) - np.exp(0.125)) / (np.exp(0.125) * np.sqrt(np.exp(0.25) - 1))
    if shape == "discrete":
        Z = np.stack([Z[:, 0] > 0, Z[:, 1] > 1.3, np.clip(np.round(Z[:, 2]), -2, 2), Z[:, 3] > 0.5], axis=1)
    if shape == "mixed":
        Z = np.stack([Z[:, 0], Z[:, 1] > 1.6, np.exp(0.7 * Z[:, 2]) - 1.28, Z[:, 3] ** 2 - 1], axis=1)
    return np.column_stack([Z, np.ones(n)])


def mean_of(family, eta):
    return eta if family == "gaussian" else 1 / (1 + np.exp(-eta)) if family == "logistic" else np.exp(eta)


def released(family, X, y, rng, epsilon):
    name = "preconditioned_regression" if family == "gaussian" else "preconditioned_glm"
    keywords = {} if family == "gaussian" else {"family": family}
    budget = {"epsilon": epsilon, "delta": 1e-6, "interval": 0.95}
    return dpalgos.estimate(name, X, y, rng=rng, intercept=True, **budget, **keywords)


def one_run(family, shape, n, epsilon, truth, rng):
    X, beta = columns(shape, n, rng), SCALE[family] * BETA
    mean = mean_of(family, X @ beta)
    draw = {
        "logistic": lambda: (rng.random(n) < mean).astype(float),
        "poisson": lambda: rng.poisson(mean).astype(float),
    }
    y = draw.get(family, lambda: mean + rng.standard_normal(n))()
    whole = released(family, X, y, rng, epsilon)
    nested = whole.submodel(["x0", "x1"])
    low, high = nested.coefficients().ends
    own = released(family, X[:, KEPT], y, rng, epsilon).interval
    p_values = [
        nested.t_test(f"x0 - x1 = {truth[0] - truth[1]:.12f}").pvalue[0],
        whole.t_test("x3 = 0").pvalue[0],
        whole.wald_test(f"x3 = 0, x2 = {beta[2]:.12f}").pvalue,
    ]
    covered = np.where(np.isnan(low), np.nan, (low <= truth) & (truth <= high))
    rejected = [np.nan if np.isnan(p) else p < 0.05 for p in p_values]
    return np.concatenate([covered, rejected, (high - low) / (own[1] - own[0])])


def truth_of(family, shape):
    X = columns(shape, 1_000_000, np.random.default_rng(11))
    of = {"gaussian": sm.families.Gaussian, "logistic": sm.families.Binomial, "poisson": sm.families.Poisson}
    mean = mean_of(family, X @ (SCALE[family] * BETA))
    return sm.GLM(mean, X[:, KEPT], family=of[family]()).fit().params


def main(runs, families):
    warnings.simplefilter("ignore")
    for family in families:
        for shape in ("normal", "correlated", "skewed", "discrete", "mixed"):
            truth = truth_of(family, shape)
            for n, epsilon in SIZES:
                found = [
                    one_run(family, shape, n, epsilon, truth, np.random.default_rng([r, 17]))
                    for r in range(runs)
                ]
                shares, widths = (
                    np.nanmean(found, axis=0)[:6].round(3),
                    np.nanmedian(found, axis=0)[6:].round(2),
                )
                print(
                    family, shape, n, epsilon, "covered", shares[:3], "rejected", shares[3:], "width", widths
                )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
