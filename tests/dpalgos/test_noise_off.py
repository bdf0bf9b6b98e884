"""Estimators with their noise switched off: what they lose by other means than noise; never private."""

import math

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.composition import certified_epsilon
from dpalgos.noise_off import estimate_without_noise
from dpalgos.rows.sample import Sample
from tests.contract.forms import IDS, PRIVATE, keywords, response, whose
from tests.contract.test_estimators import problem


def silent_run(estimator, calibration, seed, replicates=1):
    X, y = problem()
    sample = Sample(X, response(estimator, y), n_replicates=replicates, user_ids=whose(estimator, len(X)))
    return estimate_without_noise(
        estimator.name,
        sample,
        rng=np.random.default_rng(seed),
        replicates=replicates,
        **keywords(estimator, calibration),
    )


@pytest.mark.parametrize(("estimator", "calibration"), PRIVATE, **IDS)
def test_without_noise_nothing_is_random_but_sketches_and_nothing_is_certified(estimator, calibration):
    one, other = (silent_run(estimator, calibration, seed) for seed in (1, 2))
    assert np.isfinite(one.estimate).all()
    assert one.certified_epsilon == math.inf == certified_epsilon(one.events, 1e-5)
    drawn = estimator.name in ("sheffet_ols", "hessian_mixing")
    assert np.array_equal(one.estimate, other.estimate) != drawn
    assert silent_run(estimator, calibration, 1, replicates=2).estimate.shape == (*one.estimate.shape, 2)


def test_without_noise_descent_reaches_least_squares_and_few_steps_do_not():
    X, y = problem(spread=0.0)
    bounds = {"epsilon": 0.1, "delta": 1e-6, "covariate_bound": 2.0, "response_bound": 5.0, "coef_bound": 5.0}

    def error(n_iterations):
        sample, steps = Sample(X, y), {"n_iterations": n_iterations, "step_size": 1.0}
        rng = np.random.default_rng(0)
        result = estimate_without_noise("dp_linear_regression", sample, rng=rng, **bounds, **steps)
        return np.linalg.norm(result.estimate - np.linalg.lstsq(X, y, rcond=None)[0])

    assert error(2) > 0.3
    assert error(200) < 1e-6


def test_only_private_estimators_have_noise_to_switch_off():
    with pytest.raises(dpalgos.InputError, match="name"):
        estimate_without_noise("ols", Sample(*problem()), rng=np.random.default_rng(0))
