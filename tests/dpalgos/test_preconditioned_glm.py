"""preconditioned_glm in every family: what is charged, what it finds, and what heavy rows can do to it."""

import numpy as np
import pytest
import statsmodels.api as sm

import dpalgos
from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.events import PureEvent
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.api import build_params, run_estimator
from dpalgos.audit.trials import RecordingTranscript
from dpalgos.mechanisms.preconditioned.column_counts import MEDIANS
from dpalgos.mechanisms.preconditioned.origin import private_columns
from dpalgos.models.families import family_names, get_family
from dpalgos.models.normal_curvature import newton_step, normal_curvature
from dpalgos.models.secant_curvature import SecantCurvature
from dpalgos.release.noise_source import Noise
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from tests.dpalgos.silence import estimated

NAME = "preconditioned_glm"
BUDGET = {"epsilon": 0.5, "delta": 1e-5}
every = pytest.mark.parametrize("family", family_names())


def classes(family):
    return {"n_classes": 3} if family == "multinomial" else {}


def labels(family, u, rng):
    draws = {
        "gaussian": lambda: u + rng.standard_normal(len(u)),
        "logistic": lambda: rng.random(len(u)) < 1 / (1 + np.exp(-u)),
        "poisson": lambda: rng.poisson(np.exp(u)),
        "multinomial": lambda: np.argmax(u[:, None] * [1, 0, -1] + rng.gumbel(size=(len(u), 3)), axis=1),
    }
    return draws[family]().astype(float)


