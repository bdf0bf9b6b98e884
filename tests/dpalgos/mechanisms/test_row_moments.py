"""Sums of products of clipped rows: the same from columns that are streamed as from rows in memory."""

import numpy as np
import pytest

from dpalgos.mechanisms.preconditioned.whitening import clipped_second_moments
from dpalgos.models.families import get_family
from dpalgos.models.white_rows import WhiteRows
from dpalgos.rows.blocks import StreamedRows
from dpalgos.rows.sample import Sample
from dpalgos.steps.moments import clipped_row_sums, row_moments

N, ROW_BOUND, RESPONSE_BOUND = 2500, 1.5, 0.8


def rows(d, n=N):
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
    if row_bound is not None:
        X = X * np.minimum(1, row_bound / np.linalg.norm(X, axis=1))[:, None]
    if response_bound is not None:
        y = np.clip(y, -response_bound, response_bound)
    return np.column_stack([X, scale * y])


CLIPS = [(ROW_BOUND, RESPONSE_BOUND, 1.0), (ROW_BOUND, RESPONSE_BOUND, 3.0), (ROW_BOUND, None, 1.0)]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("d", [1, 4, 30])
@pytest.mark.parametrize("clips", [*CLIPS, (None, None, 2.0)])
def test_sums_are_those_of_the_clipped_rows(d, masked, clips):
    X, y = rows(d)
    mask = np.random.default_rng(1).random((N, 2)) < 0.5 if masked else np.ones((N, 2), bool)
    Z = clipped(X, y, *clips)
    expected = np.stack([Z[used].T @ Z[used] for used in mask.T])
    given = {"row_mask": mask if masked else None, "n_replicates": 2}
    for sample in (Sample(X, y, **given), Sample(by_columns(X, y), **given)):
        found = row_moments(sample, *clips[:2], response_scale=clips[2])
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())


def test_estimators_that_ask_a_sample_again_get_the_sums_of_their_own_bounds():
    X, y = rows(4)
    shared = Sample(X, y)
    asked = [(ROW_BOUND, RESPONSE_BOUND, 1.0), (2 * ROW_BOUND, RESPONSE_BOUND, 1.0)]
    asked += [(ROW_BOUND, 2 * RESPONSE_BOUND, 1.0), (ROW_BOUND, RESPONSE_BOUND, 2.0), (None, None, 1.0)]
    for row_bound, response_bound, scale in asked * 2:
        found = row_moments(shared, row_bound, response_bound, response_scale=scale)
        alone = row_moments(Sample(X, y), row_bound, response_bound, response_scale=scale)
        np.testing.assert_array_equal(found, alone)
        with pytest.raises(ValueError, match="read-only"):
            found[0, 0, 0] = 0.0
        np.testing.assert_array_equal(found, np.swapaxes(found, 1, 2))


def test_single_precision_is_clipped_in_double_precision():
    X, y = (values.astype(np.float32) for values in rows(4))
    bounds = (0.1, 0.7)  # neither is a number of single precision
    found = row_moments(Sample(StreamedRows(by_columns(X, y, np.float32), N)), *bounds)
    Z = clipped(X.astype(float), y.astype(float), *bounds, 1.0)
    np.testing.assert_allclose(found[0], Z.T @ Z, rtol=1e-12, atol=1e-12)


def test_no_single_row_exceeds_the_bounds():
    rng = np.random.default_rng(2)
    for magnitude in (1e-3, 1.0, 1e3, 1e59):
        X, y = magnitude * rng.standard_normal((1, 4)), magnitude * rng.standard_normal(1)
        moments = row_moments(Sample(by_columns(X, y)), ROW_BOUND, RESPONSE_BOUND)[0]
        assert np.trace(moments[:4, :4]) <= ROW_BOUND**2 * (1 + 1e-12)
        assert moments[4, 4] <= RESPONSE_BOUND**2
        assert np.linalg.norm(moments[:4, 4]) <= ROW_BOUND * RESPONSE_BOUND * (1 + 1e-12)


@pytest.mark.parametrize("condition", [1.0, 1e4, 1e9, 1e14])
@pytest.mark.parametrize("released", ["scores", "scores of classes", "squares of scores", "second moments"])
def test_a_row_moves_clipped_sums_by_no_more_than_its_clip_level_whatever_the_whitening(condition, released):
    """z'W²z cancels for an ill-conditioned W: a row beyond the level then counted as one within it."""
    rng, n, d, level = np.random.default_rng(0), 60, 4, np.array([1.5])
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
    W = ((axes * np.geomspace(1, condition, d)) @ axes.T)[None]
    family = get_family("multinomial", n_classes=3) if "classes" in released else get_family("gaussian")
    limit = np.sqrt(2) * level**2 if released in ("squares of scores", "second moments") else 2 * level
    largest = 0.0

    def total(X, y):
        sample = Sample(X, y)
        if released == "second moments":
            return clipped_second_moments(sample.grouped(lambda group: group.X), level, W)
        scores = WhiteRows(sample, family, W)
        at = scores.at(np.zeros(scores.shape))
        mean = at.clipped_mean if "squares" not in released else at.clipped_second_moments
        return n * mean(level)

    for trial in range(40):
        others = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-6, 3, (n, 1))
        # Along, nearly along, and across the axis that W shrinks most, at all lengths.
        tilts = rng.choice([0, 1e-16, 1e-8, 1.0], 2)
        first, second = ((axes[:, 0] + t * axes[:, -1]) * 10.0 ** rng.uniform(-2, 9) for t in tilts)
        y = rng.integers(0, 2, n).astype(float)
        one, other = others.copy(), others.copy()
        one[trial % n], other[trial % n] = first, -second
        moved = np.linalg.norm(total(one, y) - total(other, y))
        largest = max(largest, float(moved / limit[0]))
    assert 0.2 < largest <= 1 + 1e-9


def test_a_white_row_adds_no_more_than_its_level_where_its_norm_is_not_given():
    W = np.diag([1.0, 1e2, 1e4])[None]
    for row in np.random.default_rng(0).standard_normal((20, 1, 3)):
        total = clipped_row_sums(row, W, np.ones((1, 1)), np.array([1.5]))
        assert np.linalg.norm(total) == pytest.approx(min(1.5, np.linalg.norm(row @ W[0])))
