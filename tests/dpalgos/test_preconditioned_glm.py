"""preconditioned_glm in every family: what it finds, and what heavy or few rows and far columns do to it."""

from functools import partial

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import truncnorm

from data.datasets import get_dataset
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.accounting.other_events import Laplace
from dpalgos.central.preconditioned import plan
from dpalgos.central.preconditioned.intercept import positive_mean
from dpalgos.central.preconditioned.plan import FAR_ROWS, Numbers
from dpalgos.intervals.tails import TAIL
from dpalgos.models.families import family_names, get_family
from dpalgos.models.newton_steps import posterior_kept
from dpalgos.rows.sample import Sample
from tests.bench.league.whole_table import missed_of_regression
from tests.dpalgos.silence import estimated, recorded
from tests.dpalgos.test_glm import responses

NAME = "preconditioned_glm"


def with_one(*columns):
    return np.column_stack([*columns, np.ones(len(columns[0]))])


def labels(family, u, rng):
    return responses(family, u[:, None] * [1, 0, -1] if family == "multinomial" else u, rng)


def best_of(X, y, **keywords):
    return estimated("glm", X, y, **keywords).estimate


def answers(X, y, epsilon=1.0, delta=None, seed=0, **keywords):
    budget = {"epsilon": epsilon, "delta": len(X) ** -2.0 if delta is None else delta}
    return estimated(NAME, X, y, seed=seed, **budget, **keywords)


@pytest.mark.parametrize(
    ("family", "offset"), [*((name, False) for name in family_names()), ("logistic", True), ("poisson", True)]
)
def test_with_a_vast_budget_it_is_the_maximum_of_the_likelihood(family, offset):
    rng = np.random.default_rng(0)
    X = with_one(rng.standard_normal((20_000, 3)) @ np.array([[1, 0.6, 0], [0, 0.8, 0], [0, 0, 1.0]]))
    y = labels(family, X @ [0.5, -0.3, 0.2, 0.7], rng)
    keywords = {"n_classes": 3} if family == "multinomial" else {}
    keywords |= {"family": family, **({"offset_bounds": (-9.0, 9.0)} if offset else {})}
    ours = answers(X, y, 200.0, 1e-5, intercept=offset, **keywords).estimate
    np.testing.assert_allclose(ours, best_of(X, y, **keywords), atol=0.01)


def counts(coef, shift, n):
    rng = np.random.default_rng(5)
    X = with_one(0.8 * rng.standard_normal((n, len(coef) - 1)) + shift)
    return X, rng.poisson(np.exp(X @ coef)).astype(float)


@pytest.mark.parametrize("intercept", [True, False])
def test_no_release_about_few_columns_is_far_off(intercept):
    """A level among 64 that a single count mistakes would make noise ten times as large."""
    coef = np.array([0.3, 1.0])
    X, y = counts(coef, 0.0, 4000)
    made = answers(X, y, delta=1e-6, replicates=400, family="poisson", intercept=intercept)
    errors = np.linalg.norm(made.estimate - coef[:, None], axis=0)
    assert errors.max() <= 8 * np.median(errors)


def test_a_single_absurd_count_moves_the_answer_by_little():
    X, y = counts(np.array([0.5, -0.3, 0.2, 0.7]), 0.0, 3000)
    before = answers(X, y, 0.5, 1e-5, family="poisson").estimate
    y[0] = 1e9
    assert np.linalg.norm(answers(X, y, 0.5, 1e-5, family="poisson").estimate - before) <= 0.2


OF_PEOPLE = [  # the table, ε, the least share, and the most error of coefficients
    ("randhie", 0.5, 0.6, np.inf),
    ("randhie", 1.0, 0.8, np.inf),
    ("fair", 0.5, 0.92, 0.6),
    ("fair", 1.0, 0.965, 0.42),
]


@pytest.mark.parametrize(("name", "epsilon", "least", "coef_error"), OF_PEOPLE)
def test_share_of_the_deviance_explained_on_tables_of_people(name, epsilon, least, coef_error):
    """Of what the maximum likelihood explains beyond a constant."""
    family, response = ("poisson", "mdvis") if name == "randhie" else ("logistic", "affairs")
    columns = [each for each in get_dataset(name).columns if each.name not in ("mdvis", "affair")]
    table = getattr(sm.datasets, name).load_pandas().data
    X = with_one(*((table[each.name] - each.center) / each.scale for each in columns))
    y = table[response].to_numpy(float) if family == "poisson" else (table[response] > 0).to_numpy(float)
    best = best_of(X, y, family=family)[:, None]
    ours = answers(X, y, epsilon, replicates=6, family=family).estimate
    assert 1 - missed(X, y, ours, family) >= least
    errors = np.linalg.norm(((ours - best) * X.std(axis=0)[:, None])[:-1], axis=0)
    assert errors.mean() <= coef_error


