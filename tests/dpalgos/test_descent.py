"""Steps by forecast: the recursion agrees with runs, and the rule is near the best number of steps."""

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.events import Relation
from dpalgos.api import build_params, run_estimator
from dpalgos.core.spend import Spend
from dpalgos.release.noise_source import Noise
from dpalgos.rows.sample import Sample
from dpalgos.tuning.descent import STEPS, Course, SyntheticTable, choose_steps, forecast_errors

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
LINEAR = {"covariate_bound": 3.0, "response_bound": 3.0, "coef_bound": 2.0}
LOGISTIC = {"family": "logistic", "covariate_bound": 3.0}
FORMS = [
    ("dp_linear_regression", LINEAR),
    ("dp_linear_regression", {**LINEAR, "residual_bound": 1.5}),
    ("dp_linear_regression", {**LINEAR, "calibration": "paper"}),
    ("dp_glm", LOGISTIC),
    ("clipped_gradient_descent", {"clip_norm": 4.0}),
]


def table(n, seed, *, logistic):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) @ np.diag([1.0, 0.8, 0.5, 0.4])
    coef = np.array([0.4, -0.3, 0.5, 0.6])
    noise = rng.logistic(size=n) if logistic else 0.7 * rng.normal(size=n)
    y = X @ coef + noise
    return SyntheticTable(X, (y > 0).astype(float) if logistic else y, np.eye(4), coef)


def mean_error(name, keywords, n_iterations, step_size, data):
    settings = {**keywords, "n_iterations": n_iterations, "step_size": step_size}
    rng = np.random.default_rng(1)
    result = dpalgos.estimate(name, data.X, data.y, rng=rng, replicates=60, **settings)
    return np.linalg.norm(result.estimate - data.target[:, None], axis=0).mean()


@pytest.mark.parametrize(("name", "keywords"), FORMS)
def test_forecast_errors_are_those_of_runs_and_the_rule_is_near_the_best(name, keywords):
    data = table(4000, 0, logistic=name == "dp_glm")
    keywords = {**BUDGET, **keywords}
    descent = build_params(dpalgos.get_estimator(name), keywords)
    course = Course.of(data, descent.clipped_loss(data.X, data.y))
    (chosen,) = choose_steps([(descent, len(data.X))], [course])
    assert chosen.n_iterations in STEPS
    measured = [mean_error(name, keywords, T, chosen.step_size, data) for T in STEPS]
    steps, size = np.array(STEPS, dtype=float), np.full(len(STEPS), chosen.step_size)
    (forecast,) = forecast_errors(descent, [course], steps, size, descent.noise_scale(steps, len(data.X)))
    usual = np.array(measured) < 1.0  # beyond, iterates diverge or lie on the ball
    np.testing.assert_allclose(np.log(forecast / measured)[usual], 0, atol=0.35)
    assert measured[STEPS.index(chosen.n_iterations)] < 1.15 * min(measured)


@pytest.mark.parametrize(("name", "keywords"), [*FORMS, ("dp_sgd_glm", {**LOGISTIC, "batches": "in_turn"})])
def test_the_forecast_uses_the_noise_that_the_estimator_adds(name, keywords):
    data, entry = table(50, 0, logistic="glm" in name), dpalgos.get_estimator(name)
    descent = build_params(entry, {**BUDGET, **keywords})
    stds = []

    class Watching(Spend):
        def _publish(self, value, draw):
            stds.append(float(np.ravel(self.record.events[-1].noise_scale)[0]))
            return super()._publish(value, draw)

    sample = Sample(data.X, data.y)
    run_estimator(entry, sample, descent, Watching(Noise([np.random.default_rng(0)]), Relation.CENTRAL))
    steps = np.array([float(getattr(descent, "n_iterations", 50))])
    expected = descent.noise_scale(steps, 50) * descent.gradient_radius(np.zeros(1))
    assert stds[0] == pytest.approx(expected[0])


def test_more_budget_takes_more_steps():
    entry, data = dpalgos.get_estimator("dp_glm"), table(4000, 1, logistic=True)
    descents = [build_params(entry, {**BUDGET, **LOGISTIC, "epsilon": each}) for each in (0.05, 0.3, 5.0)]
    course = Course.of(data, descents[0].clipped_loss(data.X, data.y))
    steps = [each.n_iterations for each in choose_steps([(each, 4000) for each in descents], [course])]
    assert steps == sorted(steps)
    assert steps[0] < steps[-1]
