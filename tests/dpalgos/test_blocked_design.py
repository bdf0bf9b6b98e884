"""Rows in single precision, streamed and in parts: the same numbers, what rounding adds."""

import numpy as np
import pytest
from scipy.special import expit

import dpalgos
from data.simulations import centered_noise
from dpalgos.core.rows import Rows
from dpalgos.rows.blocks import HeldRows
from dpalgos.rows.sample import Sample
from dpalgos.rows.streams import PartitionedRows, StreamedRows, total_of
from dpalgos.rows.wide import Design
from tests.builders import refused
from tests.dpalgos.silence import estimated

PRIVATE = {"epsilon": 2.0, "delta": 1e-5, "family": "logistic", "covariate_bound": 1.0, "sparsity": 4}
MEAN = {"value_bound": 1.0, "epsilon": 1, "delta": 1e-5}
LINEAR = {"epsilon": 2.0, "delta": 1e-5, "covariate_bound": 1.0, "response_bound": 1.5}
PRIVATE_ESTIMATORS = {
    "dp_sparse_glm": PRIVATE,
    "screened_sparse_glm": PRIVATE,
    "dp_sparse_linear_regression": {**LINEAR, "sparsity": 4, "coef_bound": 1.0},
    "private_frank_wolfe_lasso": {**LINEAR, "coef_l1_bound": 1.0, "n_iterations": 10},
    "screened_sparse_regression": {**LINEAR, "sparsity": 4},
}


def logistic(n, d, dtype, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.2, 1.2, (n, d)).astype(dtype)
    return X, (rng.random(n) < expit(X[:, :4] @ [2.0, -2.0, 1.0, 1.0])).astype(float)


