"""preconditioned_glm in every family: what it finds, and what heavy or few rows and far columns do to it."""

import numpy as np
import pytest

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.events import PureEvent
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.central.preconditioned import plan
from dpalgos.central.preconditioned.combine import combined
from dpalgos.central.preconditioned.mean_response import MeanResponse
from dpalgos.central.preconditioned.origin import released_column_centers
from dpalgos.central.preconditioned.releases import FAR_ROWS, MEDIANS
from dpalgos.intervals.tails import TAIL
from dpalgos.models.families import family_names, get_family
from dpalgos.models.newton_steps import NewtonSteps
from dpalgos.release.noise_source import Noise
from dpalgos.release.spend import Spend, counts_needed
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
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


def test_a_single_absurd_count_moves_the_answer_by_little():
    X, y = counts(np.array([0.5, -0.3, 0.2, 0.7]), 0.0, 3000)
    before = answers(X, y, 0.5, 1e-5, family="poisson").estimate
    y[0] = 1e9
    assert np.linalg.norm(answers(X, y, 0.5, 1e-5, family="poisson").estimate - before) <= 0.2


def missed(X, y, coef, family):
    """The loss of coefficients (d, R) beyond the least, over what the best ones gain beyond a constant."""
    mean = y.mean()
    constant = np.log(mean) if family == "poisson" else np.log(mean / (1 - mean))

    def loss(coef):
        u = X @ coef
        psi = np.exp(u) if family == "poisson" else np.logaddexp(0, u)
        return (psi - y[:, None] * u).mean(axis=0)

    least = loss(best_of(X, y, family=family)[:, None])
    alone = loss(np.r_[np.zeros(X.shape[1] - 1), constant][:, None])
    return (loss(coef) - least).mean() / float((alone - least)[0])


def test_steps_come_to_their_end_where_events_are_rare_and_well_explained():
    """With the curvature at the start of each step alone, or six shorter steps, they are too short."""
    rng = np.random.default_rng(0)
    X = with_one(rng.standard_normal((10_000, 3)))
    y = labels("logistic", X @ [3.0, 0.5, -0.5, -7.0], rng)  # 3 % are events
    assert missed(X, y, answers(X, y, 3, replicates=20, family="logistic").estimate, "logistic") <= 0.045
    ours = answers(X, y, replicates=40, family="logistic", intercept=True).estimate
    assert ours[0].mean() >= 1.93


def test_rare_events_gain_from_more_epsilon_where_columns_are_skewed():
    """Eight steps end too early; more of them swing where a steep direction is forgotten."""
    rng, n = np.random.default_rng(1), 20_000
    X = np.exp(np.sqrt(0.4) * rng.standard_normal((n, 4)) + np.sqrt(0.6) * rng.standard_normal((n, 1)))
    X = with_one((X - X.mean(axis=0)) / X.std(axis=0))
    y = labels("logistic", X @ [0.5, 0.5, 0.5, 0.5, -4.5], rng)
    asked = {"replicates": 20, "family": "logistic", "intercept": True}
    few, many = (missed(X, y, answers(X, y, e, **asked).estimate, "logistic") for e in (3, 20))
    assert many <= 0.23 * few


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


@pytest.mark.parametrize("family", ["gaussian", "logistic", "poisson"])
def test_slopes_that_do_not_stand_out_of_their_noise_are_not_given(family):
    """No column explains anything: the intercept alone is the answer, and the diagnostics say so."""
    rng, n = np.random.default_rng(31), 3000
    X = with_one(rng.standard_normal((n, 6)))
    y = labels(family, X @ [0, 0, 0, 0, 0, 0, 0.3], rng)
    found = answers(X, y, 0.5, 1e-8, seed=32, replicates=20, family=family, intercept=True)
    assert (np.abs(found.estimate[:-1]).max(axis=0) == 0).mean() > 0.6
    signal = labels(family, X @ [0.9, -0.6, 0, 0, 0, 0, 0.3], rng)
    strong = answers(X, signal, 4.0, 1e-8, seed=33, replicates=20, family=family, intercept=True)
    assert np.mean(strong.diagnostics["slopes_help"]) > 0.8 > np.mean(found.diagnostics["slopes_help"])
    assert np.abs(strong.estimate[:2]).min() > 0


@pytest.mark.parametrize(("family", "n"), [("logistic", 400), ("poisson", 800)])
def test_of_few_rows_the_answer_is_the_constant_alone(family, n):
    error, found = about_a_constant(family, n, -0.5, 0.2)
    assert {event.label for event in found.events} <= {"mean response", "mean logarithm"}
    assert all(isinstance(event, PureEvent) for event in found.events)
    assert found.certified_epsilon == pytest.approx(0.2, rel=1e-4)
    assert not found.estimate[:-1].any()
    assert error < 1.1


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


