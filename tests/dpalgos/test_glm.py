"""Generalized linear models: against statsmodels, offsets too; printed noise; every family's gradients."""

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

import dpalgos
from dpalgos.accounting.composition import total_mu
from dpalgos.accounting.gaussian_dp import gaussian_epsilon
from dpalgos.central.dp_glm import DPGLM
from dpalgos.models.families import family_names, get_family
from dpalgos.models.families.gaussian import TruncatedGaussian
from dpalgos.rows.sample import Sample
from tests.builders import refused
from tests.dpalgos.silence import estimated, recorded


def problem(family, n=600, d=4, seed=0, scale=1.0):
    """Rows uniform on ±1, coefficients on a sphere."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    coef = rng.standard_normal((d, 3)) if family == "multinomial" else rng.standard_normal(d)
    coef *= scale / np.linalg.norm(coef)
    return X, responses(family, X @ coef, rng), coef


def responses(family, u, rng):
    draws = {
        "multinomial": lambda: np.argmax(u + rng.gumbel(size=u.shape), axis=1),
        "gaussian": lambda: u + rng.standard_normal(len(u)),
        "logistic": lambda: rng.random(len(u)) < 1 / (1 + np.exp(-u)),
        "poisson": lambda: rng.poisson(np.exp(u)),
    }
    return draws[family]().astype(float)


def answer(name, X, y, seed=0, **keywords):
    return estimated(name, X, y, seed=seed, **keywords).estimate


def classes(family):
    return {"n_classes": 3} if family == "multinomial" else {}


def test_every_family_equals_scikit_learn():
    exact = {"fit_intercept": False, "tol": 1e-10, "max_iter": 1000}
    labels = LogisticRegression(C=np.inf, solver="newton-cg", **exact)
    models = {"gaussian": LinearRegression(fit_intercept=False), "logistic": labels, "multinomial": labels}
    models["poisson"] = PoissonRegressor(alpha=0.0, **exact)
    for family, model in models.items():
        X, y, _ = problem(family, n=5000, d=20, scale=2.0)
        theirs = np.squeeze(model.fit(X, y).coef_.T)
        ours = answer("glm", X, y, family=family, **classes(family))
        assert np.abs(ours - theirs).max() <= 1e-5, family
        law = get_family(family, **classes(family))
        fitted, null = (law.deviance((X @ coef)[..., None], law.encode(y)).sum() for coef in (ours, 0 * ours))
        assert 0 < fitted < null


@pytest.mark.parametrize("nearly", [False, True])
def test_a_separable_problem_is_refused(nearly):
    X, _, coef = problem("logistic", n=300)
    y = (X @ coef > 0).astype(float)
    if nearly:  # quasi-complete separation: both labels on the separating plane itself
        X = np.vstack([X, np.zeros((2, 4))])
        y = np.append(y, [0.0, 1.0])
    refused(lambda: answer("glm", X, y, family="logistic"), dpalgos.InputError, "y must not be separated")


@pytest.mark.parametrize("family", ["gaussian", "logistic"])
def test_an_l1_penalty_balances_more_columns_than_it_starts_with_in_every_replicate(family):
    X, y, _ = problem(family, n=600, d=150, scale=2.0)
    mask = np.random.default_rng(2).random((600, 3)) < 0.7
    keywords = {"family": family, "l1_penalty": 0.005}
    batch = estimated("l1_glm", X, y, replicates=3, row_mask=mask, **keywords).estimate
    assert (np.count_nonzero(batch, axis=0) > 60).all()
    for r in range(3):
        rows = mask[:, r]
        fitted = X[rows] @ batch[:, r]
        mean = fitted if family == "gaussian" else 1 / (1 + np.exp(-fitted))
        pull, coef = X[rows].T @ (y[rows] - mean) / rows.sum(), batch[:, r]
        np.testing.assert_allclose(pull[coef != 0], 0.005 * np.sign(coef[coef != 0]), atol=1.01 * 5e-6)
        assert np.abs(pull).max() <= 0.005 * 1.00101
        np.testing.assert_allclose(answer("l1_glm", X[rows], y[rows], **keywords), coef, atol=1e-3)


def test_printed_noise():
    """Algorithm 1's standard deviation, and what it really proves (digest E3: about a fourteenth of ε)."""
    n, d, T, epsilon, delta = 40_000, 10, 50, 0.5, 1 / 80_000
    sigma_x, c1, R = 1.0, 1.0, 1.0
    printed = 4 * (R + c1) * sigma_x * np.sqrt(2 * d * np.log(2 * T / delta)) * T / (n * epsilon)
    asked = {"family": "logistic", "epsilon": epsilon, "delta": delta, "calibration": "paper"}
    params = DPGLM(**asked, covariate_bound=sigma_x * np.sqrt(d), n_iterations=T)
    assert params.printed_noise_std(np.array([n]), T) == pytest.approx(printed)
    X, y, _ = problem("logistic")
    result = estimated("dp_glm", X, y, **asked, covariate_bound=1.0, n_iterations=T)
    assert result.certified_epsilon == pytest.approx(gaussian_epsilon(delta, total_mu(result.events)))
    assert result.certified_epsilon < epsilon / 50