def rare_groups():
    """In standard units 1.5 % of these people are in poor health, eight standard deviations away."""
    visits = sm.datasets.randhie.load_pandas().data
    X = sm.add_constant(((visits - visits.mean()) / visits.std()).drop(columns="mdvis").to_numpy())
    return X, visits["mdvis"].to_numpy(float)


def skewed_counts():
    """The curvature is twice that of normal rows, and uncorrected steps swing about the answer."""
    rng = np.random.default_rng(0)
    X = with_one(np.minimum(np.exp(rng.standard_normal((20_000, 4))) - 1.6, 8) / 1.5)
    mean = np.exp(X @ [0.3, -0.3, 0.2, 0.0, -1.0]) * rng.gamma(1.5, 1 / 1.5, 20_000)
    return X, rng.poisson(mean).astype(float)


OF_COUNTS = [  # rows, ε, whether there is an intercept, the most error
    (rare_groups, 0.5, False, 0.13),
    (rare_groups, 1.0, False, 0.09),
    (partial(counts, np.array([0.4, -0.3, 0.1, 8.0]), 0.0, 5000), 0.5, False, 0.5),  # in thousands
    (skewed_counts, 10.0, True, 0.02),
]


@pytest.mark.parametrize(("rows", "epsilon", "intercept", "most"), OF_COUNTS)
def test_coefficients_are_near_the_maximum_of_the_likelihood(rows, epsilon, intercept, most):
    X, y = rows()
    best = best_of(X, y, family="poisson")[:, None]
    ours = answers(X, y, epsilon, replicates=20, family="poisson", intercept=intercept).estimate
    assert np.linalg.norm(ours - best, axis=0).mean() <= most


def missed(X, y, coef, family):
    """The loss of coefficients (d, R) beyond the least, over what the best ones gain beyond a constant."""
    share = missed_of_regression(X, y, family)
    return np.mean([share(column) for column in coef.T])


def test_steps_come_to_their_end_where_events_are_rare_and_well_explained():
    """With the curvature at the start of each step alone, or six shorter steps, they are too short."""
    rng = np.random.default_rng(0)
    X = with_one(rng.standard_normal((10_000, 3)))
    y = labels("logistic", X @ [3.0, 0.5, -0.5, -7.0], rng)  # 3 % are events
    assert missed(X, y, answers(X, y, 3, replicates=20, family="logistic").estimate, "logistic") <= 0.045
    ours = answers(X, y, replicates=40, family="logistic", intercept=True).estimate
    assert ours[0].mean() >= 1.93


def test_rare_events_keep_their_rate_where_scores_of_all_of_them_are_clipped():
    rng = np.random.default_rng(0)
    X = with_one(rng.standard_normal((8000, 4)))
    y = rng.binomial(1, 1 / (1 + np.exp(4.9 - X @ [0.3, -0.2, 0.1, 0, 0]))).astype(float)
    ours = answers(X, y, replicates=40, family="logistic", intercept=True).estimate
    assert np.mean(1 / (1 + np.exp(-X @ ours))) == pytest.approx(y.mean(), rel=0.15)


@pytest.mark.parametrize(
    ("family", "n", "epsilon", "most"),
    [("logistic", 12_000, 1.0, 1.2), ("logistic", 12_000, 0.5, 2.2), ("poisson", 4000, 0.5, 3.0)],
)
def test_few_events_explain_little_and_cost_little(family, n, epsilon, most):
    """4 % of events, or a tenth of counts, in rows of which most columns have long tails."""
    rng = np.random.default_rng(2)
    common = 0.9 * rng.standard_normal((n, 1)) + 0.4 * rng.standard_normal((n, 3))
    groups = (rng.random((n, 2)) < [0.5, 0.1]).astype(float)
    X = with_one(np.minimum(np.exp(1.2 * common), 40) / 8, groups, rng.standard_normal((n, 3)))
    slopes = [0.2, 0, 0.2, 0.3, -0.5, 0.3, -0.2, 0.1]
    y = labels(family, X @ [*slopes, -3.6 if family == "logistic" else -2.6], rng)
    ours = answers(X, y, epsilon, replicates=20, family=family, intercept=True).estimate
    assert missed(X, y, ours, family) <= most


