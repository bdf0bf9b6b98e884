"""Sums over blocks: weights of rows, masks of replicates and people, in memory and streamed."""

import numpy as np
import pytest

import dpalgos
from dpalgos.core import rows as core_rows
from dpalgos.core.ball import Ball, counts_above, mean_offset, mean_squares
from dpalgos.core.persons import sums_of_units
from dpalgos.core.rows import Rows, clipped_moments
from dpalgos.errors import InputError
from dpalgos.rows.sample import Sample
from dpalgos.rows.streams import StreamedRows, StreamRefused

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(-1, 1, (50, 3)), RNG.uniform(-1, 1, 50)
MASK = np.column_stack([RNG.permutation(50) < 30 for _ in range(4)])
COEF = RNG.uniform(-1, 1, (4, 3))

SUMS = {
    "total": lambda block: block.total(block.X),
    "products": lambda block: block.products(block.y),
    "moments": lambda block: block.moments(block.X),
    "moments with factors": lambda block: block.moments(block.X, block.predictors(COEF[0]) - block.y),
    "histogram": lambda block: block.histogram((block.X[..., 0] > 0) + 0, 2, block.X[..., 1]),
    "sum": lambda block: block.sum(block.X[..., 0] > 0),
    "gradient": lambda block: block.products(block.predictors(COEF[0]) - block.y),
    "derived": lambda block: block.products(block.y, block.derived),
}
each_sum = pytest.mark.parametrize("part", SUMS.values(), ids=SUMS)


def summed(sample, part, *, is_batch=False):
    return Rows.of_sample(sample, is_batch=is_batch).map(lambda block: 2 * block.X).sum(part)


def by_hand(part, weights):
    """The same sum of rows that are repeated as often as their weights say."""
    return summed(Sample(np.repeat(X, weights, axis=0), np.repeat(Y, weights)), part)


@each_sum
@pytest.mark.parametrize("at_once", [256, 20])
@pytest.mark.parametrize("many", [4000, 49])  # of more rows, each replicate has a copy of its own
def test_a_batch_sums_the_rows_of_each_replicate(part, at_once, many, monkeypatch):
    monkeypatch.setattr(core_rows, "_MANY_ROWS", many)
    monkeypatch.setattr(core_rows, "_FEW_OF_ROWS", 0.7)
    monkeypatch.setattr(core_rows, "_FEWEST_ROWS", at_once)
    monkeypatch.setattr(core_rows, "_NUMBERS_AT_ONCE", 1)
    found = summed(Sample(X, Y, row_mask=MASK, n_replicates=4), part, is_batch=True)
    expected = [by_hand(part, MASK[:, r].astype(int)) for r in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    alike = summed(Sample(X, Y, n_replicates=4), part, is_batch=True)
    assert len(alike) == 1
    np.testing.assert_allclose(alike[0], summed(Sample(X, Y), part), rtol=1e-12, atol=1e-12)


MAPPED = {
    "clipped_gradient_descent": {},
    "boosted_adassp": {},
    "dp_glm": {"family": "logistic"},
    "binned_fit": {},
    "cumulative_counts": {},
}


@pytest.mark.parametrize("name", [*MAPPED, "dp_glm: multinomial"])
def test_replicates_with_copies_of_their_rows_are_answered_alike(name, monkeypatch):
    entry = dpalgos.get_estimator(name.partition(":")[0])
    classes = {"family": "multinomial", "n_classes": 3, "response_bound": None} if ":" in name else {}
    settings = {"epsilon": 1.0, "delta": 1e-5, **entry.example, **MAPPED[entry.name], **classes}
    if settings.get("family") == "logistic":
        settings["response_bound"] = None
    y = None if entry.task == "counts" else RNG.integers(0, 3 if classes else 2, 50)
    found = []
    for many in (4000, 49):
        monkeypatch.setattr(core_rows, "_MANY_ROWS", many)
        monkeypatch.setattr(core_rows, "_FEW_OF_ROWS", 0.7)
        rng = np.random.default_rng(0)
        found.append(dpalgos.estimate(entry.name, X, y, rng=rng, replicates=4, row_mask=MASK, **settings))
    first, second = found
    np.testing.assert_allclose(second.estimate, first.estimate, rtol=1e-9, atol=1e-12)
    for note, value in first.diagnostics.items():
        np.testing.assert_allclose(second.diagnostics[note], value, rtol=1e-9, err_msg=note)


@each_sum
@pytest.mark.parametrize("masked", [False, True])
def test_streamed_rows_give_the_same_sums(part, masked):
    pieces = [(X[:7], Y[:7]), (X[7:], Y[7:])]
    options = {"row_mask": MASK if masked else None, "n_replicates": 4}
    held, streamed = Sample(X, Y, **options), Sample(StreamedRows(lambda: pieces), **options)
    expected = summed(held, part, is_batch=True)
    np.testing.assert_allclose(summed(streamed, part, is_batch=True), expected, rtol=1e-12, atol=1e-12)


@each_sum
def test_each_person_counts_once(part):
    people = np.arange(50) % 10  # with five rows each
    sample = Sample(X, Y, user_ids=people).in_units()
    assert Rows.of_sample(sample).n == 10
    np.testing.assert_allclose(summed(sample, part), summed(Sample(X, Y), part) / 5, rtol=1e-12, atol=1e-12)


def test_what_is_computed_for_a_person_depends_on_no_other_bit_by_bit():
    found = []
    for n in (49, 50):
        sample = Sample(X[:n], Y[:n], user_ids=np.arange(n) // 2).in_units()
        (block,) = Rows.of_sample(sample).blocks
        found.append(block.predictors(COEF)[:, :48])
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], COEF @ X[:48].T)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_sums_of_a_person_are_of_its_rows_with_their_weights(is_streamed):
    people = RNG.integers(0, 7, 50)
    given = StreamedRows(lambda: [X[:20], X[20:]]) if is_streamed else X
    sample = Sample(given, user_ids=people).in_units()
    found = sums_of_units(Rows.of_sample(sample), lambda block: (block.row_weights, block.X), 3)
    expected = [X[people == person].mean(axis=0) for person in range(7)]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_each_replicate_of_a_block_has_its_own_rows():
    (block,) = Rows.of_sample(Sample(X, Y, row_mask=MASK, n_replicates=4), is_batch=True).blocks
    for r, own in enumerate(block.replicates(4)):
        np.testing.assert_array_equal(own.X, X[MASK[:, r]])
        np.testing.assert_array_equal(own.y, Y[MASK[:, r]])
        assert own.weight is None
    chosen = np.array([True, False, True, False])
    np.testing.assert_array_equal(block.of(chosen).sum(np.ones(50)), [30, 30])
    (alike,) = Rows.of_sample(Sample(X, n_replicates=2), is_batch=True).blocks
    assert all(own.X is alike.X for own in alike.replicates(2))


