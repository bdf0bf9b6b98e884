"""Preconditioned regressions of far rows and of columns far off: thresholds, whitening, intervals."""

import numpy as np
import pytest

import dpalgos
from dpalgos.central.dp_mean import DPMean
from dpalgos.central.preconditioned.plan import FAR_ROWS, WHITE_MOMENTS
from dpalgos.central.preconditioned.scores import LimitedScores, ScoreFunction
from dpalgos.core.rows import Rows
from dpalgos.hardened_release import draw_release, release_plan
from dpalgos.models.families import get_family
from dpalgos.models.ridge import reached_minimum
from dpalgos.release.checks import LARGEST_VALUE
from dpalgos.rows.sample import Sample
from tests.builders import refused
from tests.dpalgos.silence import recorded

LINEAR, COUNTS = "preconditioned_regression", "preconditioned_glm"


@pytest.mark.parametrize("value", [np.nan, np.inf, -7.7777e77])
def test_a_refusal_tells_no_offset(value):
    X, keywords = np.full((50, 4), value), {"family": "poisson", "offset_bounds": (-2.0, 1.0)}
    use = lambda: recorded(COUNTS, Sample(X, np.ones(50)), keywords)  # noqa: E731
    refused(use, dpalgos.InputError, hidden=("7.7",))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("target", ["robust", "least squares"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_a_count_of_any_size_leaves_an_interval_or_a_reason(seed, intercept, target):
    """Predictors in units far off were as large as the cut of the exponential, whose squares overflowed."""
    rng = np.random.default_rng(seed)
    X, y = 1e6 * rng.standard_t(1.5, (200, 5)), rng.poisson(2.0, 200).astype(float)
    X[:, -1] = 1.0 if intercept else X[:, -1]
    X[0, 0], y[:2] = LARGEST_VALUE, [0.0, LARGEST_VALUE]
    keywords = {"family": "poisson", "intercept": intercept, "interval": 0.9, "interval_target": target}
    made, answer = recorded(COUNTS, Sample(X, y), {**keywords, "epsilon": 5.81}, seed=seed)
    assert np.isfinite(answer).all()
    missing = ~np.isfinite(made.record.interval.half_width)
    assert (np.asarray(made.record.interval.codes)[missing] != 0).all()


def of_units(form, scales, slopes, published=None, epsilon=30.0):
    """Return what is recorded of rows whose columns have spreads ``scales``, and slopes over those."""
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((4000, 3))
    u = Z @ slopes + rng.logistic(size=4000)
    X, y = np.column_stack([Z * scales, np.ones(4000)]), np.where(u > 0, 1.0, 0.0)
    events = form == "events"
    keywords = {"family": "logistic", "intercept": True} if events else {}
    sample = Sample(X, y if events else u, n_replicates=2)
    return recorded(COUNTS if events else LINEAR, sample, {**keywords, "epsilon": epsilon}, published)


@pytest.mark.parametrize("form", ["whitened again", "events"])
def test_columns_in_units_far_off_are_whitened_again(form):
    def whitenings(scales, slopes):
        made, _ = of_units(form, scales, slopes, epsilon=6.0)  # with more, long rows are whitened again
        return sum(each.events[0].label == WHITE_MOMENTS for each in made.releases)

    assert whitenings([1, 1, 1], [1, 1, 1]) == 0
    assert whitenings([1, 0.005, 0.005], [1, 0, 0]) == 1
    assert whitenings([1, 0.005, 0.005], [1, 3, 3]) == 1


def test_a_curvature_beyond_its_threshold_counts_though_its_score_is_clipped():
    """Without it the curvature of rare groups is too low, and their intervals are a third wider."""
    X = np.array([[1e3, 0.0], [0.1, 0.2], [0.2, 0.1]])
    sample, y = Sample(X, np.array([50.0, 0.1, 50.0])), np.zeros(2)
    white = ScoreFunction(Rows.of_sample(sample), get_family("gaussian"), np.eye(2), y)
    parts = white.at(np.zeros(2)).curvature(1.0).clipped_mean(7.0).value
    assert np.trace(parts) == pytest.approx((7.0 + (X[1] @ X[1] + 1)) / 3)  # nothing of the third


def test_a_count_of_far_rows_widens_the_interval_by_what_they_hide():
    """A far row counts for as much as it may lie beyond the cut of residuals: twice six times that."""
    rng, keywords = np.random.default_rng(4), {"epsilon": 2.0, "intercept": True, "interval": 0.95}
    X = np.column_stack([rng.standard_normal((4000, 2)), np.ones(4000)])
    sample = Sample(X, X @ [0.5, -0.3, 0.2] + rng.standard_normal(4000))
    first, _ = recorded(LINEAR, sample, keywords)
    labels = [each.events[0].label for each in first.releases]
    event = first.releases[labels.index(FAR_ROWS)].events[0]
    noise, widths = float(event.noise_multiplier * event.sensitivity), []
    for count in (0.0, 2.0 * noise, 6.0 * noise):
        script = [
            np.full((1, 1), count) if label == FAR_ROWS else each
            for label, each in zip(labels, first.published, strict=True)
        ]
        widths.append(recorded(LINEAR, sample, keywords, script)[0].record.interval.half_width[:, 0])
    assert (widths[1][:-1] == widths[0][:-1]).all()
    assert widths[1][-1] - widths[0][-1] > 12 * 0.4 * noise / len(X)
    assert np.isnan(widths[2][-1])  # given up


def test_a_step_that_whitens_covers_rows_along_two_axes():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.standard_normal((4000, 3)) * [1, 0.05, 0.03], np.ones(4000)])
    y, keywords = X[:, 0] + rng.standard_normal(4000), {"epsilon": 30.0}
    runs = []
    for axis in (0, 1):
        X[0] = 1e6 * np.eye(4)[axis]
        runs.append(recorded(LINEAR, Sample(X, y), keywords, runs[0].published if runs else None)[0])
    pairs = zip(*(run.releases for run in runs), strict=True)
    whitenings = [pair for pair in pairs if pair[0].events[0].label == WHITE_MOMENTS]
    assert whitenings
    for one, other in whitenings:
        moved = np.linalg.norm(one.value - other.value) / one.events[0].sensitivity
        assert 0.9 <= moved <= 1 + 1e-9