def about_a_constant(family, n, constant, epsilon):
    """Return the share of what columns explain that answers miss, and the answers."""
    rng = np.random.default_rng(11)
    X = with_one(rng.standard_normal((n, 4)))
    y = labels(family, X @ [0.5, -0.4, 0.3, 0.0, constant], rng)
    found = answers(X, y, epsilon, 1e-6, seed=12, replicates=20, family=family, intercept=True)
    return missed(X, y, found.estimate, family), found


def indicators_of_events(seed, n, share):
    """Rare, common and balanced indicators at ±2 units, and events of a share: KL of answers × 1000."""
    rng = np.random.default_rng(seed)
    rates = np.r_[np.geomspace(0.002, 0.52, 9), 0.5, 0.5, 0.5]
    cells = rng.random((n, 12)) < rates
    slopes = np.r_[rng.normal(0, 0.6, 9), 0.8, -0.6, 0.4] / 4
    X = with_one(np.where(cells, 2.0, -2.0))
    u = X[:, :-1] @ slopes
    u = u - np.quantile(u, 0.5) + np.log(share / (1 - share))
    return X, (rng.random(n) < 1 / (1 + np.exp(-u))).astype(float)


def test_steps_of_counts_do_not_overshoot_a_rare_group_beside_a_skewed_column():
    """Steps 1 long did, and later ones crept back: coefficients were .08 too low on average."""
    rng, n = np.random.default_rng(0), 5000
    rare, skewed = (
        np.where(rng.random(n) < 0.04, 1.0, -1.0),
        np.where(rng.random(n) < 0.86, -2, rng.uniform(-2, 2, n)),
    )
    column, coins = np.clip(rng.exponential(0.5, n) - 2, -2, 2), np.where(rng.random((n, 2)) < 0.5, 1.0, -1.0)
    X = np.column_stack([rare, skewed, column, coins, np.ones(n)])
    y = rng.poisson(np.exp(X @ [-0.25, 0.45, 0.1, 0.05, 0.05, -0.5])).astype(float)
    best = sm.GLM(y, X, family=sm.families.Poisson()).fit().params
    found = [
        answers(X, y, 10.0, 1e-8, seed, family="poisson", intercept=True).estimate[0] for seed in range(8)
    ]
    assert abs(np.mean(found) - best[0]) < 0.04


def test_balanced_indicators_next_to_rare_ones_are_fitted():
    """At ±2 units, indicators moved their centers: rows were whitened again, and rare columns stretched."""
    ratios = []
    for seed in range(6):
        X, y = indicators_of_events(seed, 20_000, 0.2)
        found = answers(X, y, 1.0, 1e-8, seed=seed, family="logistic", intercept=True)
        ratios.append(missed(X, y, found.estimate[:, None], "logistic"))
    assert np.mean(ratios) < 0.1


@pytest.mark.parametrize("family", ["gaussian", "logistic", "poisson"])
def test_slopes_without_signal_are_zero_or_small(family):
    """No column explains anything: the prediction is near a constant. Strong slopes are kept."""
    rng, n = np.random.default_rng(31), 3000
    X = with_one(rng.standard_normal((n, 6)))
    y = labels(family, X @ [0, 0, 0, 0, 0, 0, 0.3], rng)
    found = answers(X, y, 0.5, 1e-8, seed=32, replicates=20, family=family, intercept=True)
    kept = answers(X, y, 0.5, 1e-8, seed=32, replicates=20, family=family, intercept=True, interval=0.95)
    omitted = (found.estimate[:-1] == 0).all(axis=0).mean()
    assert omitted > 0.2
    assert np.abs(kept.estimate[:-1]).min() > 0
    signal = labels(family, X @ [0.9, -0.6, 0, 0, 0, 0, 0.3], rng)
    strong = answers(X, signal, 4.0, 1e-8, seed=33, replicates=20, family=family, intercept=True)
    assert np.abs(strong.estimate[:2]).min() > 0.3
    assert np.abs(found.estimate[:-1]).mean() < 0.025


@pytest.mark.parametrize("released", [-4.2, -3.0, -0.5, 0.0, 0.2, 5.0])
def test_the_mean_of_counts_is_that_of_a_positive_number(released):
    std = 0.7
    expected = truncnorm(-released / std, np.inf, loc=released, scale=std).mean()
    assert positive_mean(released, std) == pytest.approx(expected, rel=1e-9)