@pytest.mark.parametrize("unit", [np.ones(1), np.array([0.5, 1.0, 2.0])])
def test_offsets_are_clipped_to_a_ball_in_its_units(unit):
    centers, radii = COEF / 2, np.array([0.3, 0.6, 0.9, 9.0])
    rows = Rows.of_sample(Sample(X, row_mask=MASK, n_replicates=4), is_batch=True)
    ball = Ball(centers, radii, unit)
    levels = np.multiply.outer(radii, [0.5, 1.0, 1.5])
    found = mean_offset(rows, ball), mean_squares(rows, ball), counts_above(rows, ball, levels)
    for r, (center, radius) in enumerate(zip(centers, radii, strict=True)):
        offsets = (X[MASK[:, r]] - center) / unit
        norms = np.linalg.norm(offsets, axis=1, keepdims=True)
        clipped = offsets * np.minimum(1, radius / norms)
        np.testing.assert_allclose(found[0][r], clipped.mean(axis=0), rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(found[1][r], (clipped**2).mean(axis=0), rtol=1e-11, atol=1e-13)
        np.testing.assert_array_equal(found[2][r], (norms > levels[r]).sum(axis=0))


def test_moments_of_clipped_rows_are_summed_once():
    sample = Sample(X, Y, row_mask=MASK, n_replicates=4)
    rows = Rows.of_sample(sample, is_batch=True)
    found = clipped_moments(rows, 1.0, 0.5, 2.0)
    assert clipped_moments(Rows.of_sample(sample, is_batch=True), 1.0, 0.5, 2.0) is found
    for r in range(4):
        own = X[MASK[:, r]]
        own = own / np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1.0)
        z = np.column_stack([own, 2 * np.clip(Y[MASK[:, r]], -0.5, 0.5)])
        np.testing.assert_allclose(found[r], z.T @ z, rtol=1e-12)


def test_a_block_without_responses_refuses_to_give_them():
    with pytest.raises(InputError, match="y is required"):
        Rows.of_sample(Sample(X)).sum(lambda block: block.products(block.y))


def test_streamed_rows_are_no_block():
    with pytest.raises(StreamRefused):
        Rows.of_sample(Sample(StreamedRows(lambda: [X]))).whole()
    np.testing.assert_array_equal(Rows.of_sample(Sample(X)).whole().X, X)
