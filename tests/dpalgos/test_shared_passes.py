"""Estimators side by side get the sums that they would get alone, and end whatever happens to one of them."""

import threading

import numpy as np
import pytest

from dpalgos.rows.blocks import HeldRows
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design

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


def test_a_block_that_a_replicate_does_not_use_adds_nothing_to_its_sum(sample):
    rows = np.arange(N)
    apart = sample.derived(row_mask=np.column_stack([rows < 300, rows >= 300, rows >= 900]), n_replicates=R)
    values = np.random.default_rng(2).standard_normal((N, R))
    found = Design(apart).mean_product(values)
    plain = apart.X.T @ (apart.row_mask * values) / apart.row_mask.sum(axis=0)
    np.testing.assert_allclose(found, plain, atol=1e-12)


@pytest.mark.parametrize("n_used", [D, 2])
def test_a_sum_of_many_blocks_is_the_plain_one(sample, n_used):
    coef = np.random.default_rng(1).standard_normal((D, R))
    coef[n_used:] = 0
    y, mask = sample.response()[:, None], sample.row_mask
    found = Design(sample).mean_score(coef, lambda u, rows: np.tanh(u) - y[rows])
    plain = sample.X.T @ (mask * (np.tanh(sample.X @ coef) - y)) / mask.sum(axis=0)
    np.testing.assert_allclose(found, plain, atol=1e-12)


@pytest.mark.parametrize("bound", [None, 0.5])
def test_threads_change_no_bit(bound):
    rng, n = np.random.default_rng(3), 9000
    apart = np.arange(n)[:, None] < np.array([n, n // 3, n // 2])  # some blocks are not used by all
    given = rng.standard_normal((n, D)).astype(np.float32), rng.standard_normal(n)
    answers = []
    for threads in (1, 2, 5):
        sample = Sample(*given, row_mask=apart, n_replicates=R)
        runs = [descent(sample, 3, bound=bound), *[descent(sample, 3, bound=bound, n_used=2)] * D]
        answers.append(sample.side_by_side(runs, threads=lambda threads=threads: threads))
    for others in answers[1:]:
        for (one, _), (other, _) in zip(answers[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


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
