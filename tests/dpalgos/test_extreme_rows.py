"""No row, of whatever size, moves a release of a preconditioned regression by more than was charged.

Given the same releases nothing else differs: neither what is asked next, nor its noise, nor the answer.
"""

import warnings

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.events import PureEvent
from dpalgos.central.preconditioned.queries import WhiteRows
from dpalgos.central.preconditioned.releases import FAR_ROWS, STEP
from dpalgos.mechanisms.sensitivity import ball_mean, outer_product
from dpalgos.models.families import get_family
from dpalgos.rows.blocks import LARGEST_VALUE, StreamedRows
from dpalgos.rows.sample import Sample
from tests.builders import refused
from tests.contract.moves import largest_moves
from tests.dpalgos.silence import recorded

LINEAR, COUNTS = "preconditioned_regression", "preconditioned_glm"
OFFSET = {"family": "poisson", "offset_bounds": (-2.0, 1.0), "epsilon": 2.0}
POISSON, EVENTS = ({"family": family, "intercept": True} for family in ("poisson", "logistic"))
CLASSES = {"family": "multinomial", "n_classes": 3, "intercept": True}
EDGES = [0.0, -0.0, 5e-324, 2.0**-24, 1.0, 2.0**40, 1e30, LARGEST_VALUE]
SIZES = [*EDGES, *np.nextafter(EDGES[3:], 0), *(1.0625 * 2.0 ** np.arange(-24, 40, 7))]
CENTERS, UNITS, MEANS = "values above a candidate center", "values by power of two", "means about centers"
DISTANCE, RESPONSE, ABOVE = "rows far from centers", "mean response", "responses above a level"
# The estimator, its keywords, and some of what it releases before its steps
FORMS = {
    "a unit": (LINEAR, {"epsilon": 8.0}, {UNITS}),
    "centers of few rows": (LINEAR, {"epsilon": 2.0, "intercept": True}, {CENTERS, UNITS, DISTANCE, MEANS}),
    "centers where rows are many": (LINEAR, {"epsilon": 20.0, "intercept": True}, {CENTERS, UNITS, MEANS}),
    "whitened again": (LINEAR, {"epsilon": 30.0}, set()),
    "counts": (COUNTS, {**POISSON, "epsilon": 20.0}, {CENTERS, RESPONSE, ABOVE}),
    "events": (COUNTS, {**EVENTS, "epsilon": 20.0}, {CENTERS, RESPONSE}),
    "classes": (COUNTS, {**CLASSES, "epsilon": 20.0}, {CENTERS, RESPONSE}),
    "few classes": (COUNTS, {**CLASSES, "epsilon": 2.0}, {RESPONSE}),
    "offset of counts": (COUNTS, {**OFFSET, "intercept": True}, {"mean exposure"}),
    "offset of few counts": (COUNTS, {**OFFSET, "intercept": True, "epsilon": 0.05}, set()),
    "offset without a constant": (COUNTS, OFFSET, set()),
    "offset of events": (COUNTS, {**OFFSET, **EVENTS, "interval": 0.95}, set()),
}
each_form = pytest.mark.parametrize("form", FORMS)


def charges(made):
    def charge(event):
        if isinstance(event, PureEvent):
            return event.label, event.epsilon, np.asarray(event.sensitivity).tolist()
        return event.label, event.noise_multiplier, np.asarray(event.l2_sensitivity).tolist()

    return list(map(charge, made.events))


def assert_covered(form, one, other):
    name, keywords, _ = FORMS[form]
    first, answer = recorded(name, one, keywords)
    second, same = recorded(name, other, keywords, first.published)
    assert charges(second) == charges(first)
    assert max(largest_moves(first, second).values()) <= 1 + 1e-9
    np.testing.assert_array_equal(answer, same)


def rows(rng, form, constant=1.0, n=400):
    X = np.column_stack([rng.standard_normal((n, 3)) * [1, 1e-3, 1e5] + [0, 3, 0], np.ones(n)])
    X[0, -1] = constant
    labels = {"logistic": rng.integers(2, size=n), "poisson": rng.poisson(0.5, n)}
    labels["multinomial"] = rng.integers(3, size=n)
    return X, np.array(labels.get(FORMS[form][1].get("family"), X[:, 0]), dtype=float)


