"""Lemmas attained by witnesses; moments of clipped rows, levels, winsorized means and noisy steps."""

import numpy as np
import pytest
import scipy.stats

from dpalgos.accounting.events import Gaussian
from dpalgos.accounting.gaussian_dp import gaussian_epsilon
from dpalgos.accounting.other_events import Laplace, Selection
from dpalgos.audit.trials import BatchNoise
from dpalgos.central.preconditioned.plan import (
    SCORES_ABOVE,
    STEP,
    Numbers,
    clipped_scores,
    score_candidates,
)
from dpalgos.central.preconditioned.queries import (
    clipped_mean,
    clipped_moments,
    counts_above,
    rows_in,
)
from dpalgos.central.preconditioned.scores import ScoreFunction
from dpalgos.core import rows as core_rows
from dpalgos.core.plans import Share, gaussian_plan
from dpalgos.core.spend import Spend
from dpalgos.intervals.tails import LEVELS, Tail, Unseen
from dpalgos.mechanisms import winsorized_mean as winsorized
from dpalgos.mechanisms.sensitivity import ball_mean, box, count, histogram, interval, outer_product
from dpalgos.models.families import get_family
from dpalgos.models.newton_steps import NewtonSteps, combined
from dpalgos.rows.sample import Sample
from dpalgos.rows.streams import StreamedRows
from dpalgos.tuning.threshold_search import counts_needed, search
from dpalgos.user_level.aggregation import private_range
from tests.dpalgos.silence import seeded

D, N = 4, 10
WIDTHS = np.array([0.5, 1.0, 2.0, 4.0])
AXES, BINS = 3 * np.eye(D), np.eye(5).__getitem__


def in_ball(rng, radius=3.0):
    z = rng.standard_normal(D)
    return z * radius * min(1, rng.exponential()) / np.linalg.norm(z)


CASES = {  # what a row adds to a sum, its lemma, a row at random, the rows that attain it
    "ball": (lambda z: z, ball_mean(3.0, N), in_ball, (AXES[0], -AXES[0])),
    "count": (lambda z: z, count(D) / N, lambda rng: rng.integers(0, 2, D), (np.ones(D), np.zeros(D))),
    "histogram": (BINS, histogram(2, N), lambda rng: rng.integers(0, 5, 2), ([0, 1], [2, 0])),
    "outer product": (lambda z: np.outer(z, z), outer_product(3.0, N), in_ball, AXES[:2]),
    "squares": (np.square, outer_product(3.0, N, D), in_ball, AXES[:2]),
    "square": (np.square, outer_product(3.0, N, 1), lambda rng: rng.uniform(-3, 3, 1), ([3.0], [0.0])),
    "interval": (lambda z: z, interval(2.5, N), lambda rng: rng.uniform(-1, 1.5, 1), ([-1.0], [1.5])),
    "box": (lambda z: z, box(WIDTHS, N), lambda rng: rng.uniform(0, WIDTHS), (WIDTHS, 0 * WIDTHS)),
}


@pytest.mark.parametrize("name", CASES)
def test_random_neighbors_never_exceed_a_lemma_and_its_witness_attains_it(name):
    part, lemma, row, witness = CASES[name]
    rng = np.random.default_rng(0)

    def moved(one, other):
        return np.linalg.norm(np.subtract(part(np.asarray(one)), part(np.asarray(other)))) / N

    assert max(moved(row(rng), row(rng)) for _ in range(1000)) <= lemma * (1 + 1e-12)
    assert moved(*witness) == pytest.approx(float(lemma))


