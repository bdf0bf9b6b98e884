"""Rows in single precision, streamed, in parts and in shared passes: the same numbers, what rounding adds."""

import threading

import numpy as np
import pytest
from scipy.special import expit

import dpalgos
from data.simulations import centered_noise
from dpalgos.rows.blocks import HeldRows, StreamedRows
from dpalgos.rows.partitions import PartitionedRows, total_of
from dpalgos.rows.sample import Sample
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
    (group,) = sample.groups()
    np.testing.assert_array_equal(sample.clipped_cells(group), moved[:, 1:3] != 0)


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
    return Sample(X, y, row_mask=rng.random((N, R)) < 0.6, n_replicates=R)


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


def test_each_gets_what_it_would_get_alone(sample):
    runs = [descent(sample, 3), descent(sample, 7, n_used=2), descent(sample, 7, bound=0.5)]
    runs += [descent(sample, 2, single=False), lambda: ("no sum", 0.0)]
    alone = [run() for run in runs]
    together = [answer for answer, _ in sample.side_by_side(runs)]
    assert together[-1] == alone[-1]
    for one, other in zip(alone[:-1], together[:-1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    assert not np.allclose(alone[0][0], alone[1][0], atol=1e-3)


@pytest.mark.parametrize("bound", [None, 0.5])
def test_rows_that_are_held_by_column_give_what_they_give_otherwise(sample, bound):
    runs = [descent(sample, 3, n_used=2, bound=bound) for _ in range(D // 2 + 1)]
    alone = runs[0]()
    for answer, _ in sample.side_by_side(runs):
        np.testing.assert_allclose(answer[0], alone[0], rtol=1e-5, atol=1e-7)
    assert sample.rows.keeps_columns
    np.testing.assert_array_equal(runs[0]()[0], alone[0])


@pytest.mark.parametrize("n_used", [D, 2])
def test_a_sum_of_many_blocks_is_the_plain_one(sample, n_used):
    coef = np.random.default_rng(1).standard_normal((D, R))
    coef[n_used:] = 0
    y, mask = sample.response()[:, None], sample.row_mask
    found = Design(sample).mean_score(coef, lambda u, rows: np.tanh(u) - y[rows])
    plain = sample.X.T @ (mask * (np.tanh(sample.X @ coef) - y)) / mask.sum(axis=0)
    np.testing.assert_allclose(found, plain, atol=1e-12)


def test_an_error_of_one_is_raised_when_the_others_have_ended(sample):
    ended, design = [], Design(sample)

    def failing():
        design.mean_product(np.ones((N, R)))
        raise KeyError("mine")

    def other():
        for _ in range(4):
            design.mean_product(np.ones((N, R)))
        ended.append(1)

    with pytest.raises(KeyError, match="mine"):
        sample.side_by_side([failing, other])
    assert ended
    assert design.mean_product(np.ones((N, R))).shape == (D, R)  # the sample goes on without companions


def test_an_interrupt_in_a_pass_ends_all_of_them(sample, monkeypatch):
    before = set(threading.enumerate())

    def interrupted(rows):
        raise KeyboardInterrupt

    monkeypatch.setattr(HeldRows, "blocks", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sample.side_by_side([descent(sample, 3), descent(sample, 3)])
    own = set(threading.enumerate()) - before
    for thread in own:
        thread.join(5)
    assert not any(thread.is_alive() for thread in own)


def test_noise_of_every_kind_has_mean_zero_and_variance_one():
    for kind in ("gaussian", "exponential", "student"):
        noise = centered_noise(np.random.default_rng(0), kind, 400_000)
        assert abs(noise.mean()) < 0.01
        assert noise.var() == pytest.approx(1, abs=0.03)