def replaced(X, y, rng, form):
    """Return the rows with another first row, of signed sizes: about half of the time of a single one."""
    X, y = X.copy(), y.copy()
    X[0, :-1] = rng.choice(SIZES, 3 if rng.random() < 0.5 else 1) * rng.choice([-1, 1], 3)
    allowed = {"logistic": [0.0, 1.0], "poisson": [0.0, 1.0, 1e15], "multinomial": [0.0, 1.0, 2.0]}
    y[0] = rng.choice(allowed.get(FORMS[form][1].get("family"), [*SIZES, -LARGEST_VALUE]))
    return X, y


@each_form
def test_all_that_is_released_before_the_steps_is_charged(form):
    name, keywords, origin = FORMS[form]
    made, _ = recorded(name, Sample(*rows(np.random.default_rng(1), form)), keywords)
    assert {event.label for event in made.events} >= origin
    assert 0.999 * keywords["epsilon"] <= certified_epsilon(made.events, 1e-6) <= keywords["epsilon"]


def test_an_interval_depends_on_what_was_released_alone():
    rng, keywords = np.random.default_rng(4), {"epsilon": 2.0, "intercept": True, "interval": 0.95}
    X, y = np.column_stack([rng.standard_normal((4000, 2)), np.ones(4000)]), rng.standard_normal(4000)
    first, _ = recorded(LINEAR, Sample(X, X @ [0.5, -0.3, 0.2] + y), keywords)
    second, _ = recorded(LINEAR, Sample(X, X @ [0.5, -0.3, 0.2] + 1 + 2 * y), keywords, first.published)
    assert np.isfinite(first.interval.half_width).all()
    for name in ("half_width", "center", "without_noise"):
        np.testing.assert_array_equal(getattr(first.interval, name), getattr(second.interval, name))


def streamed(X, y):
    blocks = list(zip(*(np.split(part, range(77, len(y), 77)) for part in (X, y)), strict=True))
    return lambda: blocks


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("constant", [1.0, 0.0, -1e12, LARGEST_VALUE])
@each_form
def test_no_row_moves_a_release_by_more_than_was_charged(form, constant, is_streamed):
    rng = np.random.default_rng(0)
    mask = rng.random((400, 2)) < 0.8
    mask[0] = True
    X, y = rows(rng, form, constant)
    for _ in range(7):
        one, other = (replaced(X, y, rng, form) for _ in range(2))
        if is_streamed:  # against rows that are held
            assert_covered(form, Sample(*one), Sample(streamed(*other)))
        else:
            both = (Sample(*each, row_mask=mask, n_replicates=2) for each in (one, other))
            assert_covered(form, *both)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("form", ["centers of few rows", "counts", "offset of counts", "events"])
def test_rows_that_a_mask_leaves_out_are_in_no_release(form, is_streamed):
    rng = np.random.default_rng(2)
    (X, y), mask = rows(rng, form), rng.random((400, 1)) < 0.8
    mask[0], keywords = False, FORMS[form][1]
    runs = []
    for _ in range(2):
        others = replaced(X, y, rng, form)
        data = (streamed(*others),) if is_streamed else others
        runs.append(recorded(FORMS[form][0], Sample(*data, row_mask=mask), keywords)[0])
    for one, other in zip(*(run.releases for run in runs), strict=True):
        np.testing.assert_array_equal(one.value, other.value)


@each_form
@pytest.mark.parametrize("others", [1e-6, 1.0, 1e6])
def test_what_is_asked_and_answered_depends_on_public_numbers_and_releases_alone(form, others):
    name, keywords, _ = FORMS[form]
    X, y = rows(np.random.default_rng(2), form)
    first, answer = recorded(name, Sample(X, y), keywords)
    other = others * y if name == LINEAR and others != 1 else 0 * y
    made, same = recorded(name, Sample(X * [others, others, others, 1], other), keywords, first.published)
    assert charges(made) == charges(first)
    np.testing.assert_array_equal(answer, same)


