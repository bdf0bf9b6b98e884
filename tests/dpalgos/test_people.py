"""People with several rows, and rows with weights, in the preconditioned regressions."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import statsmodels.api as sm
from threadpoolctl import threadpool_limits

import dpalgos
from dpalgos.api import build_params
from dpalgos.central.preconditioned.queries import joined_in
from dpalgos.central.preconditioned.scores import ScoreFunction
from dpalgos.core.rows import Rows
from dpalgos.hardened_release import release_plan, secure_spend
from dpalgos.models.families import get_family
from dpalgos.models.families.poisson import SingleEvents
from dpalgos.rows.products import row_products
from dpalgos.rows.sample import Sample
from dpalgos.rows.streams import StreamedRows
from dpalgos.rows.units import user_codes
from tests.contract.moves import largest_moves
from tests.contract.test_admitted_rows import far_row, recorded
from tests.dpalgos.test_glm import responses

B = {"epsilon": 1.0, "delta": 1e-6, "intercept": True}
KINDS = {"gaussian": sm.families.Gaussian, "logistic": sm.families.Binomial, "poisson": sm.families.Poisson}
HIGH = {"epsilon": 1e6, "delta": 1e-6, "intercept": True}


def units(**keywords):
    """Return an estimator with the keywords of people and weights."""
    return build_params(
        dpalgos.get_estimator("preconditioned_regression"), {"epsilon": 1.0, "delta": 1e-6, **keywords}
    )


def visits(n_people=2000, most=6, seed=0, family="gaussian"):
    rng = np.random.default_rng(seed)
    people = rng.permutation(np.repeat(np.arange(n_people), rng.integers(1, most + 1, n_people)))
    X = np.column_stack(
        [rng.uniform(-1, 1, len(people)), rng.uniform(-1, 1, n_people)[people], np.ones(len(people))]
    )
    predictor = X @ [0.5, -0.3, 0.2]
    own = 0.5 * rng.uniform(-1, 1, n_people)[people] if family == "gaussian" else 0.0
    return X, responses(family, predictor + own, rng), people


def fit(X, y, seed=0, **keywords):
    with np.errstate(all="ignore"):
        return dpalgos.estimate(
            "preconditioned_glm", X, y, rng=np.random.default_rng(seed), **{"family": "gaussian", **keywords}
        )


@pytest.mark.parametrize("family", ["gaussian", "logistic", "poisson"])
@pytest.mark.parametrize(
    ("by_person", "counting"),
    [
        (True, {}),
        (True, {"person_weight": "rows", "max_rows": 6}),
        (False, {"max_weight": 3.0}),
        (True, {"max_weight": 3.0}),
    ],
)
def test_without_noise_it_is_the_weighted_regression_that_the_keywords_name(family, by_person, counting):
    X, y, people = visits(family=family)
    weights = np.ones(len(y))
    if "max_weight" in counting:
        weights = np.random.default_rng(1).uniform(0.2, 3, len(y))
        counting = {**counting, "weights": weights}
    counts_once = by_person and "person_weight" not in counting
    result = fit(X, y, user_ids=people if by_person else None, family=family, **HIGH, **counting)
    var_weights = weights / np.bincount(people)[people] if counts_once else weights
    model = sm.GLM(y, X, family=KINDS[family](), var_weights=var_weights)
    np.testing.assert_allclose(np.ravel(result.estimate), model.fit().params, atol=2e-4)


def test_weights_are_clipped_to_their_public_maximum():
    X, y, _ = visits()
    weights = np.where(np.arange(len(y)) == 5, 1e9, 1.0)
    weights[7] = -4.0
    clipped = np.clip(weights, 0, 1)
    one, other = (fit(X, y, weights=each, max_weight=1.0, **B) for each in (weights, clipped))
    np.testing.assert_array_equal(one.estimate, other.estimate)


@pytest.mark.parametrize("family", ["gaussian", "logistic", "poisson"])
@pytest.mark.parametrize("interval", [None, 0.95])
def test_a_plan_by_the_released_total_costs_the_declared_budget(family, interval):
    """Whatever the total is: from weights that are all tiny to all at their maximum."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((800, 2)), np.ones(800)])
    y = responses(family, X @ [0.3, 0.2, 0.1], rng).astype(float)
    for weight in (1e-9, 0.01, 0.1, 0.4, 1.0):
        found = dpalgos.estimate(
            "preconditioned_glm",
            X,
            y,
            family=family,
            intercept=True,
            interval=interval,
            epsilon=2.0,
            delta=1e-6,
            max_weight=1.0,
            weights=np.full(800, weight),
            rng=np.random.default_rng(1),
        )
        assert 1.999 <= found.certified_epsilon <= 2.0, weight


