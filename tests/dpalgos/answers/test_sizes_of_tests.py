"""Tests of true hypotheses at 5% reject in about one of twenty releases: neither more nor far fewer."""

import numpy as np
import pytest

import dpalgos
from tests.dpalgos.test_glm import responses

N_TABLES, N_ROWS = 500, 8000
COEF = np.array([0.4, -0.3, 0.2, 0.0, 0.2])
SLOPES = np.eye(5)[:4]


def rejections(family):
    """Return whether t tests of slopes, and a joint test, reject in one release per table, (N_TABLES, 5)."""
    found = []
    for rng in np.random.default_rng(17).spawn(N_TABLES):
        Z = rng.standard_normal((N_ROWS, 4))
        Z[:, 0] = rng.random(N_ROWS) < 0.3
        Z[:, 1] += 0.6 * Z[:, 2]
        X = np.column_stack([Z, np.ones(N_ROWS)])
        asked = {"family": family, "intercept": True, "interval": 0.95, "epsilon": 3.0, "delta": 1e-6}
        y = responses(family, X @ COEF, rng)
        model = dpalgos.estimate("preconditioned_glm", X, y, rng=rng, **asked).model
        hypotheses = SLOPES, COEF[:4]
        pvalues = np.append(model.t_test(hypotheses).pvalue, model.wald_test(hypotheses).pvalue)
        found.append(np.where(np.isnan(pvalues), np.nan, pvalues < 0.05))
    return np.array(found)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("family", ["gaussian", "logistic", "poisson"])
def test_sizes_are_near_their_level(family):
    """3 to 7%, with two binomial standard errors; variances that are 0.7 or 1.5 times as large fail."""
    rejected = rejections(family)
    assert np.isnan(rejected).mean() < 0.05
    for tests in (rejected[:, :4], rejected[:, 4]):
        bounds = np.array([0.03, 0.07])
        low, high = bounds + [-2, 2] * np.sqrt(bounds * (1 - bounds) / np.isfinite(tests).sum())
        assert low < np.nanmean(tests) < high