RESPONSES = {
    "gaussian": np.array([-3.0, 0.0, 1.5]),
    "logistic": np.array([0.0, 1.0, 1.0]),
    "poisson": np.array([0.0, 2.0, 30.0]),
    "multinomial": np.array([0.0, 1.0, 2.0]),
}


def made(name):
    bounds = {"gaussian": {"response_bound": 2.0}, "poisson": {"response_bound": 4.0}}
    return get_family(name, **bounds.get(name, classes(name)))


@pytest.mark.parametrize("name", [*family_names(), "truncated"])
def test_the_radius_covers_all_pairs_of_gradients(name):
    """Global search over pairs of rows and responses; the logistic one must also be reached."""
    family = TruncatedGaussian(level=2.0, largest=2.0) if name == "truncated" else made(name)
    rng = np.random.default_rng(1)
    labels = {"gaussian": [-1e3, 1e3], "logistic": [0.0, 1.0], "poisson": [0.0, 1.0, 1e3]}
    labels["truncated"] = [-2.0, 2.0]
    y = family.encode(np.array(labels.get(name, [0.0, 1.0, 2.0])))
    for b in (0.0, 0.5, 2.0, 20.0, 500.0):
        coef = rng.standard_normal((2, *family.classes, 1))
        coef *= b / max(float(family.predictor_norm(coef, 2)[0]), 1e-300)
        angle = np.linspace(-np.pi, np.pi, 721)
        rows = np.column_stack([np.cos(angle), np.sin(angle)])
        u = np.einsum("nd,d...->n...", rows, coef)
        residuals = np.concatenate([family.residual(u, y[[k]]) for k in range(len(y))])
        gradients = np.einsum("nd,n...->nd...", np.tile(rows, (len(y), 1)), residuals)
        gradients = gradients.reshape(len(residuals), -1)
        squares = (gradients**2).sum(axis=1)
        apart = squares[:, None] + squares[None] - 2 * gradients @ gradients.T
        radius = np.sqrt(apart.max()) / 2
        bound = float(family.gradient_radius(float(family.predictor_norm(coef, 2)[0])))
        assert radius <= bound * (1 + 1e-9)
        if name != "multinomial" or b == 0:
            assert radius >= 0.999 * bound


ALLOWED = {"logistic": "0 or 1", "poisson": "whole numbers of at least 0", "multinomial": "classes 0, 1, …"}
OUTSIDE = [("logistic", -1.0), ("logistic", 0.5), ("poisson", -1.0), ("poisson", 1.5)]


@pytest.mark.parametrize(("name", "bad"), [*OUTSIDE, ("multinomial", 3.0), ("multinomial", -7.25)])
def test_labels_outside_the_family_are_refused_and_not_shown(name, bad):
    y = np.where([False, True, False], bad, RESPONSES[name])
    refused(lambda: made(name).encode(y), dpalgos.InputError, f"y must hold {ALLOWED[name]}", hidden=(bad,))


def test_intervals_without_privacy_are_those_of_statsmodels():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-2, 1, 500), rng.standard_normal((500, 2)), np.ones(500)])
    y = rng.poisson(np.exp(X @ [1, 0.4, -0.3, 0.2])).astype(float)
    model = sm.GLM(y, X[:, 1:], family=sm.families.Poisson(), offset=X[:, 0]).fit(cov_type="HC0")
    asked = {"family": "poisson", "offset_bounds": (-2, 1), "interval": 0.95, "rng": rng}
    ours = dpalgos.estimate("glm", X, y, **asked)
    np.testing.assert_allclose(ours.conf_int(), [[1, 1], *model.conf_int()], atol=1e-6)


@pytest.mark.parametrize(
    ("stated", "truncated_at"),
    [({}, 1.0), ({"covariate_second_moment": 0.48}, 0.6), ({"screening_bound": 7.0}, 2.0)],
)
def test_entries_are_truncated_for_the_selection_within_the_public_bound(stated, truncated_at):
    rng = np.random.default_rng(12)
    X = rng.choice([-8.0, 8.0], (300, 3))  # each entry is beyond its bound
    keywords = {"family": "gaussian", "covariate_bound": 2.0, "response_bound": 5.0, "sparsity": 1, **stated}
    made, _ = recorded("screened_sparse_glm", Sample(X, np.sign(X[:, 0])), keywords)
    assert np.abs(made.values[0][0]) == pytest.approx(truncated_at, rel=1e-6)