WIDE = {  # weights with a maximum of 10 to 100 times the mean, and very small ones
    "uniform": lambda rng, n: (rng.uniform(0.5, 1.5, n), 30.0),
    "far maximum": lambda rng, n: (rng.uniform(0.5, 1.5, n), 100.0),
    "Pareto": lambda rng, n: ((rng.pareto(1.5, n) + 1) / 3, 15.0),
    "tiny": lambda rng, n: (np.full(n, 1e-7), 1.0),
}


@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("family", ["gaussian", "logistic", "poisson"])
def test_weights_far_below_their_maximum_lead_to_no_wild_estimate(family, kind):
    """Plans knew a third of all rows: estimates were off by up to 3·10¹²."""
    for seed in range(6):
        rng, n = np.random.default_rng(seed), (2000, 6000)[seed % 2]
        X = np.column_stack([rng.standard_normal((n, 2)).clip(-3, 3), np.ones(n)])
        weights, largest = WIDE[kind](rng, n)
        y = responses(family, X @ [0.4, -0.3, 0.2], rng)
        found = fit(X, y, seed, weights=weights, max_weight=largest, family=family, interval=0.95, **B)
        off = np.abs(found.estimate - [0.4, -0.3, 0.2]).max()
        assert off < 1 or found.cautions
        assert family != "gaussian" or np.abs(found.estimate[-1]) <= 2
        assert off < 6


def test_clipped_weights_are_a_caution():
    X, y, _ = visits(4000, most=1)
    weights = np.where(X[:, 0] > 0.8, 9.0, 1.0)
    clipped, whole = (fit(X, y, weights=weights, max_weight=most, **B) for most in (3.0, 9.0))
    assert [any("clipped" in one for one in each.cautions) for each in (clipped, whole)] == [True, False]


def test_rows_and_people_with_a_moved_cell_count_as_far_away():
    """A person with several of these rows counts once."""
    X, y, people = visits(100)
    is_moved = np.isin(people, people[[3, 50]])
    sides = np.zeros((len(X), 4))
    sides[is_moved, 1] = 1
    for family, ids in product(("gaussian", "logistic", "poisson"), (None, people)):
        sample = Sample(X, 1.0 * (y > 1), user_ids=ids, moved=sides).in_units()
        rows = Rows.of_sample(sample)
        scores = ScoreFunction(rows, get_family(family), np.eye(3), np.zeros(3)).at(np.zeros(3))
        moved = is_moved.sum() if ids is None else len(set(people[is_moved]))
        assert scores.far_rows(1e9).value.item() == moved


def test_secure_noise_is_for_the_number_of_people():
    X, y, people = visits(50)
    plan = release_plan("preconditioned_glm", len(y), 3, {"family": "gaussian", **B}, n_users=50)
    assert secure_spend(plan.estimator, Sample(X, y, user_ids=people))._n_rows == 50


@pytest.mark.parametrize("n_rows", [1, 400])
def test_warnings_do_not_depend_on_how_many_rows_people_have(n_rows):
    people = np.r_[np.zeros(n_rows, dtype=int), 1, 2]
    X = np.random.default_rng(0).uniform(-1, 1, (len(people), 5))
    with pytest.warns(UserWarning, match=r"fewer users \(3\) than columns \(5\)"):
        fit(X, X[:, 0], user_ids=people, epsilon=1.0, delta=0.1)


def test_people_of_one_row_each_are_rows():
    X, y, _ = visits(3000, most=1)
    rows, people = fit(X, y, interval=0.95, **B), fit(X, y, interval=0.95, user_ids=np.arange(3000), **B)
    np.testing.assert_allclose(people.estimate, rows.estimate, rtol=1e-6)
    np.testing.assert_allclose(people.interval, rows.interval, rtol=1e-6)
    assert (people.about.unit, people.about.n) == ("user", 3000)
    assert {event.relation.unit_of_privacy for event in people.events} == {"user"}


