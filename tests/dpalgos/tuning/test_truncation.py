"""Where to truncate: quantiles that are paid for, and no truncation, which nothing can pay for."""

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.composition import budget_shares
from dpalgos.accounting.events import UnprotectedEvent
from dpalgos.audit.lower_bound import audit_estimator
from dpalgos.hardened_release import rehearse_release
from dpalgos.release.noise_source import Noise
from dpalgos.release.transcript import Transcript
from dpalgos.tuning.quantiles import exponential_quantiles
from dpalgos.tuning.truncation import COLUMNS_SHARE, LABEL, RESPONSE_SHARE, truncation_interval

BUDGET = {"epsilon": 0.5, "delta": 1e-4}
REGRESSION = {"covariate_bound": 2.0, "response_bound": 3.0, "coef_bound": 2.0}
BOUNDS = {
    "dp_mean": {"value_bound": 4.0},
    "dp_sparse_mean": {"value_bound": 4.0, "sparsity": 2},
    "dp_linear_regression": REGRESSION,
    "dp_sparse_linear_regression": {**REGRESSION, "sparsity": 2},
}
every = pytest.mark.parametrize("name", BOUNDS)


def estimate(name, seed=0, n=200, **keywords):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = None if "mean" in name else X[:, 0] + rng.standard_normal(n)
    return dpalgos.estimate(name, X, y, rng=rng, **{**BUDGET, **BOUNDS[name], **keywords})


@every
def test_no_truncation_proves_nothing(name):
    result = estimate(name, truncation="none", calibration="paper")
    assert result.certified_epsilon == np.inf
    assert any(isinstance(event, UnprotectedEvent) for event in result.events)


@every
def test_no_truncation_is_refused_where_something_is_to_be_proved(name):
    with pytest.raises(dpalgos.InputError, match=r"truncation must .*got 'none'"):
        estimate(name, truncation="none")
    with pytest.raises(dpalgos.InputError, match="truncation must be"):
        rehearse_release(name, 100, 3, {**BUDGET, **BOUNDS[name], "truncation": "none"})


@pytest.mark.parametrize("name", ["dp_mean", "dp_linear_regression"])
def test_an_audit_sees_that_no_truncation_is_not_private(name):
    options = {**BUDGET, **BOUNDS[name], "truncation": "none", "calibration": "paper"}
    found = audit_estimator(name, n_trials=2000, rng=np.random.default_rng(0), **options)
    assert found.epsilon_lower_bound > 4 * BUDGET["epsilon"]


@every
def test_quantiles_get_their_share_and_the_whole_stays_within_the_budget(name):
    result = estimate(name, truncation="private_quantiles")
    share = RESPONSE_SHARE if "regression" in name else COLUMNS_SHARE
    assert 0.99 * BUDGET["epsilon"] <= result.certified_epsilon <= BUDGET["epsilon"]
    assert budget_shares(result.events, BUDGET["delta"])[LABEL] == pytest.approx(share, rel=0.25)


def test_replicates_ask_about_columns_of_their_own():
    X = np.random.default_rng(0).standard_normal((400, 5)) + 10 * np.arange(5)
    columns = np.array([[4, 0, 2], [1, 3, 0]])
    options = {"levels": (0.5,), "lower": -60, "upper": 60, "epsilon": 20.0, "label": LABEL}
    transcript = Transcript(Noise(np.random.default_rng(1).spawn(3)))
    medians = exponential_quantiles(transcript, X, columns=columns, **options)[:, 0]
    np.testing.assert_allclose(medians, 10 * columns, atol=0.5)
    assert transcript.events[0].count == 2
    for r, rng in enumerate(np.random.default_rng(1).spawn(3)):
        single = exponential_quantiles(Transcript(Noise([rng])), X, columns=columns[:, [r]], **options)
        np.testing.assert_array_equal(medians[:, [r]], single[:, 0])


def test_reversed_and_equal_quantiles_become_an_interval_of_a_public_width():
    lower, upper = truncation_interval(np.array([[[1.0], [-2.0]], [[3.0], [3.0]], [[4.0], [4.0]]]), 4.0)
    assert (lower < upper).all()
    assert (np.abs([lower, upper]) <= 4.0).all()
    assert (lower[0, 0], upper[0, 0]) == (-2.0, 1.0)