def test_rounding_stays_within_its_factor():
    """What single precision adds to the move of a sum, at rows chosen to round badly."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(50):
        X = rng.uniform(0.5, 1, (256, 40)).astype(np.float32)
        values = np.ones((256, 1))
        other = X.copy()
        X[7], other[7] = 1, -1  # the sensitivity: 2 b c / n with b = c = 1
        means = [Design(Sample(rows), single=True).mean_product(values) for rows in (X, other)]
        worst = max(worst, float(np.abs(means[0] - means[1]).max() * 256 / 2))
    rounding = HeldRows(np.ones((1, 1), np.float32)).rounding
    assert 1 < worst <= rounding < 1.005
    assert HeldRows(np.ones((1, 1))).rounding == 1


@pytest.mark.parametrize("name", PRIVATE_ESTIMATORS)
def test_sensitivities_count_the_rounding(name):
    X, y = logistic(500, 10, np.float32)
    asked, tables = PRIVATE_ESTIMATORS[name], (X, X.astype(float))
    single, double = (estimated(name, rows, y, **asked).events[0].sensitivity for rows in tables)
    assert single == pytest.approx(double * HeldRows(X).rounding, rel=1e-12)


def test_a_box_is_never_left_by_rounding():
    X = np.full((3, 2), 5.0, np.float32)
    bound = 0.1  # between two numbers of single precision, nearest to the upper one
    assert float(np.float32(bound)) > bound
    assert Design(Sample(X), bound, single=True).columns(np.array([0])).astype(float).max() <= bound


def columns(value, dtype=float):
    return [dict(enumerate(np.where(np.arange(10).reshape(2, 5) == 7, value, 1).astype(dtype)))]


PAIR = np.ones((3, 2)), np.ones(3)
# The estimator, blocks of a stream of five rows, and the argument and the value that a refusal names
STREAMS = [
    ("ols", [(np.ones((5, 2)), np.ones(4))], ("y", "4")),
    ("ols", [PAIR, np.ones((2, 2))], ("X", "responses")),
    ("ols", [(np.ones((5, 2)), np.full(5, np.nan))], ("y", "finite")),
    ("sample_mean", [np.ones((3, 2)), np.full((2, 2), np.inf)], ("X", "finite")),
    ("sample_mean", [np.ones((3, 2))], ("X", "5", "3")),
    ("sample_mean", columns(np.nan), ("X", "NaN")),
    ("sample_mean", columns(2e60), ("X", "within")),
    ("sample_mean", columns(np.nan, np.float32), ("X", "finite")),
    ("sample_mean", columns(-np.inf, np.float32), ("X", "finite")),
]


@pytest.mark.parametrize(("task", "pieces", "named"), STREAMS)
def test_a_stream_of_known_length_is_checked_in_every_pass(task, pieces, named):
    refused(lambda: estimated(task, StreamedRows(lambda: pieces, 5)), dpalgos.InputError, *named)


@pytest.mark.parametrize("later", [np.ones((4, 2)), np.full((5, 2), 1e9)])
def test_a_stream_that_changes_between_passes_is_refused(later):
    passes = iter([[np.full((5, 2), 0.5)], [later]])
    rows = StreamedRows(lambda: next(passes))
    refused(lambda: list(rows.blocks()), dpalgos.InputError, "X")


def test_blocks_of_a_stream_know_which_rows_they_are():
    X = np.arange(1400, dtype=np.float32).reshape(700, 2)  # in single precision blocks are short
    parts = list(StreamedRows(lambda: np.array_split(X, 7)).blocks())
    assert len(parts) > 2
    np.testing.assert_array_equal(np.concatenate([X[rows] for rows, _ in parts]), X)
    for rows, values in parts:
        np.testing.assert_array_equal(X[rows], values)


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("as_columns", [False, True])
def test_a_later_block_of_double_precision_does_not_become_infinite(partitioned, as_columns):
    def stream(*dtypes):
        blocks = [np.full((4, 2), 1e50 if dtype is float else 0.5, dtype) for dtype in dtypes]
        return lambda: [dict(zip("ab", block.T, strict=True)) if as_columns else block for block in blocks]

    rows = StreamedRows(stream(np.float32, float), 8)
    if partitioned:
        rows = PartitionedRows([(stream(np.float32), 4), (stream(float), 4)])
    with pytest.raises(dpalgos.InputError, match="X must have one precision in every block"):
        estimated("dp_mean", rows, **MEAN)
    wider = StreamedRows(stream(float, np.float32), 8)
    assert np.concatenate([block for _, block in wider.blocks()]).max() == 1e50


def test_what_the_caller_changes_afterwards_does_not_reach_an_estimator():
    X, y, mask = np.full((40, 2), 0.5), np.full(40, 0.5), np.ones((40, 1), dtype=bool)
    sample = dpalgos.Sample(X, y, row_mask=mask)
    X[:], y[:], mask[1:] = 1e9, 1e9, False
    assert sample.rows.largest == np.abs(sample.X).max() == 0.5
    assert sample.response().max() == 0.5
    assert sample.n_rows.tolist() == [40]
    taken = sample.rows.taken(sample.X[:, 0] > 0).array()
    for array in (sample.X, sample.response(), sample.row_mask, taken):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_view_that_is_read_only_is_copied_if_its_owner_can_write():
    X = np.full((40, 2), 0.5)
    view = X.view()
    view.flags.writeable = False
    sample = dpalgos.Sample(view)
    X[:] = 1e9
    assert sample.X.max() == 0.5
    owned = np.full((40, 2), 0.5)
    owned.flags.writeable = False
    assert np.shares_memory(dpalgos.Sample(owned).X, owned)


def test_partial_sums_lose_nothing_however_many_they_are():
    """Added one by one in double precision, a hundred thousand tenths would be off by .04."""
    tenths = [np.full(2, 0.1)] * 100_000
    assert abs(total_of(iter([np.full(2, 1e10), *tenths]))[0] - (1e10 + 1e4)) <= 2e-6
    assert (total_of([np.array([1.0]), np.array([1e16]), np.array([-1e16])]) == 1).all()


def test_clipped_cells_count_once_however_the_rows_are_cut():
    X, moved = np.zeros((8, 1)), np.zeros((8, 1), dtype=np.int8)
    moved[1] = 1
    rows = PartitionedRows([(lambda: [X[:4]], 4), (lambda: [X[4:]], 4)])
    samples = (Sample(given, moved=moved) for given in (X, rows))
    answers = [estimated("dp_mean", sample, interval=0.9, **MEAN) for sample in samples]
    np.testing.assert_allclose(answers[0].interval, answers[1].interval)


def test_clipped_cells_of_covariates_do_not_follow_an_offset():
    moved = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])  # offset, covariates, response
    sample = Sample(np.ones((4, 3)), np.ones(4), moved=moved).with_offset((0.0, 1.0))
    block = Rows.of_sample(sample).whole()
    np.testing.assert_array_equal(block.clipped_cells, moved[:, 1:3] != 0)
    assert block.is_clipped.all()


def test_partitions_and_no_partition():
    X = np.arange(12.0).reshape(6, 2)
    rows = PartitionedRows([(lambda: [X[:4]], 4), (lambda: [X[4:]], 2)])
    np.testing.assert_array_equal(rows.columns(np.array([1])), X[:, 1:])
    for place, block, _ in rows.pieces():
        np.testing.assert_array_equal(block, X[place])
    assert sum(len(block) for _, block, _ in rows.pieces()) == rows.shape[0] == 6


N, D, R = 1400, 30, 3


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((N, D)).astype(np.float32), rng.standard_normal(N)
    mask = rng.random((N, R)) < 0.6
    mask[300:900, 0] = False  # the first replicate uses no row of some blocks
    return Sample(X, y, row_mask=mask, n_replicates=R)


def descent(sample, n_steps, *, bound=None, n_used=D, single=True):
    """Gradient steps of least squares on the first columns."""
    design, y = Design(sample, bound, single=single), sample.response()[:, None]

    def run():
        coef = np.zeros((D, R))
        coef[:n_used] = 0.01
        for _ in range(n_steps):
            coef[:n_used] -= 0.1 * design.mean_score(coef, lambda u, rows: u - y[rows])[:n_used]
        return coef, design.mean_product(y - design.predict(coef))

    return run


@pytest.mark.parametrize("bound", [None, 0.5])
def test_rows_that_are_held_by_column_give_what_they_give_otherwise(sample, bound):
    run = descent(sample, 3, n_used=2, bound=bound)
    otherwise = run()
    sample.rows.keeps_columns = True
    np.testing.assert_array_equal(run(), otherwise)


@pytest.mark.parametrize("n_used", [D, 2])
@pytest.mark.parametrize("bound", [None, 0.5])
def test_single_precision_streams_and_sparse_coefficients_give_one_sum(sample, bound, n_used):
    rows = StreamedRows(lambda: np.array_split(sample.rows.array(), 7))
    streamed = Sample(rows, sample.response(), row_mask=sample.row_mask, n_replicates=R)
    held = descent(sample, 3, bound=bound, n_used=n_used)()
    np.testing.assert_array_equal(descent(streamed, 3, bound=bound, n_used=n_used)(), held)
    exact = descent(sample, 3, bound=bound, n_used=n_used, single=False)()
    for one, other in zip(held, exact, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("bound", [None, 0.5])
@pytest.mark.parametrize("n_used", [D, 2])
def test_a_sum_of_many_blocks_is_the_plain_one(sample, n_used, bound):
    coef = np.random.default_rng(1).standard_normal((D, R))
    coef[n_used:] = 0
    y, mask, X = sample.response()[:, None], sample.row_mask, sample.X
    X = X if bound is None else np.clip(X, -bound, bound)
    design = Design(sample, bound)
    found = design.mean_score(coef, lambda u, rows: np.tanh(u) - y[rows])
    np.testing.assert_allclose(found, X.T @ (mask * (np.tanh(X @ coef) - y)) / mask.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(design.predict(coef), X @ coef, atol=1e-12)


def test_noise_of_every_kind_has_mean_zero_and_variance_one():
    for kind in ("gaussian", "exponential", "student"):
        noise = centered_noise(np.random.default_rng(0), kind, 400_000)
        assert abs(noise.mean()) < 0.01
        assert noise.var() == pytest.approx(1, abs=0.03)