def units_of(n_first, family="gaussian", counting=None, more=0):
    """Return the sample in units of people, the first of whom has any number of rows; add columns."""
    X, y, people = visits(300, family=family)
    X = np.column_stack([X, np.random.default_rng(7).uniform(-1, 1, (len(X), more))])
    others = people != 0
    rng = np.random.default_rng(n_first)
    labels = {"gaussian": [-9.0, 9.0], "logistic": [0.0, 1.0], "poisson": [0.0, 90.0]}[family]
    first = rng.uniform(-9, 9, (n_first, 3 + more)), rng.choice(labels, n_first)
    sample = Sample(
        np.vstack([first[0], X[others]]),
        np.r_[first[1], y[others]],
        user_ids=np.r_[np.zeros(n_first, dtype=int), people[others]],
        moved=np.r_[np.ones((n_first, 4 + more)), np.zeros((others.sum(), 4 + more))],
    )
    return units(**(counting or {})).with_units(sample)


@pytest.mark.parametrize("layout", [np.asfortranarray, np.ascontiguousarray])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 1), (3, 8), (17, 17), (50, 3)])
def test_a_product_of_a_row_depends_on_no_other_row_bit_by_bit(d, k, layout):
    draws = np.random.default_rng(4)
    rows = draws.standard_normal((4100, d)) * 10.0 ** draws.integers(-3, 4, (4100, d))
    matrix = draws.standard_normal((d, k))
    products = row_products(layout(rows), layout(matrix))
    np.testing.assert_allclose(products, rows @ matrix, rtol=1e-12, atol=1e-9)
    for chosen in (slice(0, 1), slice(4095, 4100), slice(7, 4099), np.arange(5, 4100, 3)):
        np.testing.assert_array_equal(row_products(rows[chosen], matrix), products[chosen])


@pytest.mark.parametrize("layout", [np.asfortranarray, np.ascontiguousarray])  # BLAS sums them differently
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_what_is_computed_for_one_person_depends_on_no_other_bit_by_bit(family, layout):
    sums, lengths = [], []
    for n_first, n_threads in product((1, 2, 5, 4099), (1, 2, 3)):
        sample = units_of(n_first, family, more=14)
        (block,) = Rows.of_sample(sample).blocks
        vectors = joined_in(np.random.default_rng(8).standard_normal((18, 18)), with_response=True)
        with threadpool_limits(n_threads):
            lengths.append(vectors.lengths(replace(block, X=layout(block.X)))[n_first:])
        rows = ScoreFunction(
            Rows.of_sample(sample), get_family(family), np.eye(17) + 0.1, np.linspace(0.1, 0.3, 17)
        )
        sums.append(rows.at(np.linspace(-0.3, 0.2, 17)).sums[1:])
    for other in sums[1:]:
        np.testing.assert_array_equal(other, sums[0])
    for other in lengths[1:]:
        np.testing.assert_array_equal(other, lengths[0])


def persons_at_risk(n, n_periods, share, seed=0, n_first=0):
    """Rows [arm, 1] of person-periods with log hazards as offsets, events, and codes of persons.

    About this share of persons has an event within the periods, more of the second arm. The first person has
    ``n_first`` further rows.
    """
    rng = np.random.default_rng(seed)
    arm, end = rng.integers(0, 2, n), -np.log(1 - share)
    event = rng.exponential(size=n) / (np.exp(0.8 * arm) * end / n_periods)
    exposure = np.clip(event[:, None] - np.arange(n_periods), 0, 1)
    exposure[0, :n_first] = 1.0
    person, period = np.nonzero(exposure)
    offset = np.log(exposure[person, period] * end / n_periods) + 0.8 * arm[person]
    X = np.column_stack([offset, arm[person], np.ones(len(person))])
    return X, (np.ceil(event)[person] == period + 1) * 1.0, person