def test_a_vector_is_shrunk_to_its_posterior_mean():
    """The density of b = V/(V + signal) is integrated numerically."""
    b = np.linspace(0, 1, 200_001)
    for d, ratio in [(1, 1e-9), (1, 0.5), (3, 1.0), (7, 2.0), (20, 30.0), (20, 1e4)]:
        density = np.exp(d / 2 * np.log(np.maximum(b, 1e-300)) - b * d * ratio / 2)
        assert posterior_kept(ratio, 1.0, d) == pytest.approx(
            1 - (b * density).sum() / density.sum(), abs=2e-4
        )


def test_strong_signals_of_few_rows_are_not_given_away():
    """The intercept alone predicts as badly as the private constant does."""
    rng, n = np.random.default_rng(8), 450
    ratios = []
    for seed in range(20):
        X = with_one(rng.standard_normal((n, 6)))
        line = X[:, :-1] @ [0.5, -0.4, 0.3, 0, 0, 0]
        y = 0.3 + line + 0.7 * rng.standard_normal(n)
        coef = answers(X, y, 0.5, 1 / n**2, seed=seed, family="gaussian", intercept=True).estimate
        ratios.append(((y - X @ np.ravel(coef)) ** 2).mean() / y.var())
    assert np.mean(ratios) < 0.9


@pytest.mark.parametrize(("family", "n"), [("logistic", 400), ("poisson", 800)])
def test_of_few_rows_the_answer_is_the_constant_alone(family, n):
    error, found = about_a_constant(family, n, -0.5, 0.2)
    assert {event.label for event in found.events} <= {"mean response", "mean logarithm"}
    assert all(isinstance(event, Laplace) for event in found.events)
    assert found.certified_epsilon == pytest.approx(0.2, rel=1e-4)
    assert not found.estimate[:-1].any()
    assert error < 1.1


def test_a_line_without_slopes_has_an_intercept_next_to_its_offset():
    n, rng = 3000, np.random.default_rng(0)
    offset = np.clip(rng.normal(9, 0.5, n), 0, 10)
    X, y = with_one(offset, *rng.normal(size=(3, n))), offset + 5 + rng.normal(size=n)
    asked = {"family": "gaussian", "intercept": True, "offset_bounds": (0.0, 10.0)}
    found = np.array([answers(X, y, seed=seed, **asked).estimate for seed in range(6)])
    assert (found[:, 1:-1] == 0).all(axis=1).sum() >= 2
    np.testing.assert_allclose(found[:, -1], 5, atol=0.2)


def test_of_few_rows_a_line_is_its_mean():
    rng, n = np.random.default_rng(34), 300
    X = with_one(rng.standard_normal((n, 4)))
    y = np.clip(X @ [0.1, 0.0, 0.0, 0.0, -1.5] + 0.3 * rng.standard_normal(n), -2, 2)
    found = answers(X, y, 0.3, 1e-6, seed=35, replicates=200, family="gaussian", intercept=True)
    assert {event.label for event in found.events} == {"mean response"}
    assert not found.estimate[:-1].any()
    assert np.std(found.estimate[-1] - y.mean()) == pytest.approx(np.sqrt(2) * 4 / (n * 0.3), rel=0.25)


@pytest.mark.parametrize("constant", [-1.0, 1.0, 4.0])
def test_a_constant_of_very_few_counts_is_right_to_a_small_factor(constant):
    """Noise of mean logarithms of counts up to 2¹⁵ would have standard deviation 2.5."""
    error, found = about_a_constant("poisson", 150, constant, 0.1)
    assert not found.estimate[:-1].any()
    assert np.median(np.abs(found.estimate[-1] - constant)) < 1.1
    assert error < 10


def test_the_constant_of_rare_counts_is_never_several_times_their_mean():
    """A ratio of two noisy numbers decides where counts are cut: 3.5 times the mean in 1 of 16 runs."""
    rng, n = np.random.default_rng(9), 1956
    X, y = np.ones((n, 1)), rng.poisson(0.1, n).astype(float)
    found = answers(X, y, 0.3, seed=36, replicates=400, family="poisson", intercept=True)
    ratio = np.exp(found.estimate[-1]) / y.mean()
    # The lowest cut is 1.5, which skewed counts need. Noise is 1.5 times that of a cut at 1.
    assert np.quantile(ratio, 0.99) < 1.8
    assert ratio.max() < 4.0


