"""Intervals cover, count all noise, are paid for, and are left out where they would not be honest."""

import numpy as np
import pandas as pd
import pytest
import scipy
import statsmodels.api as sm
from scipy.special import expit, ndtr, ndtri

import dpalgos
from dpalgos import formula
from dpalgos import interval as reasons
from dpalgos.accounting.composition import budget_shares
from dpalgos.accounting.events import Gaussian
from dpalgos.accounting.other_events import Cube
from dpalgos.central.preconditioned.plan import WHITE_MOMENTS
from dpalgos.coefficients import guarantee_of
from dpalgos.core.hardened_noise import SecureSpend
from dpalgos.core.spend import Spend
from dpalgos.intervals.half_widths import coordinate_quantile, coordinate_std, half_widths, normal_equivalent
from dpalgos.intervals.regression import ScoreCurvature, center_of, error_of
from dpalgos.mechanisms.sensitivity import Bounded, count
from dpalgos.models.newton_steps import NewtonSteps
from dpalgos.release.noise_source import Noise
from dpalgos.rows.symmetric import unsvec
from tests.dpalgos.silence import estimated

MEAN = np.array([0.5, 0.0, -1.0])
COEF = np.array([1.0, -0.5, 0.25])
GLM_COEF = np.array([0.8, -0.4, 0.2])
LOCAL_COEF = np.array([0.5, -0.3, 0.2])
MEANS = {
    "dp_mean": {"value_bound": 5.0},
    "clipped_mean": {"mean_bound": 2.0, "std_bounds": (1.0, 1.0)},
    "coinpress_mean": {"mean_bound": 2.0, "std_bound": 1.0},
    "box_mean": {"lower": -6.0, "upper": 5.0},
    "karwa_vadhan_mean": {"mean_bound": 2.0, "std_bounds": (1.0, 1.0)},
}
LOCAL = {"covariate_bound": 1.0, "response_bound": 2.0, "mechanism": "l2"}
LOCAL |= {"covariance_eigenvalue_bounds": (0.3, 0.4)}
MEAN_OF_USERS = {"value_bound": 4.0, "concentration_radius": 3.0, "range_failure": 1.0}


def normal(rng):
    return MEAN + rng.standard_normal((1500, 3)), None


def regression(rng, n=4000):
    """Errors spread with the first column."""
    X = rng.standard_normal((n, 3))
    return X, X @ COEF + 0.7 * np.sqrt(0.5 + X[:, 0] ** 2 / 2) * rng.standard_normal(n)


def responses(family):
    def rows(rng):
        X = rng.standard_normal((5000, 3))
        u = X @ GLM_COEF
        return X, rng.binomial(1, expit(u)) if family == "logistic" else rng.poisson(np.exp(u))

    return rows


def of_devices(rng, n=20_000):
    X = rng.uniform(-1, 1, (n, 3))
    return X, X @ LOCAL_COEF + rng.uniform(-0.5, 0.5, n)


def with_few_public_rows(rng):
    """Their sampling error is most of the error."""
    return *of_devices(rng, 30_000), {"public_X": of_devices(rng, 20)[0]}


def of_users(rng):
    """Users of 5 rows whose own means differ: the sampling error is that of users, not of their rows."""
    own = MEAN + 0.5 * rng.standard_normal((1500, 1, 3))
    X = (own + 0.1 * rng.standard_normal((1500, 5, 3))).reshape(-1, 3)
    return X, None, {"user_ids": np.repeat(np.arange(1500), 5)}


def one_column_of_users(rng):
    """Whether any was clipped must stand out from Laplace noise."""
    return 0.3 + 0.5 * rng.standard_normal((1000, 1)), None, {"user_ids": np.arange(1000)}


EVENTS, CORRELATED = np.array([2.0, -1.0, 0.5, 0.0, 0.3]), np.array([1.0, -0.5, 0.3, 0.0, 0.2])
COUNTS = np.array([0.5, -0.3, 0.1, 1.5])


def of_strong_slopes(rng):
    X = np.column_stack([rng.standard_normal((3000, 4)), np.ones(3000)])
    return X, (rng.random(3000) < expit(X @ EVENTS)).astype(float)


def overdispersed(rng):
    """Clipping takes part of the slopes; the intercept has no interval."""
    X = np.column_stack([rng.standard_normal((6000, 3)), np.ones(6000)])
    return X, rng.poisson(np.exp(X @ COUNTS + 0.8 * rng.standard_normal(6000) - 0.32)).astype(float)


UNEVEN = np.array([0.2, 0.0, 1.0])