@pytest.mark.parametrize("value", [np.nan, np.inf, -7.7777e77])
def test_a_refusal_tells_no_offset(value):
    X, y = rows(np.random.default_rng(3), "offset of counts", n=50)
    X[0, 0] = value
    refused(lambda: recorded(COUNTS, Sample(X, y), OFFSET), dpalgos.InputError, hidden=("7.7",))


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
    missing = ~np.isfinite(made.interval.half_width)
    assert (np.asarray(made.interval.codes)[missing] != 0).all()


def test_no_warning_tells_that_a_row_is_large():
    def warned(largest):
        X = np.ones((300, 3), dtype=np.float32)
        X[0, 0] = largest
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            recorded(LINEAR, Sample(StreamedRows(lambda: iter([(X, np.zeros(300))]), 300)), {})
        return caught

    assert warned(1.0) == warned(1e37) == []


def of_units(form, scales, slopes, published=None):
    """Return what is recorded of rows whose columns have spreads ``scales``, and slopes over those."""
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((4000, 3))
    u = Z @ slopes + rng.logistic(size=4000)
    X, y = np.column_stack([Z * scales, np.ones(4000)]), np.where(u > 0, 1.0, 0.0)
    name, keywords, _ = FORMS[form]
    sample = Sample(X, y if form == "events" else u, n_replicates=2)
    return recorded(name, sample, {**keywords, "epsilon": 30.0}, published)


@pytest.mark.parametrize(("form", "most"), [("whitened again", 2), ("events", 1)])
def test_columns_in_units_far_off_are_whitened_again_and_more_than_once_where_they_matter(form, most):
    """A replicate that whitens releases moments in the place of a step: ten numbers, not four."""

    def whitenings(scales, slopes):
        made, _ = of_units(form, scales, slopes)
        steps = [each.value for each in made.releases if each.events[0].label == STEP.label]
        return np.sum([np.abs(each[-1]) > 0 for each in steps if len(each) == 10] or [[0]], axis=0)

    assert (whitenings([1, 1, 1], [1, 1, 1]) == 0).all()
    assert (whitenings([1, 0.05, 0.03], [1, 0, 0]) == 1).all()
    assert (whitenings([1, 0.005, 0.005], [1, 3, 3]) == most).all()


def test_a_curvature_beyond_its_threshold_counts_though_its_score_is_clipped():
    """Without it the curvature of rare groups is too low, and their intervals are a third wider."""
    X = np.array([[1e3, 0.0], [0.1, 0.2], [0.2, 0.1]])
    sample, y = Sample(X, np.array([50.0, 0.1, 50.0])), np.zeros(2)
    white = WhiteRows(sample, get_family("gaussian"), np.eye(2), y)
    parts = white.at(np.zeros(2)).curvature(1.0).clipped_mean(7.0)
    assert np.trace(parts) == pytest.approx((7.0 + (X[1] @ X[1] + 1)) / 3)  # nothing of the third


def test_a_count_of_far_rows_widens_the_interval_by_what_they_hide():
    """A far row counts for as much as it may lie beyond the cut of residuals: twice six times that."""
    rng, keywords = np.random.default_rng(4), {"epsilon": 2.0, "intercept": True, "interval": 0.95}
    X = np.column_stack([rng.standard_normal((4000, 2)), np.ones(4000)])
    sample = Sample(X, X @ [0.5, -0.3, 0.2] + rng.standard_normal(4000))
    first, _ = recorded(LINEAR, sample, keywords)
    labels = [each.events[0].label for each in first.releases]
    event = first.releases[labels.index(FAR_ROWS.label)].events[0]
    noise, widths = float(event.noise_multiplier * event.l2_sensitivity), []
    for count in (0.0, 1.3 * noise):
        script = [
            np.full((1, 1), count) if label == FAR_ROWS.label else each
            for label, each in zip(labels, first.published, strict=True)
        ]
        widths.append(recorded(LINEAR, sample, keywords, script)[0].interval.half_width[:, 0])
    assert (widths[1][:-1] == widths[0][:-1]).all()
    assert widths[1][-1] - widths[0][-1] > 12 * 0.4 * noise / len(X)