def problem(family, n=600, seed=0):
    """Correlated columns and an intercept."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) @ np.array([[1, 0.6, 0], [0, 0.8, 0], [0, 0, 1.0]])
    X = np.column_stack([X, np.ones(n)])
    return X, labels(family, X @ [0.5, -0.3, 0.2, 0.7], rng)


def record(family, X, y, seed=0, script=None, noise=None, **keywords):
    estimator = dpalgos.get_estimator(NAME)
    params = build_params(estimator, {**BUDGET, "family": family, **classes(family), **keywords})
    made = RecordingTranscript(noise or Noise([np.random.default_rng(seed)]), script=script)
    return run_estimator(estimator, Sample(X, y), params, made)[..., 0], made, params


@every
def test_with_a_vast_budget_it_is_the_maximum_of_the_likelihood(family):
    X, y = problem(family, n=20_000)
    best = estimated("glm", X, y, family=family, **classes(family))
    ours, _, _ = record(family, X, y, epsilon=200.0)
    assert ours.shape == best.estimate.shape
    np.testing.assert_allclose(ours, best.estimate, atol=0.01)


def test_counts_in_thousands_need_no_bound():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((5000, 3)), np.ones(5000)])
    coef = np.array([0.4, -0.3, 0.1, 8.0])
    y = rng.poisson(np.exp(X @ coef)).astype(float)
    ours, _, _ = record("poisson", X, y)
    np.testing.assert_allclose(ours, coef, atol=0.15)


def far_counts(d, shift, n):
    """Counts about columns whose means are ``shift``, and the coefficients."""
    rng = np.random.default_rng(5)
    X = np.column_stack([0.8 * rng.standard_normal((n, d - 1)) + shift, np.ones(n)])
    coef = np.r_[np.full(d - 1, 0.3) * (-1.0) ** np.arange(d - 1), 1.0]
    return X, rng.poisson(np.exp(X @ coef)).astype(float), coef


@pytest.mark.parametrize("intercept", [True, False])
def test_no_release_about_few_columns_is_far_off(intercept):
    """A level among 64 that a single count mistakes would make noise ten times as large."""
    X, y, coef = far_counts(2, 0.0, 4000)
    keywords = {"family": "poisson", "intercept": intercept, "epsilon": 1.0, "delta": 1e-6}
    made = dpalgos.estimate(NAME, X, y, rng=np.random.default_rng(0), replicates=400, **keywords)
    errors = np.linalg.norm(made.estimate - coef[:, None], axis=0)
    assert errors.max() <= 8 * np.median(errors)


def test_counts_are_explained_about_columns_off_their_origin():
    """Steps that came from twice the mean would take the way back for an effect of the columns."""
    X, y, coef = far_counts(6, 1.0, 2000)
    keywords = {"family": "poisson", "intercept": True, "epsilon": 1.0, "delta": 1e-6}
    made = dpalgos.estimate(NAME, X, y, rng=np.random.default_rng(0), replicates=40, **keywords)
    assert np.mean((X @ (made.estimate - coef[:, None])) ** 2) <= 0.009


def test_a_single_absurd_count_moves_the_answer_by_little():
    X, y = problem("poisson", n=3000)
    before, recorded, _ = record("poisson", X, y)
    y[0] = 1e9
    after, again, _ = record("poisson", X, y)
    scores = [v for v, e in zip(recorded.values, recorded.events, strict=True) if "score" in e.label]
    assert len(scores) == len([e for e in again.events if "score" in e.label])
    assert np.linalg.norm(after - before) <= 0.2


@pytest.mark.parametrize(
    ("epsilon", "visits", "affairs", "coef_error"), [(0.5, 0.6, 0.92, 0.6), (1.0, 0.8, 0.965, 0.42)]
)
def test_share_of_the_deviance_explained_on_tables_of_people(epsilon, visits, affairs, coef_error):
    """Of what the maximum likelihood explains beyond a constant; columns in units of their ranges."""
    randhie = sm.datasets.randhie.load_pandas().data
    units = {"lncoins": (2.3, 1.15), "lpi": (4.6, 2.3), "fmde": (4.15, 2.07), "disea": (10.0, 10.0)}
    names = ["lncoins", "idp", "lpi", "fmde", "physlm", "disea", "hlthg", "hlthf", "hlthp"]
    share, _ = explained("poisson", randhie, names, units, randhie["mdvis"], epsilon)
    assert share >= visits
    fair = sm.datasets.fair.load_pandas().data
    units = {"rate_marriage": (3.0, 1.0), "age": (30.0, 6.0), "yrs_married": (12.0, 5.6)}
    units |= {"children": (2.75, 1.375), "religious": (2.5, 0.75), "educ": (14.5, 2.75)}
    units |= {"occupation": (3.5, 1.25), "occupation_husb": (3.5, 1.25)}
    share, error = explained("logistic", fair, list(units), units, fair["affairs"] > 0, epsilon)
    assert share >= affairs
    assert error <= coef_error


def test_rare_groups_do_not_keep_steps_from_their_end():
    """In standard units 1.5 % of these people are in poor health, eight standard deviations away."""
    visits = sm.datasets.randhie.load_pandas().data
    X = sm.add_constant(((visits - visits.mean()) / visits.std()).drop(columns="mdvis").to_numpy())
    y, rng = visits["mdvis"].to_numpy(float), np.random.default_rng(0)
    best = dpalgos.estimate("glm", X, y, rng=rng, family="poisson").estimate[:, None]
    errors = {}
    for epsilon in (0.5, 1.0):
        ours = dpalgos.estimate(
            NAME, X, y, rng=rng, replicates=20, family="poisson", epsilon=epsilon, delta=len(X) ** -2.0
        )
        errors[epsilon] = np.linalg.norm(ours.estimate - best, axis=0).mean()
    assert errors[0.5] <= 0.13
    assert errors[1.0] <= 0.09


def test_steps_come_to_their_end_where_events_are_rare_and_well_explained():
    """3 % of these rows are events, and six shorter steps from zero left a quarter unexplained."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((10_000, 3)), np.ones(10_000)])
    y = (rng.random(len(X)) < 1 / (1 + np.exp(7 - X @ [3.0, 0.5, -0.5, 0.0]))).astype(float)
    best = dpalgos.estimate("glm", X, y, rng=rng, family="logistic").estimate[:, None]
    constant = np.array([[0.0], [0.0], [0.0], [np.log(y.mean() / (1 - y.mean()))]])
    ours = dpalgos.estimate(
        NAME, X, y, rng=rng, replicates=20, family="logistic", epsilon=3, delta=len(X) ** -2.0
    ).estimate

    def loss(coef):
        u = X @ coef
        return np.mean(np.logaddexp(0, u) - y[:, None] * u, axis=0)

    missed = (loss(ours) - loss(best)) / (loss(constant) - loss(best))
    assert missed.mean() <= 0.1