@pytest.mark.parametrize("name", ["objective_perturbation_glm", "output_perturbation_glm"])
@pytest.mark.parametrize("size", [2.0**53, 1e30, LARGEST_VALUE])
@pytest.mark.parametrize("copies", [1, 100])  # of each column: 300 columns have another solver
def test_a_minimum_is_found_whatever_the_size_of_a_response(name, size, copies):
    """The loss of a large response hid that of all other rows: the solver refused, which showed the row."""
    X, y = np.tile([1.35, 0.17, 1.02], (60, 1)), np.full(60, -2.3)
    X[0], y[0] = [0.5, 0.0, 1e-30], -size
    X = np.tile(X, copies)
    for seed in range(5):
        _, answer = recorded(name, Sample(X, y), dpalgos.get_estimator(name).example, seed=seed)
        assert np.isfinite(answer).all()


@pytest.mark.parametrize("family", ["gaussian", "logistic"])
def test_a_minimum_of_many_columns_is_as_exact_as_double_precision_allows(family):
    """The values of the risk decide it to 1e-12 only; the public tolerance of many rows is smaller."""
    rng = np.random.default_rng(0)
    X, n = rng.standard_normal((1000, 250)), 1000.0
    bound = {"response_bound": 1.0} if family == "gaussian" else {}
    penalties = {"row_bound": 1.0, "ridge": np.full(2, 0.5 / n), "tilt": rng.standard_normal((250, 2)) / n}
    sample = Sample(X, (X[:, 0] > 0).astype(float), n_replicates=2)
    model = get_family(family, **bound, private=True)
    rows = Rows.of_sample(sample, is_batch=True)
    reached_minimum(model, rows, penalties, np.full(2, 1e-14), n_iterations=100)


@pytest.mark.parametrize(("name", "n_classes"), [("logistic", None), ("multinomial", 3)])
def test_clipping_a_score_of_bounded_residuals_does_not_depend_on_the_label(name, n_classes):
    """Weighted by the probabilities of labels, clipped scores of a row sum to zero; the longest is C."""
    family = get_family(name, n_classes=n_classes)
    X, theta = np.array([[9.0, -4.0]]), np.array([0.3, -0.1])
    if n_classes:
        theta = np.column_stack([theta, -theta, 0 * theta])
    scores = []
    for label in range(n_classes or 2):
        rows = ScoreFunction(
            Rows.of_sample(Sample(X, np.array([float(label)]))), family, np.eye(2), 0 * theta
        )
        scores.append(rows.at(theta).clipped_mean(0.5).value)
    p = family.mean((X @ theta)[..., None]).ravel()
    weights = p if n_classes else [1 - p[0], p[0]]
    assert np.tensordot(weights, scores, 1) == pytest.approx(0 * theta, abs=1e-12)
    assert max(np.linalg.norm(score) for score in scores) == pytest.approx(0.5)


@pytest.mark.filterwarnings("error")
def test_a_person_whose_score_is_as_small_as_numbers_are_is_clipped_in_silence():
    """Its limit is as large as its covariates. Limit over score overflowed; the warning told of the row."""
    X = np.array([[1.0, 0.5], [-0.3, 1.0], [-LARGEST_VALUE, 1e-30]])
    sample = Sample(X, np.array([1.0, 0.0, 0.0]), user_ids=np.arange(3)).in_units()
    white = ScoreFunction(
        Rows.of_sample(sample), get_family("poisson"), np.eye(2), np.zeros(2), people_limit=2.0
    )
    scores = white.at(np.array([1.0, 0.0]))
    assert isinstance(scores, LimitedScores)
    assert (scores.clipped_mean(1.0).value <= 2 / 3).all()


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::dpalgos.SeededNoiseWarning")
def test_no_warning_of_arithmetic_tells_of_a_row(monkeypatch):
    fit = DPMean.fit
    overflow = lambda rows: np.exp(rows.whole().X.max())  # noqa: E731
    monkeypatch.setattr(DPMean, "fit", lambda self, rows, spend: (overflow(rows), fit(self, rows, spend))[1])
    X, budget = np.full((50, 2), 1e4), {"epsilon": 1.0, "delta": 1e-6}
    rng = np.random.default_rng(0)
    assert np.isfinite(dpalgos.estimate("dp_mean", X, value_bound=1.0, rng=rng, **budget).estimate).all()
    plan = release_plan("dp_mean", 50, 2, {"value_bound": 1.0, **budget})
    assert np.isfinite(draw_release(plan, Sample(X)).estimate).all()