def scores_of_single_events(X, y, person, n_periods, *, streamed=False):
    rows = StreamedRows(lambda: [(X, y)], len(X)) if streamed else X
    sample = Sample(rows, None if streamed else y, user_ids=person).with_offset((-9.0, 9.0))
    sample = sample.in_units(max_rows=n_periods)
    white = ScoreFunction(
        Rows.of_sample(sample),
        SingleEvents(),
        np.eye(2),
        np.zeros(2),
        row_length=1.4 / n_periods,
        hazard_limit=1.4,
    )
    return white.at(np.zeros(2))


def clipped(scores, threshold):
    """Return the clipped scores of all persons, (persons, d)."""
    return np.concatenate([*scores._clipped(threshold)])


@pytest.mark.parametrize("share", [0.1, 0.6, 0.9])
@pytest.mark.parametrize("n_periods", [1, 3])
def test_scores_of_single_events_have_mean_zero_at_the_true_hazards(share, n_periods):
    """At a threshold that shortens all rows, however many persons have an event."""
    n = 40_000
    scores = clipped(
        scores_of_single_events(*persons_at_risk(n, n_periods, share), n_periods), 0.5 / n_periods
    )
    errors = scores.mean(axis=0) / (scores.std(axis=0) / np.sqrt(n))
    assert (np.abs(errors) < 3.5).all(), errors


def test_streams_that_divide_a_person_stop_follow_up_at_the_same_hazard():
    X, y, person = persons_at_risk(60_000, 3, 0.7)
    held, streamed = (
        scores_of_single_events(X, y, person, 3, streamed=streamed) for streamed in (False, True)
    )
    ends = [rows.stop for rows, _ in StreamedRows(lambda: [X], len(X)).blocks()][:-1]
    assert any(person[end - 1] == person[end] for end in ends)
    for query in (
        lambda scores: scores.clipped_mean(0.2),
        lambda scores: scores.curvature(0.2).clipped_mean(9.0),
    ):
        for _ in range(2):  # a second pass begins again
            np.testing.assert_allclose(query(streamed).value, query(held).value, rtol=1e-12)


def test_the_follow_up_of_one_person_depends_on_no_other_bit_by_bit():
    sums = [
        clipped(scores_of_single_events(*persons_at_risk(500, 16, 0.8, n_first=n_first), 16), 0.1)[1:]
        for n_first in (1, 2, 16)
    ]
    np.testing.assert_array_equal(sums[1], sums[0])
    np.testing.assert_array_equal(sums[2], sums[0])


def curvature_of_shares(first, theta):
    """Return the curvature of pieces of follow-up, times the number of persons, with its sensitivity.

    The first person has these rows (m, 2), and an event in the last one. 20 others have some rows.
    """
    rng = np.random.default_rng(1)
    others = np.repeat(np.arange(1, 21), rng.integers(1, 5, 20))
    X = np.concatenate([first, rng.standard_normal((len(others), 2))])
    person = np.append(np.zeros(len(first), dtype=int), others)
    y = np.append(np.arange(len(first)) == len(first) - 1, np.zeros(len(others)))
    sample = Sample(X, y, user_ids=person, row_shares=np.ones(len(X))).in_units()
    white = ScoreFunction(
        Rows.of_sample(sample), SingleEvents(), np.eye(2), np.zeros(2), row_length=1.4, hazard_limit=1.4
    )
    curvature = white.at(theta).curvature(1.0)
    counts = curvature.counts_above(np.array([0.5, 2.0]))
    found = curvature.clipped_mean(2.0)
    return found.value * 21, float(found.sensitivity) * 21, counts


def test_a_person_moves_the_curvature_of_shares_by_no_more_than_its_sensitivity():
    """Persons with many rows, along an axis or spread, of any length."""
    rng = np.random.default_rng(0)
    axes = [np.eye(2)[[k] * 40] * 9 for k in range(2)]
    spread = [rng.standard_normal((rng.integers(1, 50), 2)) * 10 ** rng.uniform(-1, 2) for _ in range(40)]
    moves, counts = [], []
    for theta in (np.zeros(2), np.array([0.5, -1.0])):
        found = [curvature_of_shares(first, theta) for first in (*axes, *spread)]
        moves += [np.linalg.norm(a - b) / bound for (a, bound, _), (b, _, _) in product(found, repeat=2)]
        counts += [np.abs(a - b).max() for (_, _, a), (_, _, b) in product(found, repeat=2)]
    assert max(moves) <= 1 + 1e-9
    assert max(moves) > 0.7
    assert max(counts) == 1