def unevenly_spread(rng):
    """Clipping takes more of one group's mean than of the other's, whose means are equal."""
    group = (np.arange(4000) % 2).astype(float)
    X = np.column_stack([rng.standard_normal(4000), group, np.ones(4000)])
    return X, rng.poisson(np.exp(X @ UNEVEN) * rng.gamma(k := np.where(group, 0.5, 4.0), 1 / k)).astype(float)


def people_unevenly_spread(rng):
    """As before, for people with three rows each."""
    group, person = (np.arange(3000) % 2).astype(float), np.repeat(np.arange(3000), 3)
    X = np.column_stack([rng.standard_normal(3000), group, np.ones(3000)])[person]
    factor = rng.gamma(k := np.where(group, 0.5, 4.0), 1 / k)[person]
    return X, rng.poisson(np.exp(X @ UNEVEN) * factor).astype(float), {"user_ids": person}


def correlated(correlation, n):
    def rows(rng):
        X = np.column_stack([rng.standard_normal((n, 4)), np.ones(n)])
        X[:, 1] = correlation * X[:, 0] + np.sqrt(1 - correlation**2) * X[:, 1]
        return X, X @ CORRELATED + rng.standard_normal(n)

    rows.__name__ = f"correlated by {correlation}"
    return rows


def spread_by(std, n):
    """The noise of the steps makes most of the error, or sampling does."""

    def rows(rng):
        X = np.column_stack([rng.standard_normal((n, 2)), np.ones(n)])
        return X, X @ COEF + std * rng.standard_normal(n)

    rows.__name__ = f"spread by {std}"
    return rows


MAIN = "preconditioned_regression"
PUBLIC = {**LOCAL, "public_X": of_devices(np.random.default_rng(7))[0]}
FEW_PUBLIC = {**LOCAL, "covariance_eigenvalue_bounds": (0.1, 0.4)}
ONE = {"intercept": True}
LEAST_SQUARES_COUNTS = {**ONE, "family": "poisson", "interval_target": "least squares"}
COVERED = [  # estimator, rows, their truth, repetitions, ε, keywords, and the least share of intervals
    *((name, normal, MEAN, 150, 0.5, asked, 0.3) for name, asked in MEANS.items()),
    *((name, normal, MEAN, 150, 5.0, asked, 0.9) for name, asked in MEANS.items()),
    *((MAIN, regression, COEF, 60, epsilon, {}, 0.3) for epsilon in (0.7, 30.0)),
    *(  # where noise, and where sampling error, decides
        ("preconditioned_glm", responses(family), GLM_COEF, 40, epsilon, {"family": family}, 0.3)
        for family in ("logistic", "poisson")
        for epsilon in (1.0, 30.0)
    ),
    ("preconditioned_glm", of_strong_slopes, EVENTS, 100, 1.0, {**ONE, "family": "logistic"}, 0.3),
    ("preconditioned_glm", overdispersed, COUNTS, 100, 1.0, {**ONE, "family": "poisson"}, 0.7),
    ("preconditioned_glm", unevenly_spread, UNEVEN, 60, 3.0, {**ONE, "family": "poisson"}, 0.6),
    ("preconditioned_glm", people_unevenly_spread, UNEVEN, 25, 3.0, LEAST_SQUARES_COUNTS, 0.6),
    (MAIN, correlated(0.97, 5000), CORRELATED, 100, 1.0, ONE, 0.9),
    (MAIN, correlated(0.9, 3000), CORRELATED, 100, 1.0, ONE, 0.9),
    (MAIN, spread_by(0.05, 20_000), COEF, 150, 0.3, {}, 0.9),
    (MAIN, spread_by(1.0, 1_000), COEF, 150, 30.0, {}, 0.9),
    ("ldp_nldp", of_devices, LOCAL_COEF, 25, 4.0, LOCAL, 0.9),
    ("ldp_nldp_public", of_devices, LOCAL_COEF, 25, 4.0, PUBLIC, 0.9),
    ("ldp_nldp_public", with_few_public_rows, LOCAL_COEF, 25, 60.0, FEW_PUBLIC, 0.9),
    *(
        ("user_level_mean", *law, {**MEAN_OF_USERS, "aggregation": kind}, there)
        for kind in ("winsorized", "clipped")
        for *law, there in ((of_users, MEAN, 50, 8.0, 0.9), (one_column_of_users, 0.3, 150, 2.0, 0.5))
    ),
]


def covered(name, rows, truth, n_runs, epsilon, seed=0, **keywords):
    """Return which coordinates of which runs an interval covers, nan where there is none; and its width.

    The width is over that of the errors of its middle. ``rows`` makes X and y, and keywords if need be.
    """
    hits, half_widths, errors = [], [], []
    for rng in np.random.default_rng(seed).spawn(n_runs):
        X, y, *own = rows(rng)
        ask = {"epsilon": epsilon, "delta": 1e-6, **keywords, **(own[0] if own else {})}
        lower, upper = dpalgos.estimate(name, X, y, rng=rng, interval=0.95, **ask).interval
        hits.append(np.where(np.isnan(lower), np.nan, (lower < truth) & (truth < upper)))
        half_widths.append((upper - lower) / 2)
        errors.append((upper + lower) / 2 - truth)
    size = 1.96 * np.sqrt(np.nanmean(np.square(errors), axis=0))
    return np.array(hits), np.nanmedian(half_widths, axis=0) / size