@pytest.mark.parametrize(("family", "center"), [("logistic", 0), ("poisson", -2)])
def test_indicators_of_events_keep_their_origin_and_far_columns_get_centers(family, center):
    rng, n = np.random.default_rng(26), 20_000
    indicators = [np.where(rng.random(n) < share, far, -far) for share, far in ((0.1, 1), (0.002, 2))]
    others = [scale * rng.standard_normal(n) + c for scale, c in ((1, 1), (1, -20), (100, 0))]
    X = with_one(*indicators, *others)
    budget = SplitBudget(epsilon=1.0, delta=1e-8, shares={MEDIANS.label: 1.0})
    transcript = Transcript(Noise([np.random.default_rng(27)]))
    spend = Spend.of_budget(transcript, budget, {MEDIANS.label: counts_needed(plan.N_CENTERS)})
    found = released_column_centers(spend, Sample(X, np.zeros(n)), get_family(family))
    np.testing.assert_allclose(found.centers, [0, center, 0, -20, 0, 0, 0], atol=1)
    np.testing.assert_array_equal(found.units, 1)


@pytest.mark.parametrize(("size", "released"), [(190, False), (210, True)])
def test_centers_are_released_from_a_public_number_of_rows_on(size, released):
    """Of four columns and the constant, from 100 √4 on."""
    rng, n = np.random.default_rng(23), round(size / gaussian_mu(1.0, 1e-8))
    X, y = with_one(rng.standard_normal((n, 4))), rng.integers(2, size=n).astype(float)
    for intercept in (True, False):
        result = answers(X, y, delta=1e-8, seed=1, family="logistic", intercept=intercept)
        labels = {event.label for event in result.events}
        assert ("values above a candidate center" in labels) == (released and intercept)


def test_a_mean_response_is_unsure_unless_it_is_known_within_a_factor_of_two():
    counts = get_family("poisson")
    assert not MeanResponse(counts, 1.0, 0.2, 10.0).is_unsure
    assert MeanResponse(counts, 1.0, 0.3, 10.0).is_unsure


def test_the_public_threshold_of_scores_rises_with_the_budget():
    """Clipping rows of a wrong model biases slopes: more so, relative to noise, as the budget grows."""
    low, high = (plan.public_threshold(mu, 1000.0, 4) for mu in (0.25, 8.0))
    assert high / low == pytest.approx(2)


def test_noise_of_the_start_stays_where_steps_do_not_reach():
    """Along a direction of curvature 0, steps leave the start where it was, with all of its noise."""
    points, n_steps = np.zeros((3, 2)), 3
    steps = NewtonSteps(points, points, np.full(n_steps, 0.1), 1.0, np.zeros(2))
    _, variance = combined(steps, np.array([0.0, 1.0]), 4.0, 0.0)
    _, without = combined(steps, np.array([0.0, 1.0]), 0.0, 0.0)
    assert variance - without == pytest.approx([4.0, 0.0])


def line_of(n=3000):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, (n, 2)), np.ones(n)])
    return X, X @ [1.0, 0.5, 2.0] + rng.normal(0, 0.3, n)


def far_rows_of(made):
    (index,) = [k for k, each in enumerate(made.releases) if each.events[0].label == FAR_ROWS.label]
    return index, made.releases[index]


LINE = {"interval": 0.95, "intercept": True, "epsilon": 3.0}


def test_rows_far_away_widen_the_interval_of_an_intercept_before_it_is_given_up():
    X, y = line_of()
    first, _ = recorded("preconditioned_regression", Sample(X, y), LINE)
    index, release = far_rows_of(first)
    widths = []
    for size in (0.0, 2.0, 6.0):
        script = list(first.published)
        script[index] = np.full((1, 1), size * release.events[0].noise_multiplier)
        made, _ = recorded("preconditioned_regression", Sample(X, y), LINE, script)
        widths.append(made.interval.half_width[-1, 0])
    assert widths[1] > 1.01 * widths[0]
    assert np.isnan(widths[2])


def test_rows_with_a_cell_beyond_its_public_bound_count_as_far_away():
    X, y = line_of()
    moved = np.zeros((len(X), 4), dtype=np.int8)
    moved[:300, 0] = 1
    first, _ = recorded("preconditioned_regression", Sample(X, y), LINE)
    second, _ = recorded("preconditioned_regression", Sample(X, y, moved=moved), LINE, first.published)
    assert far_rows_of(second)[1].value - far_rows_of(first)[1].value == 300
    binned = {**LINE, "interval_target": "least squares"}
    made, _ = recorded("preconditioned_regression", Sample(X, y, moved=moved), binned)
    (shares,) = [each.value for each in made.releases if each.events[0].label == TAIL]
    assert shares[-1] == pytest.approx(0.1)  # of rows larger than all sizes