def test_a_person_moves_residuals_by_no_more_than_their_sensitivity():
    """One person with a large count against one with none; both bounds of q and t are attained."""
    moments = []
    for mean, count in [(8.0, 0.0), (-8.0, 900.0)]:
        X, y = np.full((2, 1), mean), np.array([count, 1.0])
        X[1] = 0.0
        sample = Sample(X, y, user_ids=np.arange(2)).in_units()
        rows = ScoreFunction(
            Rows.of_sample(sample), get_family("poisson"), np.eye(1), np.zeros(1), people_limit=2.0
        )
        moments.append(rows.at(np.ones(1)).residual_moments(10.0))
    moved = np.linalg.norm(moments[0].value - moments[1].value)
    assert moved == pytest.approx(float(moments[0].sensitivity), rel=1e-3)


def differing_people(seed, n=2000, m=10, variance=0.6):
    """Rows of persons whose counts differ by a gamma factor of mean 1."""
    rng = np.random.default_rng(seed)
    people = np.repeat(np.arange(n), m)
    own = np.column_stack([rng.standard_normal(n), rng.random(n) < 0.4])[people]
    X = np.column_stack([own, rng.standard_normal(n * m), np.ones(n * m)])
    factor = rng.gamma(1 / variance, variance, n)[people] if variance else 1.0
    return X, rng.poisson(np.exp(X @ FRAIL) * factor).astype(float), people


FRAIL = np.array([0.4, -0.3, 0.25, 0.2])


@pytest.mark.parametrize(("variance", "m"), [(0.6, 10), (1.0, 3)])
def test_counts_of_people_who_differ_have_right_slopes_and_no_interval(variance, m):
    """Scores were clipped at one threshold: slopes were biased by up to 14 % towards 0."""
    slopes, truth = [], FRAIL[:-1]
    for seed in range(30):
        X, y, people = differing_people(seed, 2000, m, variance)
        found = fit(X, y, seed, family="poisson", user_ids=people, interval=0.95, **{**B, "epsilon": 3.0})
        slopes.append(found.estimate[:-1])
        assert np.isnan(found.interval).all()
    assert np.abs(np.mean(slopes, axis=0) / truth - 1).max() < 0.1


def test_counts_of_people_alike_have_an_interval_of_their_intercept():
    X, y, people = differing_people(3, 20_000, 4, 0.0)
    found = fit(X, y, family="poisson", user_ids=people, interval=0.95, **{**B, "epsilon": 3.0})
    assert found.interval[0, -1] < 0.2 < found.interval[1, -1]


def test_at_most_so_many_rows_of_a_person_count():
    sample = units_of(50, counting={"person_weight": "rows", "max_rows": 3})
    own = np.bincount(sample.units.codes, weights=sample.units.weights)
    assert own.max() <= 1 + 1e-12
    assert own[0] == pytest.approx(1)


@pytest.mark.parametrize("keywords", [{"lower": -1.0, "upper": 1.0}, {"value_bound": 1.0}])
def test_means_over_people_are_means_of_their_means(keywords):
    X, _, people = visits()
    name, budget = "box_mean" if "lower" in keywords else "dp_mean", {"epsilon": 1.0, "delta": 1e-6}
    means = (
        np.column_stack([np.bincount(people, weights=column) for column in X.T])
        / np.bincount(people)[:, None]
    )
    rng = np.random.default_rng
    asked = {**budget, **keywords, "interval": 0.95}
    of_people = dpalgos.estimate(name, X, user_ids=people, rng=rng(0), **asked)
    of_means = dpalgos.estimate(name, means, rng=rng(0), **asked)
    np.testing.assert_allclose(of_people.interval, of_means.interval, rtol=1e-9)
    assert (of_people.about.unit, of_people.about.n) == ("user", 2000)
    mask = np.column_stack([people % 2 == 0, people % 3 == 0])
    masked = dpalgos.estimate(name, X, user_ids=people, row_mask=mask, replicates=2, rng=rng(0), **asked)
    assert masked.estimate.shape == (3, 2)
    assert np.abs(masked.estimate.mean(axis=1) - means.mean(axis=0)).max() < 0.1