def test_rare_events_keep_their_rate_where_scores_of_all_of_them_are_clipped():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((8000, 4)), np.ones(8000)])
    y = rng.binomial(1, 1 / (1 + np.exp(4.9 - X @ [0.3, -0.2, 0.1, 0, 0]))).astype(float)
    ask = {"family": "logistic", "intercept": True, "epsilon": 1.0, "delta": 8000**-2.0, "replicates": 40}
    ours = dpalgos.estimate(NAME, X, y, rng=np.random.default_rng(0), **ask).estimate
    assert np.mean(1 / (1 + np.exp(-X @ ours))) == pytest.approx(y.mean(), rel=0.15)


def test_answers_to_rare_events_that_are_well_explained_are_not_too_small():
    """With the curvature at the start of each step alone, steps are too short where events are rare."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((10_000, 3)), np.ones(10_000)])
    y = (rng.random(len(X)) < 1 / (1 + np.exp(7 - X @ [3.0, 0.5, -0.5, 0.0]))).astype(float)
    ask = {"family": "logistic", "intercept": True, "epsilon": 1.0, "delta": 1e-8, "replicates": 40}
    ours = dpalgos.estimate(NAME, X, y, rng=np.random.default_rng(0), **ask).estimate
    assert ours[0].mean() >= 1.93


def explained(family, table, names, units, response, epsilon, replicates=6):
    """The mean over replicates of the share of explained deviance, and of the coefficients' error."""
    columns = [
        (table[name] - units.get(name, (0.5, 0.5))[0]) / units.get(name, (0.5, 0.5))[1] for name in names
    ]
    X = np.column_stack([*columns, np.ones(len(table))])
    y, model = np.asarray(response, dtype=float), get_family(family)
    rng, delta = np.random.default_rng(0), len(X) ** -2.0
    best = dpalgos.estimate("glm", X, y, rng=rng, family=family).estimate[:, None]
    ours = dpalgos.estimate(
        NAME, X, y, rng=rng, replicates=replicates, family=family, epsilon=epsilon, delta=delta
    ).estimate
    null = dpalgos.estimate("glm", X[:, -1:], y, rng=rng, family=family).estimate * np.eye(len(best))[:, -1:]
    fit, worst, deviance = (model.deviance(X @ coef, y[:, None]).sum(axis=0) for coef in (best, null, ours))
    error = np.linalg.norm(((ours - best) * X.std(axis=0)[:, None])[:-1], axis=0)
    return float(np.mean((worst - deviance) / (worst - fit))), float(error.mean())


@pytest.mark.parametrize("family", ["logistic", "poisson", "gaussian"])
def test_the_curvature_is_that_of_normal_rows(family):
    rng, model = np.random.default_rng(0), get_family(family)
    center, theta = np.array([0.6, 0.2, 0.0])[:, None], np.array([0.5, -0.4, 0.3])[:, None]
    root = np.linalg.cholesky(np.eye(3) - center @ center.T)
    u = center[:, 0] + rng.standard_normal((400_000, 3)) @ root.T
    hessian = (u * model.second_derivative(u @ theta)).T @ u / len(u)
    step, _ = newton_step(model, theta, center, np.ones((3, 1)), np.zeros(1))
    np.testing.assert_allclose(step[:, 0], np.linalg.solve(hessian, np.ones(3)), rtol=0.03)


@pytest.mark.parametrize(
    ("noise_std", "length", "steeper", "corrected"),
    [(1e-3, 0.3, 3, 3), (1e-3, 0.9, 3, 3), (0.1, 0.3, 3, 1), (1e-3, 0.3, 0.2, 0.5), (1e-3, 0.9, 0.2, 1)],
)
def test_curvature_is_corrected_along_a_step_where_noise_cannot_explain_the_scores(
    noise_std, length, steeper, corrected
):
    """Scores along the first axis fall ``steeper`` times as fast as the curvature of normal rows says."""
    model, center, noise = get_family("logistic"), np.zeros((3, 1)), np.full(1, noise_std)
    step = length * np.eye(3)[:, :1]
    secant = SecantCurvature(model, center, np.zeros(1))
    start, plain = (normal_curvature(model, theta, center) for theta in (0 * step, step))
    first = secant.at(0 * step, steeper * (start + plain)[0] @ step / 2, noise)
    second = secant.at(step, 0 * step, noise)
    np.testing.assert_array_equal(first, start)
    assert second[0, 0, 0] / plain[0, 0, 0] == pytest.approx(corrected)
    np.testing.assert_allclose(second[0, 1:, 1:], plain[0, 1:, 1:])


