"""The mean along public axes: what public rows decide, and when the answer is worth its noise."""

import numpy as np
import pytest

import dpalgos
from dpalgos.central.public_axes_mean import PublicAxes

D, GROUPS = 300, 6
RNG = np.random.default_rng(0)
AXES = np.linalg.qr(RNG.standard_normal((D, 3)))[0].T
SPREADS = np.array([4.0, 3.0, 2.0])  # of centers along the axes
CENTERS = RNG.standard_normal((GROUPS, 3)) * SPREADS @ AXES
LABELS = np.repeat(np.arange(GROUPS), 40)
BUDGET = {"epsilon": 0.5, "delta": 1e-4}


def people(center, n, rng):
    return center + rng.standard_normal((n, D))


PUBLIC = np.concatenate([people(center, 40, RNG) for center in CENTERS])
GROUPED = {"public_X": PUBLIC, "public_groups": LABELS}


def mean_error(n, name="public_axes_mean", **keywords):
    rng, errors = np.random.default_rng(n), []
    for seed in range(60):
        center = rng.standard_normal(3) * SPREADS @ AXES  # of the same law as the public ones
        X = people(center, n, rng)
        answer = dpalgos.estimate(name, X, rng=np.random.default_rng(seed), **BUDGET, **keywords)
        errors.append(np.linalg.norm(answer.estimate - center))
    return np.mean(errors)


def test_it_is_better_than_dense_and_sparse_means():
    dense = mean_error(150, "clipped_mean", center=0.0, clip_norm=25.0, shrinkage="james_stein")
    sparse = mean_error(150, "dp_sparse_mean", value_bound=3.0, sparsity=10)
    assert mean_error(150, **GROUPED) < 0.8 * min(dense, sparse)


@pytest.mark.parametrize("groups", [None, LABELS])
def test_answers_lie_along_the_axes(groups):
    axes = PublicAxes(PUBLIC, groups).spectrum.vectors
    X = people(CENTERS[2], 100, np.random.default_rng(3))
    keywords = {**BUDGET, "public_X": PUBLIC, "public_groups": groups}
    answer = dpalgos.estimate("public_axes_mean", X, rng=np.random.default_rng(4), **keywords).estimate
    offset = answer - PUBLIC.mean(axis=0)
    np.testing.assert_allclose(axes.T @ (axes @ offset), offset, atol=1e-9)