@pytest.mark.parametrize("scale", [0.3, 0.35, 0.4, 0.45])
def test_the_bound_holds_for_normal_sizes_and_grows_with_the_noise_of_the_shares(scale):
    above = 2 * scipy.stats.norm.sf(np.array(LEVELS) / scale)[:, None]
    sizes = np.abs(np.random.default_rng(0).normal(0, scale, 10**6))
    true = np.maximum(sizes - 1, 0).mean()
    bounds = [Tail(above=above, std=np.full_like(above, std)).excess()[0] for std in (1e-5, 1e-4, 1e-3, 3e-3)]
    assert true < bounds[0]
    assert (np.diff(bounds) > 0).all()


def test_outliers_that_the_noise_hides_count():
    above = 2 * scipy.stats.norm.sf(np.array(LEVELS) / 0.3)[:, None]
    tail = Tail(above=above, std=np.full_like(above, 1e-3))
    assert tail.excess(unseen=Unseen(near=0.0, far=100.0)) > 2 * tail.excess()


def by_column(spend, values, tau, window):
    window = window.scaled_by(tau)
    spend.start({"range": Selection(0.5), "mean": Laplace(0.5)}, {"mean": (ball_mean,)}, is_batch=True)
    center = private_range(spend, "range", values, bound=100.0, bin_width=window.bin_width)
    means = winsorized.truncated_means(values, center, window.half_width)
    return spend.columns("mean", ball_mean.of(means, window.half_width, len(values))).value


def test_the_printed_window_cuts_off_values_that_straddle_an_edge():
    """Half of the values at s, half at 2τ + s: a bias of about τ/4, none with fine bins."""
    values, rng = np.repeat([[0.05], [2.05]], 500, axis=0), np.random.default_rng(0)
    windows, many = (winsorized.PRINTED_WINDOW, winsorized.FINE_WINDOW), Spend(BatchNoise(rng, 400))
    printed, fine = (by_column(many, values, 1.0, window)[0] - 1.05 for window in windows)
    assert np.abs(printed).mean() == pytest.approx(0.24, abs=0.02)  # towards whichever bin was chosen
    assert abs(fine.mean()) < 0.003


WIDTH, STEPS = 5, 6


@pytest.mark.parametrize("curvature", [0.0, 0.3])
def test_noise_gathers_where_the_curvature_is_small(curvature):
    """Some of the start's noise stays, too."""
    rng, start, found = np.random.default_rng(4), 0.7, []
    for _ in range(4000):
        theta, points, gradients = start * rng.standard_normal(WIDTH), [], []
        for _ in range(STEPS):
            points.append(theta)
            gradients.append(rng.standard_normal(WIDTH) - curvature * theta)
            theta = theta + gradients[-1]
        steps = NewtonSteps(np.array(points), np.array(gradients), np.ones(STEPS), 1.0, theta)
        found.append(combined(steps, np.full(WIDTH, curvature), start**2, 0.0))
    estimates, variances = zip(*found, strict=True)
    assert np.var(estimates) == pytest.approx(
        np.mean(variances), rel=0.15
    )  # weights follow the noise a little


X = np.random.default_rng(0).standard_normal((400, 3)) * np.array([1.0, 2.0, 0.5])
Y = X @ np.array([0.5, -0.2, 0.1])


class Reader:
    """Blocks of rows, and how often they were read."""

    passes = 0

    def __call__(self):
        self.passes += 1
        return ((X[start : start + 150], Y[start : start + 150]) for start in range(0, len(X), 150))


def searched(sample, candidates, target, spend):
    above = counts_above(
        core_rows.Rows.of_sample(sample), lambda block: np.linalg.norm(block.X, axis=1), candidates
    )
    spend.start({"counts": Gaussian(1e-9, times=4)}, {"counts": (count,)})
    return candidates[search(spend, "counts", above, target)[0]]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("target", [30.0, 5.0])
