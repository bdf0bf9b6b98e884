"""A planned budget is spent as planned: as often, with that noise, and the noise is what is said of it."""

import numpy as np
import pytest

from dpalgos.accounting.calibration import laplace
from dpalgos.mechanisms.sensitivity import ball_mean, outer_product
from dpalgos.release.declared import Release
from dpalgos.release.spend import Planned, Spend
from tests.dpalgos.silence import seeded

MEAN, MOMENTS, OTHER = (
    Release("mean", ball_mean),
    Release("moments", outer_product),
    Release("other", ball_mean),
)
N_DRAWS = 4000


def planned(n_replicates=1):
    made = seeded(n_replicates=n_replicates)
    return made, Spend.of_plan(made, 2.0, 1e-6, {MEAN: Planned(0.25, 3), MOMENTS: Planned(0.75)})


def test_a_release_beyond_the_plan_is_refused_before_its_noise_is_drawn():
    made, spend = planned()
    for _ in range(3):
        spend(MEAN, ball_mean.of(np.zeros(4), 1.5, 50.0))
    for release in (MEAN, OTHER):
        with pytest.raises(RuntimeError, match="exceeds the plan"):
            spend(release, ball_mean.of(np.zeros(4), 1.5, 50.0))
    assert len(made.events) == 3


def test_a_run_that_leaves_out_a_planned_release_is_refused():
    _, spend = planned()
    spend(MEAN, ball_mean.of(np.zeros(4), 1.5, 50.0))
    with pytest.raises(RuntimeError, match="are not the planned ones"):
        spend.check_complete()


@pytest.mark.parametrize("law", ["Gaussian", "Laplace"])
def test_the_noise_has_the_standard_deviation_that_is_said_of_it(law):
    made, spend = planned(N_DRAWS)
    if law == "Laplace":
        spend = Spend(made, {"mean": laplace(0.7)})
    value = np.full((1, N_DRAWS), 3.0)
    released = spend(MEAN, ball_mean.of(value, 1.5, 50.0))
    np.testing.assert_allclose(np.std(released.value - value), np.mean(released.std), rtol=0.06)


def test_the_noise_of_a_symmetric_matrix_is_that_on_its_diagonal_and_less_beside_it():
    matrix = np.diag([1.0, 2.0, 3.0])
    spend = Spend.of_plan(seeded(), 2.0, 1e-6, {MOMENTS: Planned(1.0, N_DRAWS)})
    drawn = [spend.symmetric(MOMENTS, outer_product.of(matrix, 1.5, 50.0)) for _ in range(N_DRAWS)]
    noise, std = np.array([each.value for each in drawn]) - matrix, float(drawn[0].std)
    np.testing.assert_array_equal(noise, np.swapaxes(noise, 1, 2))
    expected = std * np.where(np.eye(3) == 1, 1, np.sqrt(0.5))
    np.testing.assert_allclose(noise.std(axis=0), expected, rtol=0.08)