@pytest.mark.parametrize("case", COVERED, ids=lambda case: f"{case[0]} {case[1].__name__} {case[4]}")
def test_intervals_cover(case):
    """Every coordinate, within four standard errors; bounds on the bias of means and counts are wide."""
    *asked, keywords, there = case
    hits, width = covered(*asked, **keywords)
    assert np.isfinite(hits).mean() > there
    assert np.nanmax(width) < (4.5 if "mean" in case[0] else 2)
    for each in hits.T[np.isfinite(hits).any(axis=0)]:
        assert np.nanmean(each) > 0.94 - 4 * np.sqrt(0.05 * 0.95 / np.isfinite(each).sum())


def curved(rng):
    """As y = 3 log x: the line's residuals, and so the clipped scores, are far on one side."""
    X = np.exp(0.8 * rng.standard_normal((20_000, 3)))
    return X, 3 * np.log(X[:, 0]) + rng.standard_normal(len(X))


def line_of(rows):
    pieces = [rows(rng) for rng in np.random.default_rng(1).spawn(50)]
    return np.linalg.solve(sum(X.T @ X for X, _ in pieces), sum(X.T @ y for X, y in pieces))


BEYOND = {  # tables of two columns, of which some entries lie beyond the bounds
    "1 % of ones": lambda rng: 1.0 * (rng.random((20_000, 2)) < 0.01),
    "0.1 % of ones": lambda rng: 1.0 * (rng.random((20_000, 2)) < 0.001),
    "hidden": lambda rng: np.where(rng.random((20_000, 2)) < 0.001, 30.0, rng.standard_normal((20_000, 2))),
    "skewed": lambda rng: np.exp(1.5 * rng.standard_normal((10_000, 2))),
    "beyond a box": lambda rng: np.exp(rng.standard_normal((2000, 2))),
    "heavy tails": lambda rng: rng.pareto(2.5, (10_000, 2)),
}
NARROW = {"mean_bound": 1.0, "std_bounds": (0.01, 1.0)}
FEW_FAILURES, SQUARES = {"delta": 20_000.0**-2}, {"interval_target": "least squares"}
CLIPPED = [  # estimator, rows, their truth, ε, keywords, the range of the share of intervals, and of misses
    ("karwa_vadhan_mean", "1 % of ones", 0.01, 1.0, NARROW, (0, 0.4), 0.05),
    ("karwa_vadhan_mean", "0.1 % of ones", 0.001, 1.0, NARROW, (0, 0.4), 0.05),
    ("dp_mean", "skewed", np.exp(1.125), 1.0, {"value_bound": 30.0}, (0, 0.4), 0.05),
    ("box_mean", "beyond a box", np.exp(0.5), 1.0, {"lower": 0.0, "upper": 5.18}, (0, 1), 0.05),
    ("coinpress_mean", "heavy tails", 1 / 1.5, 1.0, {"mean_bound": 5.0, "std_bound": 1.5}, (0, 0.4), 0.05),
    ("dp_mean", "hidden", 0.03, 1.0, {**MEANS["dp_mean"], **FEW_FAILURES}, (0.5, 1), 0.06),
    ("coinpress_mean", "hidden", 0.03, 1.0, {**MEANS["coinpress_mean"], **FEW_FAILURES}, (0.5, 1), 0.06),
    (MAIN, curved, line_of(curved), 1.0, SQUARES, (0, 1), 0.06),
]


@pytest.mark.parametrize("case", CLIPPED, ids=lambda case: f"{case[0]} {case[1]}".partition(" at 0x")[0])
def test_what_clipping_moves_is_covered_or_has_no_interval(case):
    name, rows, truth, epsilon, keywords, (fewest, most), misses = case
    draw = (lambda rng: (BEYOND[rows](rng), None)) if rows in BEYOND else rows
    hits, _ = covered(name, draw, truth, 25, epsilon, **keywords)
    assert fewest <= np.isfinite(hits).mean() <= most
    assert (hits == 0).mean() < misses


MOVED = np.minimum(np.random.default_rng(0).standard_exponential((20_000, 2)), 1.5)
SKEWED = np.random.default_rng(0).exponential(size=(20_000, 3))