def moved_errors(family, changes, n=20_000, *, intercept=True):
    """Mean squared errors of predictors, with a column in other units and of another origin."""
    rng = np.random.default_rng(21)
    Z = rng.standard_normal((n, 4))
    X = with_one(Z, rng.random(n) < 0.1)
    u = X @ [0.5, -0.4, 0.3, 0.0, 0.4, -0.5]
    y, errors = labels(family, u, rng), []
    for scale, shift in changes:
        rows = np.column_stack([scale * (Z[:, :1] + shift), X[:, 1:]])
        found = answers(rows, y, delta=1e-8, seed=22, replicates=20, family=family, intercept=intercept)
        errors.append(np.mean((rows @ found.estimate - u[:, None]) ** 2))
    return np.array(errors)


SCALES = [(1, 0), (10, 0), (4, 0), (0.25, 0), (0.1, 0)]


@pytest.mark.parametrize("family", ["gaussian", "logistic", "poisson"])
def test_with_an_intercept_a_column_needs_neither_unit_nor_origin(family):
    errors = moved_errors(family, [*SCALES, (1, 20), (1, -20)])
    assert (errors[1:] < 4 * errors[0]).all()
    assert errors[0] < 0.002
    assert (moved_errors(family, [(100, 0)]) < 0.01).all()  # of .4 that there are to explain


def test_without_an_intercept_a_column_of_a_linear_regression_needs_no_unit():
    errors = moved_errors("gaussian", SCALES, intercept=False)
    assert (errors[1:] < 2.5 * errors[0]).all()
    assert errors[0] < 0.002


@pytest.mark.parametrize(("size", "released"), [(65, False), (70, True)])
def test_centers_are_released_from_a_public_number_of_rows_on(size, released):
    """Of four columns and the constant, from 30 √5 on."""
    rng, n = np.random.default_rng(23), round(size / gaussian_mu(1.0, 1e-8))
    X, y = with_one(rng.standard_normal((n, 4))), rng.integers(2, size=n).astype(float)
    for intercept in (True, False):
        result = answers(X, y, delta=1e-8, seed=1, family="logistic", intercept=intercept)
        labels = {event.label for event in result.events}
        assert ("means about centers" in labels) == (released and intercept)


def test_intervals_of_events_move_with_the_columns():
    rng = np.random.default_rng(24)
    Z = with_one(rng.standard_normal((20_000, 3)))
    y = labels("logistic", Z @ [0.5, -0.4, 0.3, -0.5], rng)
    move = np.diag([0.25, 4.0, 1.0, 1.0])
    move[-1, 2] = 20.0
    ask = {"family": "logistic", "intercept": True, "interval": 0.95, "replicates": 10, "seed": 25}
    found, moved = (answers(X, y, 2.0, 1e-8, **ask).intervals.half_width[:3] for X in (Z, Z @ move))
    np.testing.assert_allclose((move[:3, :3] @ moved).mean(axis=1), found.mean(axis=1), rtol=0.2)


def test_the_public_threshold_of_scores_rises_with_the_budget():
    """Clipping rows of a wrong model biases slopes: more so, relative to noise, as the budget grows."""
    family = get_family("logistic")
    low, high = (
        plan.public_threshold(Numbers(n_rows=1000.0, d=4, mu=mu, family=family, intercept=True))
        for mu in (0.25, 8.0)
    )
    assert high / low == pytest.approx(0.02 * 8 * 1000**0.5 / (0.2 * 2 * 125**0.2))


def line_of(n=3000):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, (n, 2)), np.ones(n)])
    return X, X @ [1.0, 0.5, 2.0] + rng.normal(0, 0.3, n)


def far_rows_of(made):
    (release,) = [each for each in made.releases if each.events[0].label == FAR_ROWS]
    return release.value


LINE = {"interval": 0.95, "intercept": True, "epsilon": 3.0}


def test_rows_with_a_cell_beyond_its_public_bound_count_as_far_away():
    X, y = line_of()
    moved = np.zeros((len(X), 4), dtype=np.int8)
    moved[:300, 0] = 1
    first, _ = recorded("preconditioned_regression", Sample(X, y), LINE)
    second, _ = recorded("preconditioned_regression", Sample(X, y, moved=moved), LINE, first.published)
    assert far_rows_of(second) - far_rows_of(first) == 300
    binned = {**LINE, "interval_target": "least squares"}
    made, _ = recorded("preconditioned_regression", Sample(X, y, moved=moved), binned)
    (shares,) = [each.value for each in made.releases if each.events[0].label == TAIL]
    assert shares[-1] == pytest.approx(0.1)  # of rows larger than all sizes