def test_a_step_that_whitens_covers_rows_along_two_axes():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.standard_normal((4000, 3)) * [1, 0.05, 0.03], np.ones(4000)])
    y, keywords = X[:, 0] + rng.standard_normal(4000), {"epsilon": 30.0}
    runs = []
    for axis in (0, 1):
        X[0] = 1e6 * np.eye(4)[axis]
        runs.append(recorded(LINEAR, Sample(X, y), keywords, runs[0].published if runs else None)[0])
    pairs = zip(*(run.releases for run in runs), strict=True)
    whitenings = [
        pair for pair in pairs if pair[0].events[0].label == STEP.label and len(pair[0].value) == 10
    ]
    assert whitenings
    for one, other in whitenings:
        moved = np.linalg.norm(one.value - other.value) / one.events[0].l2_sensitivity
        assert 0.9 <= moved <= 1 + 1e-9


@pytest.mark.parametrize("name", ["objective_perturbation_glm", "output_perturbation_glm"])
@pytest.mark.parametrize("size", [2.0**53, 1e30, LARGEST_VALUE])
def test_a_minimum_is_found_whatever_the_size_of_a_response(name, size):
    """The loss of a large response hid that of all other rows: the solver refused, which showed the row."""
    X, y = np.tile([1.35, 0.17, 1.02], (60, 1)), np.full(60, -2.3)
    X[0], y[0] = [0.5, 0.0, 1e-30], -size
    for seed in range(5):
        _, answer = recorded(name, Sample(X, y), dpalgos.get_estimator(name).example, seed=seed)
        assert np.isfinite(answer).all()


@pytest.mark.parametrize("form", ["whitened again", "events"])
def test_what_was_released_alone_decides_whether_rows_are_whitened_again(form):
    scales = [1, 0.005, 0.005]
    first, answer = of_units(form, scales, [1, 3, 3])
    second, same = of_units(form, scales, [0, 0, 0], first.published)
    assert charges(second) == charges(first)
    np.testing.assert_array_equal(answer, same)


@pytest.mark.parametrize("whitens", [False, True])
def test_orthogonal_rows_and_opposite_gradients_attain_the_sensitivity_of_a_step(whitens):
    d, threshold = 3, 2.0
    W = np.linalg.qr(np.random.default_rng(3).standard_normal((d, d)))[0] @ np.diag([1.0, 30.0, 0.1])
    inverse = np.linalg.inv(W)
    pair = (inverse[0], inverse[1]) if whitens else (inverse[0], -inverse[0])
    values = []
    for row in pair:
        sample = Sample(np.vstack([1e4 * row, np.zeros((4, d))]), np.r_[1e9, np.zeros(4)])
        white = WhiteRows(sample, get_family("gaussian"), W, np.zeros(d))
        at = white.at(np.zeros(d))
        values.append(white.clipped_moments(threshold) if whitens else at.clipped_mean(threshold))
    lemma = outer_product if whitens else ball_mean
    assert np.linalg.norm(values[0] - values[1]) == pytest.approx(float(lemma(threshold, 5.0)))


@pytest.mark.parametrize(("name", "n_classes"), [("logistic", None), ("multinomial", 3)])
def test_clipping_a_score_of_bounded_residuals_does_not_depend_on_the_label(name, n_classes):
    """Weighted by the probabilities of labels, clipped scores of a row sum to zero; the longest is C."""
    family = get_family(name, n_classes=n_classes)
    X, theta = np.array([[9.0, -4.0]]), np.array([0.3, -0.1])
    if n_classes:
        theta = np.column_stack([theta, -theta, 0 * theta])
    scores = []
    for label in range(n_classes or 2):
        rows = WhiteRows(Sample(X, np.array([float(label)])), family, np.eye(2), 0 * theta)
        scores.append(rows.at(theta).clipped_mean(0.5))
    p = family.mean((X @ theta)[..., None]).ravel()
    weights = p if n_classes else [1 - p[0], p[0]]
    assert np.tensordot(weights, scores, 1) == pytest.approx(0 * theta, abs=1e-12)
    assert max(np.linalg.norm(score) for score in scores) == pytest.approx(0.5)