def collinear():
    rng = np.random.default_rng(0)
    X, y = regression(rng, 20_000)
    return np.column_stack([X, X[:, 2] + 0.001 * rng.standard_normal(len(X))]), y


NONE = [  # estimator, rows and response, keywords, columns without an interval, and a word of the note
    ("dp_mean", (SKEWED, None), {"value_bound": 1.0}, [0, 1, 2], "clipping"),
    ("clipped_mean", (SKEWED, None), {"center": 0.0, "clip_norm": 1.5}, [0, 1, 2], "clipping"),
    ("box_mean", (SKEWED, None), {"lower": 0.0, "upper": 1.0}, [0, 1, 2], "clipping"),
    (MAIN, collinear(), {}, [2, 3], "direction"),
]


@pytest.mark.parametrize("case", NONE, ids=lambda case: f"{case[0]} {[*case[2]][-1:]}")
def test_where_clipping_may_have_moved_an_answer_or_noise_hides_it_there_is_no_interval(case):
    name, (X, y), keywords, columns, word = case
    asked = {"epsilon": 5.0, "delta": 1e-9, "interval": 0.9, **keywords}
    result = estimated(name, X, y, seed=1, **asked)
    others = np.delete(result.interval, columns, axis=1)
    assert np.isnan(result.interval[:, columns]).all()
    assert np.isfinite(others).all()
    assert word in result.intervals.note


TARGETS = [("dp_mean", ""), ("box_mean", ""), ("clipped_mean", ""), (MAIN, "robust"), (MAIN, "least squares")]


@pytest.mark.parametrize(("name", "target"), TARGETS)
def test_cells_that_were_moved_to_a_bound_count_as_clipped(name, target):
    moved, y = (MOVED == 1.5).astype(np.int8), None
    keywords = {**MEANS, MAIN: {"interval_target": target}}[name]
    if target:
        y = MOVED.sum(axis=1) + np.random.default_rng(0).standard_normal(len(MOVED))
    ask = {"epsilon": 3.0, "delta": 1e-6, "interval": 0.95, **keywords}
    samples = (dpalgos.Sample(MOVED, y, moved=one) for one in (None, moved))
    plain, told = (estimated(name, sample, seed=1, **ask) for sample in samples)
    np.testing.assert_array_equal(plain.estimate, told.estimate)
    assert np.isfinite(plain.interval).all()
    assert np.isnan(told.interval).all()


@pytest.mark.parametrize("size", [1, 2, 5, 30])
def test_noise_in_a_cube_reaches_as_far_as_is_counted(size):
    noise = Noise([np.random.default_rng(0)] * 1)
    drawn = np.concatenate([noise.box(size)[0] for _ in range(20_000)])
    assert drawn.std() == pytest.approx(coordinate_std(size), rel=0.03)
    normal = np.random.default_rng(1).standard_normal(drawn.size)
    for level in (0.5, 0.9, 0.95, 0.99):
        assert (np.abs(drawn) <= coordinate_quantile(size, level)).mean() == pytest.approx(level, abs=0.012)
        for other in coordinate_std(size) * np.array([0.0, 0.5, 1.0, 3.0]):  # alone, and with normal errors
            reach = ndtri((1 + level) / 2) * np.hypot(normal_equivalent(size, level), other)
            assert (np.abs(drawn + other * normal) <= reach).mean() > level - 0.01


def test_the_answer_with_an_interval_is_the_plain_one_on_most_of_the_budget():
    """Each release of the plain answer has a little more noise, which the interval's own releases pay for."""
    X, y = regression(np.random.default_rng(0), 3000)
    asked = {"epsilon": 0.7, "delta": 1e-7}
    plain, told = (estimated(MAIN, X, y, interval=level, **asked) for level in (None, 0.95))
    shares = budget_shares(told.events, asked["delta"])
    own = {event.label for event in told.events} - {event.label for event in plain.events}
    own -= {WHITE_MOMENTS}  # they are in place of a step
    assert own
    assert 0.02 < sum(shares[label] for label in own) < 0.3
    by_label = {event.label: event.noise_multiplier for event in told.events}
    widened = np.sqrt(1 / (1 - sum(shares[label] for label in own)))
    for event in plain.events:
        assert by_label[event.label] == pytest.approx(widened * event.noise_multiplier, rel=0.02), event.label


