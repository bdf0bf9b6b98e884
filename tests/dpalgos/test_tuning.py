"""How many entries to keep and where to truncate: what printed rules give away, and what sound ones cost."""

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.composition import budget_shares
from dpalgos.accounting.events import UnprotectedEvent
from dpalgos.api import build_params
from dpalgos.audit.lower_bound import audit_estimator
from dpalgos.central.dp_sparse_linear_regression import _fitted
from dpalgos.hardened_release import draw_release, rehearse_release
from dpalgos.release.noise_source import Noise
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.tuning import sparsity, truncation
from dpalgos.tuning.quantiles import exponential_quantiles
from tests.builders import refused
from tests.dpalgos.silence import estimated

BUDGET = {"epsilon": 0.5, "delta": 1e-4}
MEAN = {"value_bound": 4.0}
REGRESSION = {"covariate_bound": 1.0, "response_bound": 3.0, "coef_bound": 1.0}
DENSE = {"dp_mean": MEAN, "dp_linear_regression": REGRESSION}
SPARSE = {
    "dp_sparse_mean": {**MEAN, "sparsity": 16},
    "dp_sparse_linear_regression": {**REGRESSION, "sparsity": 16, "n_iterations": 5},
}
BOUNDS = {**DENSE, **SPARSE}
each_sparse = pytest.mark.parametrize("name", SPARSE)


def rows_of(name, n=300, d=20):
    """Four entries other than zero, all of a size."""
    rng, truth = np.random.default_rng(0), np.where(np.arange(d) < 4, 0.5, 0.0)
    if "mean" in name:
        return rng.standard_normal((n, d)) + 4 * truth, None
    X = rng.uniform(-1, 1, (n, d))
    return X, X @ truth + 0.3 * rng.standard_normal(n)


def tuned(name, **keywords):
    return estimated(name, *rows_of(name), seed=1, **BUDGET, **BOUNDS[name], **keywords)


def printed_scores(record_response, n=100):
    """CV of one and of two coefficients as printed, where one row decides which column comes first."""
    settings = {"n_iterations": 60, "sparsity_choice": "printed_cross_validation", "sparsity": 2}
    bounds = {"covariate_bound": 1.0, "response_bound": 1e4, "coef_bound": 1e6}
    estimator = dpalgos.get_estimator("dp_sparse_linear_regression")
    params = build_params(estimator, {**BUDGET, "calibration": "paper", **bounds, **settings})
    X, y = np.tile([1.0, 0.0], (n, 1)), np.full(n, 10.0)
    X[0], y[0] = [0.0, 1.0], record_response
    loss = sparsity.ResponseLoss(1e4, 4.5)
    return sparsity.fold_losses(Sample(X, y), lambda rows: _fitted(rows, params), loss)[:, 0] / n / 4.5


def test_one_row_moves_the_printed_score_by_81_percent_of_tau():
    """The printed sensitivity is τ/n (digest E8)."""
    moved = np.abs(printed_scores(1e4) - printed_scores(0.0))
    assert moved[0] == pytest.approx(0.81, abs=1e-6)
    assert moved.max() <= 0.81 + 1e-6


UNPAID = [(name, {"truncation": "none"}) for name in BOUNDS]
UNPAID += [(name, {"sparsity_choice": "printed_cross_validation"}) for name in SPARSE]


@pytest.mark.parametrize(("name", "keywords"), UNPAID)
def test_what_nothing_can_pay_for_proves_nothing_and_is_refused_for_a_proof(name, keywords):
    result = tuned(name, calibration="paper", **keywords)
    assert result.certified_epsilon == np.inf
    assert any(isinstance(event, UnprotectedEvent) for event in result.events)
    (argument,), asked = keywords, {**BUDGET, **BOUNDS[name], **keywords}
    for use in (lambda: tuned(name, **keywords), lambda: rehearse_release(name, 100, 20, asked)):
        refused(use, dpalgos.InputError, f"{argument} must")


@pytest.mark.parametrize("name", DENSE)
def test_an_audit_sees_that_no_truncation_is_not_private(name):
    options = {**BUDGET, **BOUNDS[name], "truncation": "none", "calibration": "paper"}
    found = audit_estimator(name, n_trials=2000, rng=np.random.default_rng(0), **options)
    assert found.epsilon_lower_bound > 4 * BUDGET["epsilon"]


PAID = [  # estimator, keywords, the label of what is paid for, and its share
    (name, {"sparsity_choice": choice, "sparsity_share": share}, sparsity.LABEL, share / part)
    for name in SPARSE
    for choice, part in (("holdout", 1), ("cross_validation", 5))
    for share in (0.1, 0.4)
]
for name, share in zip(BOUNDS, (truncation.COLUMNS_SHARE, truncation.RESPONSE_SHARE) * 2, strict=True):
    PAID.append((name, {"truncation": "private_quantiles"}, truncation.LABEL, share))