def test_a_direction_that_was_steeper_stays_so_and_a_flatter_one_does_not():
    model, center, noise = get_family("logistic"), np.zeros((3, 1)), np.full(1, 1e-9)
    first, second = 0.3 * np.eye(3)[:, :1], 0.3 * np.eye(3)[:, 1:2]
    start = normal_curvature(model, 0 * first, center)[0]
    for steeper, kept in ((3.0, 3.0), (0.6, 1.0)):
        secant = SecantCurvature(model, center, np.zeros(1))
        secant.at(0 * first, steeper * start @ first, noise)
        secant.at(first, 0 * first, noise)
        third = secant.at(first + second, -start @ second, noise)[0]
        plain = normal_curvature(model, first + second, center)[0]
        assert third[0, 0] / plain[0, 0] == pytest.approx(kept, rel=0.05)


def test_a_flat_model_far_out_has_finite_curvature():
    """Rows that are all alike have probabilities 0 or 1 there, so no curvature, whatever the scores say."""
    center, noise_std = np.eye(3)[:, :1], np.full(1, 1e-5)
    secant = SecantCurvature(get_family("logistic"), center, np.zeros(1))
    secant.at(1e3 * center, np.ones((3, 1)), noise_std)
    assert np.isfinite(secant.at(2e3 * center, -np.ones((3, 1)), noise_std)).all()


def test_noise_that_a_step_follows_is_not_taken_for_curvature():
    """Steps of pure noise seem to meet twice the curvature; what is known of them is subtracted."""
    model, d, n_replicates, noise_std = get_family("logistic"), 40, 500, 0.02
    rng = np.random.default_rng(0)
    center, noise = np.zeros((d, n_replicates)), np.full(n_replicates, noise_std)
    seen = {}
    for is_told in (True, False):
        secant = SecantCurvature(model, center, np.zeros(n_replicates))
        score = noise_std * rng.standard_normal((d, n_replicates))  # at the best θ
        secant.at(center, score, noise)
        step, amplification = newton_step(model, center, center, score, np.zeros(n_replicates))
        if is_told:
            secant.moved(d * amplification * noise_std**2)
        later = noise_std * rng.standard_normal((d, n_replicates)) - np.einsum(
            "rij,jr->ir", normal_curvature(model, center, center), step
        )
        found = secant.at(step, later, noise)
        plain = normal_curvature(model, step, center)
        seen[is_told] = (np.abs(found - plain).max(axis=(1, 2)) > 1e-9).mean()
    assert seen[True] <= 0.06
    assert seen[False] >= 0.5


def test_steps_come_to_their_end_where_columns_are_skewed():
    """The curvature is twice that of normal rows, and uncorrected steps swing about the answer."""
    rng = np.random.default_rng(0)
    X = np.minimum(np.exp(rng.standard_normal((20_000, 4))) - 1.6, 8) / 1.5
    X = np.column_stack([X, np.ones(20_000)])
    y = rng.poisson(np.exp(X @ [0.3, -0.3, 0.2, 0.0, -1.0]) * rng.gamma(1.5, 1 / 1.5, 20_000)).astype(float)
    best = dpalgos.estimate("glm", X, y, rng=rng, family="poisson").estimate[:, None]
    ours = dpalgos.estimate(
        NAME, X, y, rng=rng, replicates=20, family="poisson", intercept=True, epsilon=10, delta=2.5e-9
    ).estimate
    assert np.linalg.norm(ours - best, axis=0).mean() <= 0.02