def test_an_interval_counts_the_noise_of_the_curvature():
    """A step on noisy curvature errs by the noise times the step."""
    n, d, std, truth, rng = 4000, 3, 0.05, np.array([2.0, 1.0, 0.0]), np.random.default_rng(0)
    zero, off, variances = np.zeros(d), [], []
    for noise in unsvec(std * rng.standard_normal((d * (d + 1) // 2, n)), d):
        values, vectors = np.linalg.eigh(np.eye(d) + noise)
        spread = np.full((d, d), std**2)
        curvature = ScoreCurvature(vectors, values, spread, values < 0, zero, 1.0, std)
        steps = NewtonSteps(zero[None], truth[None], np.full(1, 1e-9), 1.0, zero)
        center = center_of(curvature, steps)
        error = error_of(curvature, center, np.zeros((d, d)), 0.0, np.eye(d), 1.0)
        off.append(center.theta - truth)
        variances.append(error.variance)
    np.testing.assert_allclose(np.mean(variances, axis=0), np.var(off, axis=0), rtol=0.25)


def test_what_an_interval_would_be_without_noise_is_at_the_level_that_was_asked():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 3))
    y = X @ COEF[:3] + rng.standard_normal(500)
    ask = {**dpalgos.get_estimator(MAIN).example, "epsilon": 5.0, "delta": 1e-5}
    narrow, wide = (estimated(MAIN, X, y, seed=1, interval=e, **ask).intervals for e in (0.5, 0.99))
    ratio = wide.without_noise / narrow.without_noise
    np.testing.assert_allclose(ratio, 2.575829 / 0.674490, rtol=1e-5)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_half_widths_cover_however_noisy_the_released_variance_is(level):
    noisy = np.random.default_rng(0).standard_normal(20_000)
    for noise in (0.0, 0.1, 1.0, 10.0):
        for unsure in (0.05, 0.3, 0.5, 0.8, 1.0, 3.0, 10.0):  # of a sampling variance of 1
            variance = noise + np.maximum(1 + unsure * noisy, 0)
            reach = half_widths(level, variance, unsure) / np.sqrt(noise + 1)
            assert (2 * ndtr(reach) - 1).mean() > level - 0.005, (noise, unsure)
            assert reach.mean() < ndtri((1 + level) / 2) * np.sqrt(1 + 2 * unsure / (noise + 1))


def test_every_private_interval_is_a_form_that_the_contract_and_the_audits_test():
    for estimator in dpalgos.catalog():
        if estimator.private:
            tested = "interval" in estimator.forms
            assert estimator.has_interval == tested, estimator.name
            assert not tested or estimator.forms["interval"].keywords["interval"] == 0.95
            assert not (estimator.has_interval and estimator.no_interval), estimator.name


def test_intervals_of_means_without_privacy_are_those_of_statsmodels_and_one_row_has_none():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    means = dpalgos.estimate("sample_mean", X, rng=rng, interval=0.9).interval
    np.testing.assert_allclose(means, sm.stats.DescrStatsW(X).tconfint_mean(0.1))
    assert np.isnan(dpalgos.estimate("ols", X[:1], X[:1, 0], rng=rng, interval=0.9).interval).all()


def test_hardened_noise_is_counted_with_its_grid_and_its_inflation():
    plan = {"v": Gaussian(3.0, times=2001), "in a cube": Cube(0.5)}
    plain, hardened = Spend(Noise([np.random.default_rng(0)])), SecureSpend(inflation=1.5)
    moved = Bounded(np.zeros(4), np.asarray(0.01), count.formula)
    for spend, factor in ((plain, 1.0), (hardened, 1.5)):
        spend.start(plan, {"v": (count,), "in a cube": (count,)})
        assert 0.03 * factor <= spend("v", moved).std <= 0.03 * factor * 1.01
        scale = spend("in a cube", moved).std / np.sqrt(10)
        assert 0.02 * factor <= scale <= 0.02 * factor * 1.01
    draws, stds = zip(*(hardened("v", moved._replace(value=np.zeros(1))) for _ in range(2000)), strict=True)
    assert np.std(draws) == pytest.approx(float(stds[0]), rel=0.11)


def rows_with_far_ones(n, n_far):
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.standard_normal((n, 4)), np.ones(n)])
    y = X @ [0.5, -0.3, 0.2, 0.0, 1.0] + rng.standard_normal(n)
    y[:n_far] += 40
    return X, y


@pytest.mark.parametrize(
    ("n", "epsilon", "n_far", "least", "most"),
    [(8000, 1.0, 0, 0.0, 0.06), (20_000, 3.0, 0, 0.0, 0.06), (8000, 1.0, 60, 0.9, 1.0)],
)
def test_an_interval_of_least_squares_is_missing_for_far_rows_and_seldom_without(
    n, epsilon, n_far, least, most
):
    X, y = rows_with_far_ones(n, n_far)
    asked = {"epsilon": epsilon, "delta": 1e-6, "intercept": True, **SQUARES}
    found = estimated("preconditioned_regression", X, y, seed=6, replicates=200, interval=0.95, **asked)
    assert least <= np.isnan(found.interval).any(axis=(0, 1)).mean() <= most