def test_one_pass_over_streamed_rows_finds_the_thresholds_of_held_ones(masked, target):
    mask = np.random.default_rng(1).random((len(X), 2)) < 0.5 if masked else None
    candidates, reader = np.geomspace(0.1, 20, 16), Reader()
    held, streamed = (Sample(rows, y, row_mask=mask, n_replicates=2) for rows, y in ((X, Y), (reader, None)))
    before, records = reader.passes, [seeded(n_replicates=2).for_replicate(1) for _ in range(2)]
    pairs = zip((held, streamed), records, strict=True)
    found = [searched(sample.for_replicate(1), candidates, target, record) for sample, record in pairs]
    assert found[0] == found[1]
    assert reader.passes == before + 1
    assert [len(each.record.events) for each in records] == [4, 4]
    norms = np.linalg.norm(X if mask is None else X[mask[:, 1]], axis=1)
    assert (norms > found[0]).sum() <= target < (norms > candidates[candidates < found[0]][-1]).sum()


def gradient_levels(share, sizes, mu=1.0):
    """Return the thresholds found one after the other for gradients of a size each, (len(sizes), 40).

    Counts have a share of μ² that leaves them noise of √(20 / share) / μ.
    """
    times, family = 7 * counts_needed(16), get_family("gaussian")
    shares = {SCORES_ABOVE: Share(share, times), STEP: Share(1 - share)}
    plan = gaussian_plan(gaussian_epsilon(1e-6, mu), 1e-6, shares)
    numbers, found = Numbers(n_rows=len(X), d=3, mu=mu, family=family, intercept=False), []
    for seed in range(40):
        spend = seeded(seed).start(plan, {SCORES_ABOVE: (count,)})
        thresholds = []
        for size in sizes:
            rows = ScoreFunction(
                core_rows.Rows.of_sample(Sample(X, size * Y)), family, np.eye(3), np.zeros(3)
            )
            last = thresholds[-1] if thresholds else None
            candidates = score_candidates(numbers, 1.0, last)
            above = rows.at(np.zeros(3)).counts_above(candidates)
            thresholds.append(candidates[search(spend, SCORES_ABOVE, above, clipped_scores(numbers))[0]])
        found.append(thresholds)
    return np.array(found).T


def test_noise_does_not_lift_the_level_of_gradients_from_search_to_search():
    first, *later = gradient_levels(20 / 400**2, (1.0, 1.0, 1.0))
    assert first.max() > 10 * first.min()
    for before, after in zip((first, *later), later, strict=False):
        assert (after <= 1.5 * before).all()


def test_the_level_of_gradients_falls_with_their_size():
    first, second, third = gradient_levels(0.999, (8.0, 2.0, 0.5))
    assert (second <= 0.64 * first).all()
    assert (third <= 0.64 * second).all()


N_ROWS, ROW_BOUND, RESPONSE_BOUND = 2500, 1.5, 0.8


def rows(d, n=N_ROWS):
    """Rows on both sides of the bounds, some far beyond."""
    rng = np.random.default_rng(0)
    scale = 10.0 ** rng.integers(-2, 3, (n, 1))
    return scale * rng.standard_normal((n, d)), scale[:, 0] * rng.standard_normal(n)


def by_columns(X, y, dtype=float, size=999):
    def read():
        for start in range(0, len(X), size):
            some = slice(start, start + size)
            yield {j: column.astype(dtype) for j, column in enumerate(X[some].T)}, y[some].astype(dtype)

    return read


def clipped(X, y, row_bound, response_bound, scale):
    X = X * np.minimum(1, row_bound / np.linalg.norm(X, axis=1))[:, None]
    return np.column_stack([X, scale * np.clip(y, -response_bound, response_bound)])


def moments_of(sample, *clips):
    rows_of = core_rows.Rows.of_sample(sample, is_batch=sample.n_replicates > 1)
    return core_rows.clipped_moments(rows_of, *clips)