def test_rare_events_gain_from_more_epsilon_where_columns_are_skewed():
    """Eight steps end too early; more of them swing about the answer where a steep direction is forgotten."""
    n = 20_000
    rng = np.random.default_rng(1)
    X = np.exp(np.sqrt(0.4) * rng.standard_normal((n, 4)) + np.sqrt(0.6) * rng.standard_normal((n, 1)))
    X = np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones(n)])
    y = rng.binomial(1, 1 / (1 + np.exp(-np.minimum(X @ [0.5, 0.5, 0.5, 0.5, -4.5], 1)))).astype(float)
    best = dpalgos.estimate("glm", X, y, rng=rng, family="logistic").estimate[:, None]

    def error(epsilon):
        ask = {"epsilon": epsilon, "delta": n**-2.0, "replicates": 20, "rng": np.random.default_rng(0)}
        ours = dpalgos.estimate(NAME, X, y, family="logistic", intercept=True, **ask).estimate
        loss = np.logaddexp(0, X @ ours) - y[:, None] * (X @ ours)
        return (loss - (np.logaddexp(0, X @ best) - y[:, None] * (X @ best))).mean()

    assert error(20) <= 0.14 * error(3)


def excess_over_the_constant(family, n, constant, epsilon, **keywords):
    """Mean excess loss of 20 answers, over that of the constant without privacy."""
    rng = np.random.default_rng(11)
    X = np.column_stack([rng.standard_normal((n, 4)), np.ones(n)])
    u = X @ [0.5, -0.4, 0.3, 0.0, constant]
    mean = np.exp(u) if family == "poisson" else 1 / (1 + np.exp(-u))
    y = (rng.poisson if family == "poisson" else lambda p: rng.binomial(1, p))(mean).astype(float)
    ask = {"epsilon": epsilon, "delta": 1e-6, "replicates": 20, "rng": np.random.default_rng(12)}
    found = dpalgos.estimate("preconditioned_glm", X, y, family=family, intercept=True, **ask, **keywords)
    least = dpalgos.estimate("glm", X, y, family=family, rng=np.random.default_rng(0)).estimate
    alone = np.zeros(5)
    alone[-1] = np.log(y.mean()) if family == "poisson" else np.log(y.mean() / (1 - y.mean()))

    def loss(coef):
        v = X @ coef
        psi = np.exp(v) if family == "poisson" else np.logaddexp(0, v)
        return (psi.T - y * v.T).mean(axis=-1)

    errors = (loss(found.estimate) - loss(least)) / (loss(alone) - loss(least))
    return errors.mean(), found


@pytest.mark.parametrize(("family", "n"), [("logistic", 400), ("poisson", 800)])
def test_of_few_rows_the_answer_is_the_constant_alone(family, n):
    error, found = excess_over_the_constant(family, n, -0.5, 0.2)
    assert {event.label for event in found.events} <= {"mean response", "mean logarithm"}
    assert all(isinstance(event, PureEvent) for event in found.events)
    assert found.certified_epsilon == pytest.approx(0.2, rel=1e-4)
    assert not found.estimate[:-1].any()
    assert error < 1.1


@pytest.mark.parametrize("constant", [-1.0, 1.0, 4.0])
def test_a_constant_of_very_few_counts_is_right_to_a_small_factor(constant):
    """Noise of mean logarithms of counts up to 2¹⁵ would have standard deviation 2.5."""
    error, found = excess_over_the_constant("poisson", 150, constant, 0.1)
    assert not found.estimate[:-1].any()
    assert np.median(np.abs(found.estimate[-1] - constant)) < 1.1
    assert error < 10


@pytest.mark.parametrize("constant", [-1.5, 2.5])
def test_models_of_counts_are_better_than_the_constant_wherever_the_mean_lies(constant):
    rough, _ = excess_over_the_constant("poisson", 3000, constant, 0.3)
    fine, _ = excess_over_the_constant("poisson", 3000, constant, 2.0)
    assert fine < 0.5 * rough < 0.5