def near_complementary():
    """Return rows, labels and their fit: rows with both of the first two columns are rare and far."""
    rng, n = np.random.default_rng(11), 30_000
    first = (rng.random(n) < 0.45).astype(float)
    second, both = 1 - first, rng.choice(n, 190, replace=False)
    first[both] = second[both] = 1
    X = np.column_stack([first, second, rng.random(n) < 0.2, rng.standard_normal((n, 2)), np.ones(n)])
    coef = np.array([0.2, -0.3, 0.4, 0.5, -0.2, -1.0])
    y = (rng.random(n) < scipy.special.expit(X @ coef)).astype(float)
    return X, y, dpalgos.estimate("glm", X, y, family="logistic", rng=rng).estimate


def test_coefficients_that_noise_hides_are_shrunk_and_have_a_caution():
    """Of the first two slopes only the difference is known. Without a floor noise moves them by 4 to 6."""
    X, y, fit = near_complementary()
    asked = {"family": "logistic", "intercept": True, "epsilon": 0.3, "delta": 1e-9}
    found = estimated("preconditioned_glm", X, y, seed=4, replicates=40, **asked)
    assert np.abs(found.estimate[:2] - fit[:2, None]).max() < 2
    assert found.diagnostics["unresolved_directions"].min() >= 1


@pytest.mark.parametrize(("epsilon", "most"), [(1.0, 16), (3.0, 2)])
def test_intervals_of_near_complementary_columns_cover_or_are_missing(epsilon, most):
    """Clipping scores by their own size biases slopes."""
    X, y, fit = near_complementary()
    asked = {"family": "logistic", "intercept": True, "epsilon": epsilon, "delta": 1e-9, "interval": 0.95}
    found = estimated("preconditioned_glm", X, y, seed=4, replicates=40, **asked).intervals
    missing = np.isnan(found.half_width)
    assert missing.sum(axis=1).max() <= most
    assert ((np.abs(found.center - fit[:, None]) <= found.half_width) | missing).mean(axis=1).min() > 0.92
    assert np.median(found.center[0]) == pytest.approx(fit[0], abs=0.4 / epsilon)


@pytest.mark.parametrize(
    ("spread", "epsilon", "least", "most"), [(0, 1, 0, 0.15), (0.8, 1, 1, 1), (0.8, 0.3, 0.75, 1)]
)
def test_the_intercept_of_counts_is_right_and_has_no_interval_where_they_are_overdispersed(
    spread, epsilon, least, most
):
    rng, coef = np.random.default_rng(3), np.array([0.3, -0.2, 0.1, 0.3])
    X = np.column_stack([rng.standard_normal((6000, 3)), np.ones(6000)])
    factor = np.exp(spread * rng.standard_normal(6000) - spread**2 / 2)
    y = rng.poisson(np.exp(X @ coef) * factor).astype(float)
    asked = {"family": "poisson", "intercept": True, "epsilon": epsilon, "delta": 1e-6, "interval": 0.95}
    found = estimated("preconditioned_glm", X, y, seed=5, replicates=30, **asked).intervals
    has_none = np.isnan(found.half_width[-1])
    assert least <= has_none.mean() <= most
    if not spread:
        # It would be 0.07 in the units of the response.
        assert np.nanmedian(found.half_width[-1]) < 0.06
        assert (np.abs(found.center[-1] - coef[-1]) <= found.half_width[-1])[~has_none].mean() > 0.85


def test_counts_of_people_who_differ_have_no_interval():
    """Their spread depends on a column: clipping moved its slope by four half-widths."""
    X, y, people = people_unevenly_spread(np.random.default_rng(2))
    for seed in range(8):
        ask = {**ONE, "family": "poisson", "epsilon": 3.0, "delta": 1e-6, "interval": 0.95, **people}
        found = estimated("preconditioned_glm", X, y, seed=seed, **ask).intervals
        assert np.isnan(found.half_width).all()
        assert reasons.DISPERSED in found.note


def test_the_intercept_covers_the_mean_of_skewed_errors():
    """Residuals that were clipped at two to three standard deviations had a mean that is too low."""
    hits = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.standard_normal((20_000, 3)), np.ones(20_000)])
        y = X @ [0.5, -0.3, 0.0, 0.3] + 0.5 * (np.exp(rng.standard_normal(20_000)) - np.exp(0.5))
        asked = {"intercept": True, "epsilon": 1.0, "delta": 1e-8, "interval": 0.95}
        low, high = estimated("preconditioned_regression", X, y, seed=seed, **asked).interval[:, -1]
        hits.append(low <= 0.3 <= high)
    assert np.mean(hits) > 0.8


@pytest.mark.parametrize("level", [0.95, 0.975, 0.995, 0.9999])
def test_the_level_of_intervals_is_written_as_it_was_asked_for(level):
    assert f" {100 * level:.6g}% intervals" in guarantee_of("row", 1.0, 1e-6, level)