CLIPS = [(ROW_BOUND, RESPONSE_BOUND, 1.0), (ROW_BOUND, RESPONSE_BOUND, 3.0), (ROW_BOUND, np.inf, 1.0)]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("d", [1, 4, 30])
@pytest.mark.parametrize("clips", CLIPS)
def test_sums_are_those_of_the_clipped_rows(d, masked, clips):
    X, y = rows(d)
    mask = np.random.default_rng(1).random((N_ROWS, 2)) < 0.5 if masked else np.ones((N_ROWS, 2), bool)
    Z = clipped(X, y, *clips)
    expected = np.stack([Z[used].T @ Z[used] for used in mask.T])
    given = {"row_mask": mask if masked else None, "n_replicates": 2}
    for sample in (Sample(X, y, **given), Sample(by_columns(X, y), **given)):
        found = np.broadcast_to(moments_of(sample, *clips), expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())


def test_estimators_that_ask_a_sample_again_get_the_sums_of_their_own_bounds():
    X, y = rows(4)
    shared = Sample(X, y)
    asked = [(ROW_BOUND, RESPONSE_BOUND, 1.0), (2 * ROW_BOUND, RESPONSE_BOUND, 1.0)]
    asked += [(ROW_BOUND, 2 * RESPONSE_BOUND, 1.0), (ROW_BOUND, RESPONSE_BOUND, 2.0)]
    for clips in asked * 2:
        found = moments_of(shared, *clips)
        np.testing.assert_array_equal(found, moments_of(Sample(X, y), *clips))
        with pytest.raises(ValueError, match="read-only"):
            found[0, 0] = 0.0
        np.testing.assert_array_equal(found, found.T)


def test_single_precision_is_clipped_in_double_precision():
    X, y = (values.astype(np.float32) for values in rows(4))
    bounds = (0.1, 0.7)  # neither is a number of single precision
    found = moments_of(Sample(StreamedRows(by_columns(X, y, np.float32), N_ROWS)), *bounds)
    Z = clipped(X.astype(float), y.astype(float), *bounds, 1.0)
    np.testing.assert_allclose(found, Z.T @ Z, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("condition", [1.0, 1e4, 1e9, 1e14])
@pytest.mark.parametrize(
    "released", ["scores", "scores of classes", "squares of scores", "means", "row moments"]
)
def test_a_row_moves_clipped_sums_by_no_more_than_its_threshold_whatever_the_whitening(condition, released):
    """z'W²z cancels for an ill-conditioned W: a row beyond the threshold then counted as one within it."""
    rng, n, d, threshold = np.random.default_rng(0), 60, 4, 1.5
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
    W = (axes * np.geomspace(1, condition, d)) @ axes.T
    family = get_family("multinomial", n_classes=3) if "classes" in released else get_family("gaussian")
    are_products = released in ("squares of scores", "row moments")
    limit = np.sqrt(2) * threshold**2 if are_products else 2 * threshold
    largest = 0.0

    def total(X, y):
        rows_of = core_rows.Rows.of_sample(Sample(X, y))
        if released in ("means", "row moments"):
            query = clipped_mean if released == "means" else clipped_moments
            return n * query(rows_of, rows_in(W), threshold).value
        origin = np.zeros((d, *family.classes))
        at = ScoreFunction(rows_of, family, W, origin).at(origin)
        if "squares" in released:
            return n * threshold**2 * at.clipped_moments(threshold).value
        return n * at.clipped_mean(threshold).value

    for trial in range(40):
        others = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-6, 3, (n, 1))
        # Along, nearly along, and across the axis that W shrinks most, at all lengths.
        tilts = rng.choice([0, 1e-16, 1e-8, 1.0], 2)
        first, second = ((axes[:, 0] + t * axes[:, -1]) * 10.0 ** rng.uniform(-2, 9) for t in tilts)
        y = rng.integers(0, 2, n).astype(float)
        one, other = others.copy(), others.copy()
        one[trial % n], other[trial % n] = first, -second
        moved = np.linalg.norm(total(one, y) - total(other, y))
        largest = max(largest, float(moved / limit))
    assert 0.2 < largest <= 1 + 1e-9