@pytest.mark.parametrize(("name", "keywords", "label", "share"), PAID)
def test_a_choice_is_paid_for_and_the_whole_stays_within_the_budget(name, keywords, label, share):
    result = tuned(name, **keywords)
    assert 0.99 * BUDGET["epsilon"] <= result.certified_epsilon <= BUDGET["epsilon"]
    assert budget_shares(result.events, BUDGET["delta"])[label] == pytest.approx(share, rel=0.25)


@each_sparse
def test_the_noise_level_costs_nothing(name):
    plain, pruned = tuned(name), tuned(name, sparsity_choice="noise_level")
    assert pruned.certified_epsilon == plain.certified_epsilon
    survivors = pruned.estimate != 0
    assert survivors.sum() < (plain.estimate != 0).sum()
    np.testing.assert_array_equal(np.sign(pruned.estimate[survivors]), np.sign(plain.estimate[survivors]))


def test_noise_alone_is_not_taken_for_a_signal():
    rng, name = np.random.default_rng(0), "dp_sparse_linear_regression"
    X, y = rng.uniform(-1, 1, (500, 100)), rng.standard_normal(500)
    options = {**BUDGET, **SPARSE[name], "sparsity_choice": "noise_level"}
    answers = dpalgos.estimate(name, X, y, rng=rng, replicates=100, **options).estimate
    assert (answers != 0).any(axis=0).mean() < 0.4  # .1 by design for s values, more for the largest of 100


@pytest.mark.parametrize("n", [1, 2, 4, 5, 23, 100])
def test_every_row_is_tested_once_and_folds_are_even_those_of_a_mask_too(n):
    folds = [sparsity.fold(Sample(np.arange(float(n))[:, None]), k) for k in range(sparsity.N_FOLDS)]
    np.testing.assert_array_equal(np.concatenate([part.X[:, 0] for part in folds]), np.arange(n))
    assert np.ptp([len(part.X) for part in folds]) <= 1
    X, used = np.arange(2.0 * n)[:, None], np.arange(2 * n) % 2 == 0
    masked = Sample(X, row_mask=used[:, None], n_replicates=1)
    for k, part in enumerate(folds):
        assert n == 1 or not set(part.X[:, 0]) & set(part.train.X[:, 0])
        assert part.train.n_rows[0] == max(n - len(part.X), 1)
        own = sparsity.fold(masked, k)
        np.testing.assert_array_equal(own.X[own.weights[:, 0] > 0], 2 * part.X)
        np.testing.assert_array_equal(X[own.train.row_mask[:, 0]], 2 * part.train.X)


@each_sparse
@pytest.mark.parametrize("choice", ["noise_level", "holdout", "cross_validation"])
def test_a_tuned_answer_can_be_released(name, choice):
    X, y = rows_of(name, n=200)
    plan = rehearse_release(name, 200, 20, {**BUDGET, **BOUNDS[name], "sparsity_choice": choice})
    assert plan.cost.epsilon(BUDGET["delta"]) <= BUDGET["epsilon"]
    assert (draw_release(plan, Sample(X, y)).estimate != 0).sum() <= 16


def test_replicates_ask_about_columns_of_their_own():
    X = np.random.default_rng(0).standard_normal((400, 5)) + 10 * np.arange(5)
    columns = np.array([[4, 0, 2], [1, 3, 0]])
    options = {"levels": (0.5,), "lower": -60, "upper": 60, "epsilon": 20.0, "label": "quantiles"}
    transcript = Transcript(Noise(np.random.default_rng(1).spawn(3)))
    medians = exponential_quantiles(transcript, X, columns=columns, **options)[:, 0]
    np.testing.assert_allclose(medians, 10 * columns, atol=0.5)
    assert transcript.events[0].count == 2
    for r, rng in enumerate(np.random.default_rng(1).spawn(3)):
        single = exponential_quantiles(Transcript(Noise([rng])), X, columns=columns[:, [r]], **options)
        np.testing.assert_array_equal(medians[:, [r]], single[:, 0])


def test_reversed_and_equal_quantiles_become_an_interval_of_a_public_width():
    quantiles = np.array([[[1.0], [-2.0]], [[3.0], [3.0]], [[4.0], [4.0]]])
    lower, upper = truncation.truncation_interval(quantiles, 4.0)
    assert (lower < upper).all()
    assert (np.abs([lower, upper]) <= 4.0).all()
    assert (lower[0, 0], upper[0, 0]) == (-2.0, 1.0)
