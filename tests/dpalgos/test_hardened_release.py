"""Releases with the operating system's noise; seeded draws and their laws."""

import numpy as np
import pytest
from scipy.stats import gumbel_r, kstest, laplace, norm, uniform

import dpalgos
from dpalgos.accounting.budget import Spending
from dpalgos.central.preconditioned.plan import STEP, WHITE_MOMENTS
from dpalgos.core.hardened_noise import grid_step
from dpalgos.hardened_release import draw_release, release_plan
from dpalgos.release.noise_source import Noise
from dpalgos.rows.sample import Sample
from dpalgos.rows.streams import StreamedRows

BUDGET = {"epsilon": 0.5, "delta": 1e-6}


def data(name, n=2000, d=4):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d))
    return X, None if name.endswith("mean") else X[:, 0]


@pytest.mark.parametrize("streamed", [False, True])
def test_what_is_spent_of_many_rows_is_what_was_planned(streamed):
    """Where a budget's parts depend on the number of rows, plans are made for as many as there are."""
    X, y = data("preconditioned_regression", n=5000, d=2)
    budget = {"epsilon": 0.3, "delta": 1e-6}  # a unit of the response, which a plan for 1,000 rows lacks
    sample = Sample(StreamedRows(lambda: [(X, y)])) if streamed else Sample(X, y)
    plan = release_plan("preconditioned_regression", 5000, 2, budget, streamed=streamed)
    small = release_plan("preconditioned_regression", 1000, 2, budget)
    unit = "responses far from their center"
    assert [unit in {event.label for event in each.events} for each in (plan, small)] == [True, False]
    # Released numbers say whether the rows are whitened again, in place of a step and at its cost.
    drawn, planned = (
        sorted(STEP if event.label == WHITE_MOMENTS else event.label for event in events)
        for events in (draw_release(plan, sample).events, plan.events)
    )
    assert drawn == planned


def test_answers_lie_on_the_public_grid_and_one_whose_events_differ_is_withheld():
    X, _ = data("dp_mean")
    plan = release_plan("dp_mean", *X.shape, {**BUDGET, "value_bound": 1.0})
    drawn = draw_release(plan, Sample(X))
    index = drawn.estimate / grid_step(drawn.events[0].sensitivity, 4)
    np.testing.assert_array_equal(index, np.rint(index))
    cheaper = type(plan)(**{**vars(plan), "cost": Spending(rho=plan.cost.rho / 2)})
    with pytest.raises(dpalgos.InputError, match="withheld"):
        draw_release(cheaper, Sample(X))


LAWS = {"normal": norm, "laplace": laplace, "uniform": uniform, "gumbel": gumbel_r}


@pytest.mark.parametrize("kind", LAWS)
def test_draws_follow_their_law_in_every_replicate(kind):
    draws = getattr(Noise(np.random.default_rng(0).spawn(2)), kind)(20_000)
    assert draws.shape == (20_000, 2)
    assert all(kstest(own, LAWS[kind].cdf).pvalue > 1e-4 for own in draws.T)
    assert abs(np.corrcoef(draws.T)[0, 1]) < 0.04  # 5.6 standard errors


def test_the_least_uniform_draw_is_no_infinite_noise():
    class Zeros:
        def random(self, out):
            out[:] = 0.0

    drawn = Noise([Zeros()]).laplace(3)
    assert np.isfinite(drawn).all()
    assert (drawn < -36).all()


def test_no_draw_is_used_twice():
    """Whatever the kinds and sizes of requests, in turn, across blocks, and of some replicates."""
    noise = Noise(np.random.default_rng(2).spawn(3))
    sizes = (1, 5, 127, 1, 2, 128, 300, 1, 40, 127)
    used = {kind: [] for kind in LAWS}
    for size in sizes:
        for kind, draws in used.items():
            draws.append(getattr(noise, kind)(size))
        for chosen in (slice(0, 2), slice(1, 3), slice(0, 2)):
            part = noise.select(chosen)
            used["uniform"] += [part.uniform(size).T.reshape(-1, 1), part.uniform(size).T.reshape(-1, 1)]
    for draws in used.values():
        flat = np.concatenate([each.ravel() for each in draws])
        assert len(np.unique(flat)) == len(flat)
    first = np.concatenate([draws.ravel() for draws in used["normal"]])
    bits = noise.select(slice(0, 3)).normal(200).ravel()
    assert not np.isin(bits, first).any()