def shape_of(kind):
    """Return rows of two covariates, of which x lies within ±4 and y within the bounds of its kind."""
    rng, n = np.random.default_rng(8), 4000
    x, z = rng.standard_normal(n).clip(-3.9, 3.9), rng.integers(0, 2, n)
    linear = 0.4 * x + 0.3 * z
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "person": np.arange(n) // 2,
            "line": linear + rng.uniform(-1, 1, n),
            # With more rows far out, thresholds rise to them, and they are no longer outliers.
            "cost": np.where(np.arange(n) % 120, np.exp(linear + rng.standard_normal(n)), 900),
            "event": (rng.random(n) < expit(linear)).astype(int),
            "visits": rng.poisson(np.exp(linear)).clip(0, 19),
            "time": rng.exponential(np.exp(-linear)).clip(0.01, 3.9),
        }
    )


def asked_of(response, right="x + z", people=(), **bounds):
    call, left = {
        "line": (formula.ols, "line"),
        "cost": (formula.ols, "cost"),
        "log cost": (formula.ols, "log(cost)"),
        "event": (formula.logit, "event"),
        "visits": (formula.poisson, "visits"),
        "time": (formula.phreg, "Surv(time, event)"),
    }[response]
    declared = {"x": (-4, 4), "z": (0, 1), "line": (-4, 4), "cost": (0.001, 1000), "visits": (0, 20)} | bounds
    more = {"periods": [0, 1, 4]} if response == "time" else {}
    used = {name: each for name, each in declared.items() if name in ("x", "z") or name in left}
    if "event" in left:
        used["event"] = (0, 1)
    return call(
        f"{left} ~ {right}",
        shape_of(response),
        bounds=used,
        epsilon=3,
        delta=1e-6,
        random_state=1,
        **more,
        **dict(people),
    )


NARROW = {"x": (-1.5, 1.5)}
PEOPLE = (("user", "person"),)
REFUSED = [  # a release without intervals, the reason, and the release that the remedy leads to
    *(
        (name, who, NARROW, reasons.MOVED if name in ("event", "time") else reasons.GROSS, name, {})
        for name in ("line", "event", "visits", "time")
        for who in ((), PEOPLE)
        if (name, who) != ("time", PEOPLE)
    ),
    ("visits", (), {"visits": (0, 4)}, reasons.GROSS, "visits", {}),
    ("visits", PEOPLE, {"visits": (0, 3)}, reasons.GROSS, "visits", {}),
    ("line", (), {"line": (-1.0, 1.0)}, reasons.GROSS, "line", {}),
    ("cost", (), {}, reasons.GROSS, "log cost", {}),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case[0]} {case[1]} {case[2]}")
def test_a_refused_interval_names_its_reason_and_a_remedy_that_cures_it(case):
    name, people, bounds, reason, cure, wider = case
    with pytest.warns(UserWarning, match=reason) as caught:
        result = asked_of(name, people=people, **bounds)
    assert np.isnan(result.conf_int().to_numpy()).all()
    text = " ".join(str(each.message) for each in caught)
    assert ("logarithm" if cure.startswith("log") else "bounds that no value exceeds") in text
    assert np.isfinite(asked_of(cure, people=people, **wider).conf_int().loc[["x", "z"]].to_numpy()).all()


def test_a_caution_about_noise_names_the_coefficients_that_it_hides():
    """A column that noise hides next to one that it does not: the latter's interval is as good as any."""
    rng, n = np.random.default_rng(4), 3000
    x, thin = rng.standard_normal(n).clip(-4, 4), 1e-4 * rng.standard_normal(n)
    frame = pd.DataFrame({"x": x, "thin": thin, "y": 0.5 * x + rng.uniform(-1, 1, n)})
    ask = {"epsilon": 3.0, "delta": 1e-6, "random_state": 0}
    with pytest.warns(dpalgos.AccuracyWarning, match="of thin"):
        result = formula.ols(
            "y ~ x + thin", frame, bounds={"x": (-4, 4), "thin": (-1, 1), "y": (-4, 4)}, **ask
        )
    (caution,) = result.cautions
    assert "of thin" in caution
    assert result.conf_int().loc["x"].notna().all()
    wide = formula.ols("y ~ x", frame, bounds={"x": (-400, 400), "y": (-4, 4)}, **ask)
    assert wide.diagnostics["unresolved_directions"].max() >= 1
    assert wide.conf_int().loc["x"].notna().all()
    assert wide.cautions == []