def far_person(rng, n_rows, family):
    """Return rows of any size, with responses of the family and weights."""
    rows, responses = zip(*(far_row(rng, 3) for _ in range(n_rows)), strict=True)
    X, y = np.clip(np.array(rows), -1e60, 1e60), np.clip(np.array(responses), -1e60, 1e60)
    X[:, -1] = 1.0
    y = {"gaussian": y, "logistic": (y > 0) * 1.0, "poisson": np.floor(np.abs(y))}[family]
    return X, y, rng.choice([0.0, 1.0, -3.0, 1e30], n_rows)


COUNTING = [{}, {"person_weight": "rows", "max_rows": 4}, {"max_weight": 2.0}]


def assert_no_person_shows(rng, family, counting, interval):
    X, y, people = visits(int(rng.choice([40, 150])), family=family)
    X[:, -1], others = 1.0, people != 0
    keywords = {
        "epsilon": float(rng.choice([0.3, 3.0, 30.0])),
        "delta": 1e-5,
        "family": family,
        "intercept": True,
    }
    keywords |= counting | interval
    estimator = dpalgos.get_estimator("preconditioned_glm").for_unit(people=True)
    params = estimator.parameters.build(estimator.name, keywords)
    before = first = None
    weights = rng.uniform(0, 3, others.sum())
    for n_rows in rng.choice([1, 2, 7, 60], 2):
        far_X, far_y, far_weights = far_person(rng, n_rows, family)
        sample = Sample(
            np.vstack([far_X, X[others]]),
            np.r_[far_y, y[others]],
            user_ids=np.r_[np.zeros(n_rows, dtype=int), people[others]],
            row_weights=np.r_[far_weights, weights] if "max_weight" in counting else None,
        )
        run, answer = recorded(estimator, params, sample, before)
        if before is not None:
            np.testing.assert_array_equal(answer, first)
            moves = largest_moves(before, run)
            assert max(moves.values()) <= 1 + 1e-9, moves
        before, first = run, answer


@pytest.mark.parametrize(
    "interval", [{}, {"interval": 0.95}, {"interval": 0.9, "interval_target": "least squares"}]
)
@pytest.mark.parametrize("counting", COUNTING)
@pytest.mark.parametrize("family", ["gaussian", "logistic", "poisson"])
def test_no_person_that_is_admitted_shows(family, counting, interval):
    rng = np.random.default_rng(0)
    for _ in range(4):
        assert_no_person_shows(rng, family, counting, interval)


@pytest.mark.parametrize("counting", COUNTING)
def test_a_person_of_little_weight_moves_a_mean_response_far_from_zero_by_its_sensitivity(counting):
    """Without slopes, the mean response is released about its center."""
    n, rng, largest = 300, np.random.default_rng(5), {}
    keywords = {"epsilon": 1.0, "delta": 1e-5, "intercept": True} | counting
    estimator = dpalgos.get_estimator("preconditioned_regression").for_unit(people=True)
    params = estimator.parameters.build(estimator.name, keywords)
    for _ in range(6):
        X, y = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)]), 1e3 + rng.normal(size=n)
        people, before = np.r_[np.arange(n - 3), np.zeros(3, dtype=int)], None
        for n_rows, weight in ((4, 2.0), (1, 1e-9)):
            used = (people != 0) | (np.cumsum(people == 0) <= n_rows)
            weights = np.where(people == 0, weight, 1.0)[used] if "max_weight" in counting else None
            sample = Sample(X[used], y[used], user_ids=people[used], row_weights=weights)
            run, _ = recorded(estimator, params, sample, before)
            if before is not None:
                for label, moved in largest_moves(before, run).items():
                    largest[label] = max(largest.get(label, 0.0), moved)
            before = run
    assert "mean response" in largest
    assert max(largest.values()) <= 1 + 1e-9, largest


@pytest.mark.parametrize("made", [list, np.array, lambda ids: np.array(ids, dtype=object)])
def test_ids_that_look_the_same_are_one_person(made):
    ids = ["\u00b51", "\u03bc1", "caf\u00e9", "cafe\u0301", "other"]
    assert len(set(user_codes(made(ids), 5))) == 3
    assert user_codes(made(ids), 5)[0] == user_codes(made(ids), 5)[1]
