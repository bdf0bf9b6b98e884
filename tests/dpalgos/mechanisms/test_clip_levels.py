"""Searches for clip levels: by halving, in one pass over streamed rows."""

import numpy as np
import pytest

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.gaussian_dp import gaussian_epsilon
from dpalgos.central.preconditioned import PreconditionedParams, preconditioned_regression
from dpalgos.mechanisms.clip_levels import search_level
from dpalgos.mechanisms.preconditioned.levels import Levels
from dpalgos.mechanisms.preconditioned.plan import plan_of
from dpalgos.models.families import get_family
from dpalgos.models.white_rows import WhiteRows
from dpalgos.release.noise_source import Noise
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample

X = np.random.default_rng(0).standard_normal((400, 3)) * np.array([1.0, 2.0, 0.5])
Y = X @ np.array([0.5, -0.2, 0.1])


class Reader:
    """Blocks of rows, and how often they were read."""

    passes = 0

    def __call__(self):
        self.passes += 1
        return ((X[start : start + 150], Y[start : start + 150]) for start in range(0, len(X), 150))


def searched(sample, candidates, wanted, transcript):
    norms = sample.grouped(lambda group: np.linalg.norm(group.X, axis=1)[:, None] * group.weights)
    return search_level(transcript, candidates, wanted, norms, noise_multiplier=1e-9, label="counts")


def transcript():
    return Transcript(Noise([np.random.default_rng(seed) for seed in range(2)]))


@pytest.mark.parametrize("masked", [False, True])
def test_one_pass_over_streamed_rows_finds_the_levels_of_held_ones(masked):
    mask = np.random.default_rng(1).random((len(X), 2)) < 0.5 if masked else None
    candidates = np.geomspace(0.1, 20, 16)[:, None] * np.array([1.0, 1.3])
    wanted, reader = np.array([30.0, 5.0]), Reader()
    held, streamed = (Sample(rows, y, row_mask=mask, n_replicates=2) for rows, y in ((X, Y), (reader, None)))
    before, records = reader.passes, [transcript(), transcript()]
    pairs = zip((held, streamed), records, strict=True)
    found = [searched(sample, candidates, wanted, record) for sample, record in pairs]
    np.testing.assert_array_equal(found[0], found[1])
    assert reader.passes == before + 1
    assert [len(record.events) for record in records] == [4, 4]
    for r in range(2):
        norms = np.linalg.norm(X if mask is None else X[mask[:, r]], axis=1)
        below = candidates[candidates[:, r] < found[0][r], r]
        assert (norms > found[0][r]).sum() <= wanted[r] < (norms > below[-1]).sum()


def test_a_regression_reads_streamed_rows_once_per_release_of_a_mean_or_search():
    reader = Reader()
    sample = Sample(reader, n_replicates=2)
    before = reader.passes
    preconditioned_regression(sample, PreconditionedParams(epsilon=1.0, delta=1e-5), transcript())
    assert reader.passes - before <= 1 + 1 + 1 + 12 + 7  # rows, response, moments, steps, and searches


def gradient_levels(share, sizes, mu=1.0):
    """Return the levels found one after the other for gradients of a size each, (len(sizes), R).

    Counts have a share of μ² that leaves them noise of √(20 / share) / μ.
    """
    shares = {"scores": share, "steps": 1 - share}
    budget = SplitBudget(epsilon=gaussian_epsilon(1e-6, mu), delta=1e-6, shares=shares)
    n_replicates, family = 40, get_family("gaussian")
    record = Transcript(Noise([np.random.default_rng(seed) for seed in range(n_replicates)]))
    found, levels = [], None
    for step, size in enumerate(sizes):
        sample = Sample(X, size * Y, n_replicates=n_replicates)
        if levels is None:
            plan = plan_of(1e4, 3, family, intercept=False)
            levels = Levels(record, sample, family, plan, budget)
        rows = WhiteRows(sample, family, np.tile(np.eye(3), (n_replicates, 1, 1)))
        found.append(levels.step(rows.at(np.zeros((3, n_replicates))), step, np.zeros(n_replicates, bool)))
    return np.array(found)


def test_noise_does_not_lift_the_level_of_gradients_from_search_to_search():
    first, *later = gradient_levels(20 / 400**2, (1.0, 1.0, 1.0))
    assert first.max() > 10 * first.min()
    for before, after in zip((first, *later), later, strict=False):
        assert (after <= 1.5 * before).all()


def test_the_level_of_gradients_falls_with_their_size():
    first, second, third = gradient_levels(0.999, (8.0, 2.0, 0.5))
    assert (second <= 0.51 * first).all()
    assert (third <= 0.51 * second).all()