def test_a_caution_about_noise_names_no_term_that_has_an_interval():
    """The fitted columns of an interaction with a rare level are others than its terms."""
    rng, n = np.random.default_rng(7), 4000
    g = rng.choice(["a", "b", "c"], n, p=[0.6, 0.398, 0.002])
    frame = pd.DataFrame({"x": rng.uniform(0, 10, n), "g": g})
    frame["y"] = 2 + 0.4 * frame.x + rng.normal(0, 1, n)
    declared = {"bounds": {"x": (0, 10), "y": (-10, 15)}, "levels": {"g": ["a", "b", "c"]}}
    result = formula.ols("y ~ x * g", frame, **declared, epsilon=1.0, delta=1e-6, random_state=1)
    limits = result.conf_int()
    assert result.hidden == list(limits.index[limits.isna().any(axis=1)])
    assert set(result.hidden).isdisjoint({"x", "Intercept"})
    assert "of g[T.b], g[T.c], x:g[T.b], x:g[T.c]." in result.cautions[0]


@pytest.mark.parametrize("fit", [formula.ols, formula.logit])
def test_next_to_a_hidden_column_intervals_are_for_a_model_without_it(fit):
    """A confounder in bounds that are much too wide: the caution says what the other interval covers."""

    def rows(n, rng):
        x = 2 * rng.standard_normal(n).clip(-2.4, 2.4)
        z = (0.35 * x + 0.7 * rng.standard_normal(n)).clip(-4, 4)
        y = 0.4 * x - z + rng.logistic(size=n)
        return pd.DataFrame({"x": 5 + x, "z": z, "y": y if fit is formula.ols else (y > 0).astype(int)})

    many = rows(200_000, np.random.default_rng(0))
    kind = {} if fit is formula.ols else {"family": "logistic"}
    name = "ols" if fit is formula.ols else "glm"
    X = np.column_stack([many.z, np.ones(len(many))])
    without = dpalgos.estimate(
        name, X, many.y.to_numpy(float), **kind, rng=np.random.default_rng(0)
    ).estimate[0]
    bounds = {"x": (0, 100_000), "z": (-4, 4), **({"y": (-20, 20)} if fit is formula.ols else {})}
    n_covered = 0
    for seed in range(8):
        frame = rows(4000, np.random.default_rng(seed + 1))
        result = fit("y ~ x + z", frame, bounds=bounds, epsilon=1.0, delta=1e-6, random_state=seed)
        assert result.hidden == ["x"]
        assert "Other intervals are for a model without what is hidden" in result.cautions[0]
        low, high = result.conf_int().loc["z"]
        assert not low <= -1 <= high
        n_covered += low <= without <= high
    assert n_covered >= 7


def limits_of_means(name, X, epsilon, seed, **keywords):
    asked = {
        "epsilon": epsilon,
        "delta": 1 / len(X) ** 2,
        "interval": 0.95,
        "rng": np.random.default_rng(seed),
    }
    return np.asarray(dpalgos.estimate(name, X, **asked, **keywords).interval)[:, 0]


def test_shares_of_few_ones_need_box_mean_as_the_guide_says():
    """Clipping moves all ones, undetected: docs/guide/intervals.md."""
    covers = {"clipped_mean": [], "box_mean": []}
    bounds = {
        "clipped_mean": {"mean_bound": 1.0, "std_bounds": (0.01, 0.5)},
        "box_mean": {"lower": 0, "upper": 1},
    }
    for seed in range(20):
        X = np.random.default_rng([seed, 3]).random((3000, 1)) < 0.01
        for name, keywords in bounds.items():
            low, high = limits_of_means(name, X.astype(float), 1.0, seed, **keywords)
            covers[name] += [low <= 0.01 <= high] if np.isfinite(low) else []
    assert len(covers["box_mean"]) >= 18
    assert np.mean(covers["box_mean"]) >= 0.9
    assert np.mean(covers["clipped_mean"]) < 0.6


def test_means_that_clip_a_long_tail_differ_at_any_epsilon_within_their_limits():
    std = np.sqrt(np.expm1(2.25) * np.exp(2.25))
    of = {
        "clipped_mean": {"mean_bound": 200.0, "std_bounds": (std / 3, 3 * std)},
        "coinpress_mean": {"mean_bound": 200.0, "std_bound": 3 * std},
        "karwa_vadhan_mean": {"mean_bound": 200.0, "std_bounds": (std, std)},
    }
    for name, keywords in of.items():
        off, inside = [], []
        for seed in range(12):
            X = np.random.default_rng([seed, 1]).lognormal(0, 1.5, (20_000, 1))
            low, high = limits_of_means(name, X, 1e6, seed, **keywords)
            if np.isfinite(low):
                off.append(abs((low + high) / 2 - X.mean()) / (X.std() / np.sqrt(len(X))))
                inside.append(low <= X.mean() <= high)
        assert max(off) > 0.75, name
        assert all(inside), name