def moved_errors(family, changes, n=20_000, epsilon=1.0, **keywords):
    """Mean squared errors of 20 predictors, with a column in other units and of another origin."""
    rng = np.random.default_rng(21)
    Z = rng.standard_normal((n, 4))
    X = np.column_stack([Z, rng.random(n) < 0.1, np.ones(n)])
    u = X @ [0.5, -0.4, 0.3, 0.0, 0.4, -0.5]
    drawn = {
        "gaussian": lambda: rng.normal(u),
        "logistic": lambda: rng.binomial(1, 1 / (1 + np.exp(-u))),
        "poisson": lambda: rng.poisson(np.exp(u)),
    }
    y, errors = drawn[family]().astype(float), []
    for scale, shift in changes:
        rows = np.column_stack([scale * (Z[:, :1] + shift), X[:, 1:]])
        found = dpalgos.estimate(
            NAME, rows, y, family=family, intercept=True, epsilon=epsilon, delta=1e-8, replicates=20,
            rng=np.random.default_rng(22), **keywords,
        )  # fmt: skip
        errors.append(np.mean((rows @ found.estimate - u[:, None]) ** 2))
    return np.array(errors)


@pytest.mark.parametrize("family", ["gaussian", "logistic", "poisson"])
def test_with_an_intercept_a_column_needs_neither_unit_nor_origin(family):
    near = [(1, 0), (10, 0), (4, 0), (0.25, 0), (0.1, 0), (1, 20), (1, -20)]
    errors = moved_errors(family, near)
    assert (errors[1:] < 4 * errors[0]).all()
    assert errors[0] < 0.002
    assert (moved_errors(family, [(100, 0)]) < 0.01).all()  # of .4 that there are to explain


def test_indicators_keep_their_origin_and_far_columns_get_centers():
    rng, n = np.random.default_rng(26), 20_000
    indicators = [np.where(rng.random(n) < share, far, -far) for share, far in ((0.1, 1), (0.002, 2))]
    numbers = [rng.standard_normal(n) + 1, rng.standard_normal(n) - 20, 100 * rng.standard_normal(n)]
    X = np.column_stack([*indicators, *numbers, np.ones(n)])
    budget = SplitBudget(epsilon=1.0, delta=1e-8, shares={MEDIANS: 1.0})
    transcript = Transcript(Noise([np.random.default_rng(27)]))
    found = private_columns(transcript, Sample(X, np.zeros(n)), budget)
    np.testing.assert_allclose(found.centers[:, 0], [0, -2, 0, -20, 0, 0, 0], atol=1)
    np.testing.assert_array_equal(found.units, 1)


@pytest.mark.parametrize(("size", "released"), [(190, False), (210, True)])
def test_centers_are_released_from_a_public_number_of_rows_on(size, released):
    """Of four columns and the constant, from 100 √4 on."""
    budget = {"epsilon": 1.0, "delta": 1e-8}
    rng, n = np.random.default_rng(23), round(size / gaussian_mu(**budget))
    X = np.column_stack([rng.standard_normal((n, 4)), np.ones(n)])
    y = rng.integers(2, size=n).astype(float)
    asked = {"values above a candidate center"}
    for keywords, found in (({}, released), ({"intercept": False}, False)):
        ask = {"family": "logistic", "intercept": True, **budget, **keywords}
        result = dpalgos.estimate(NAME, X, y, rng=np.random.default_rng(1), **ask)
        assert (asked <= {event.label for event in result.events}) == found
        assert result.certified_epsilon <= budget["epsilon"]


def test_intervals_of_events_move_with_the_columns():
    rng = np.random.default_rng(24)
    Z = np.column_stack([rng.standard_normal((20_000, 3)), np.ones(20_000)])
    y = rng.binomial(1, 1 / (1 + np.exp(-Z @ [0.5, -0.4, 0.3, -0.5]))).astype(float)
    move = np.diag([0.25, 4.0, 1.0, 1.0])
    move[-1, 2] = 20.0
    ask = {"family": "logistic", "intercept": True, "epsilon": 2.0, "delta": 1e-8, "interval": 0.95}
    widths = []
    for rows, back in ((Z, np.eye(4)), (Z @ move, move)):
        result = dpalgos.estimate(NAME, rows, y, replicates=10, rng=np.random.default_rng(25), **ask)
        widths.append((back[:3, :3] @ result.intervals.half_width[:3]).mean(axis=1))
    np.testing.assert_allclose(widths[1], widths[0], rtol=0.2)
