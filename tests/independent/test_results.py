"""What results tables certify is recomputed from the events of the very runs that gave their rows."""

import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpalgos
import tasks.run.compute
from data.errors import Unreachable
from dpalgos.accounting import events as kinds
from dpalgos.accounting.budget import spending
from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.other_events import Laplace, Proved, SampledGaussian, Selection, Sketch
from dpalgos.accounting.other_events import failure as failure_of
from flows.studies.find_study import find_study, study_names
from tasks.problems.problem import DatasetSource
from tasks.run.datasets import bring
from tasks.run_options import RunOptions
from tests.independent.accountant import epsilon_of, rho_of
from tests.tasks.blocks import prepared_data

# Where the certificate is by privacy-loss distributions, losses are rounded up to a grid: it exceeds ε by
# a share of it, and by about the grid's step where ε itself is hardly more.
ROUNDING, GRID = 5e-3, 2e-4


@pytest.fixture
def events_of(monkeypatch):
    """Events of the cells that were run, by what each was asked; cells side by side have a thread each."""
    found, current = {}, threading.local()
    run, estimate = tasks.run.compute._run, dpalgos.estimate

    def watched_run(cells, block, draw):
        current.question = cells[0].run_key
        return run(cells, block, draw)

    def watched_estimate(*arguments, **keywords):
        result = estimate(*arguments, **keywords)
        if question := vars(current).pop("question", None):  # its own answer comes first, targets later
            found[question] = result.events
        return result

    monkeypatch.setattr(tasks.run.compute, "_run", watched_run)
    monkeypatch.setattr(dpalgos, "estimate", watched_estimate)
    return found


def check(block, prepared, events_of):
    """Recompute the ε of every private row of a block; return how many there were."""
    rows = tasks.run.compute.compute_block(block, prepared)
    questions = {cell.key: cell.run_key for cell in block.cells}
    private = rows[(rows["privacy_model"] != "none") & (rows["status"] == "ok")]
    for cell, its_rows in private.groupby("cell"):
        first = its_rows.iloc[0]
        expected = epsilon_of(events_of[questions[cell]], first["delta"])
        stated = its_rows["estimator_epsilon"].unique()
        if np.isinf(expected):
            assert np.isinf(stated).all(), cell
        else:
            excess = stated - expected
            assert (excess >= -ROUNDING * expected - 1e-9).all(), (cell, stated, expected)
            assert (excess <= ROUNDING * expected + GRID).all(), (cell, stated, expected)
        certified = its_rows["estimator_epsilon"] if block.problem.traits.protected else np.inf
        assert (its_rows["certified_epsilon"] == certified).all(), cell
    return len(private)


def prepared_of(tables, block, folder):
    if not isinstance(block.problem, DatasetSource):
        return None
    return prepared_data(block.problem, tables[block.problem.source], folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", study_names())
def test_every_row_at_smoke(home, name, events_of, tmp_path):
    spec, options = find_study(name), RunOptions(profile="smoke", offline=True)
    try:
        spec, tables = spec.on({each: bring(spec, each, options) for each in spec.datasets_at("smoke")})
    except Unreachable:
        pytest.skip("no source has its data")
    blocks = spec.blocks("smoke", replicates=2, seed=1)
    assert sum(check(block, prepared_of(tables, block, tmp_path), events_of) for block in blocks)


def test_every_row_of_a_block(events_of):
    first, *_ = find_study("mean_comparison").blocks("smoke", replicates=1, seed=1)
    assert check(first, None, events_of)


def gaussian(z, count=1, kind=kinds.Gaussian, **fields):
    return kind(noise_multiplier=z, sensitivity=1.0, times=count, **fields)


def pure(epsilon, count=1, kind=Laplace, **fields):
    return kind(epsilon, sensitivity=1.0, count=count, **fields)


sampled = partial(gaussian, kind=SampledGaussian)
selection = partial(pure, kind=Selection)
discrete = partial(gaussian, kind=kinds.DiscreteGaussian)
sketch, approximate = partial(Sketch, sensitivity=1.0), Proved


def failure(delta, group=None):
    return replace(failure_of(delta), group=group)


EVENTS = [
    [sampled(1.0, sampling_rate=0.02, count=300)],
    [sampled(0.6, sampling_rate=0.2, count=20), gaussian(5.0)],
    [sampled(3.0, sampling_rate=1.0, count=40)],
    [discrete(3.0, 4)],
    [discrete(5.0), gaussian(4.0)],
    [pure(0.02, 200)],
    [pure(900.0)],
    [gaussian(8.0), failure(delta=5e-6)],
    [gaussian(8.0), failure(delta=2e-5)],
    [*(selection(0.01 * 1.1**k, 20) for k in range(12)), *(gaussian(60 / 1.1**k) for k in range(12))],
]


@pytest.mark.parametrize("events", EVENTS)
def test_both_accountants_agree(events):
    expected, stated = epsilon_of(events, 1e-5), certified_epsilon(events, 1e-5)
    if np.isinf(expected):
        assert np.isinf(stated)
    else:
        assert expected * (1 - 1e-6) <= stated <= expected * (1 + 1e-3) + GRID


FIELDS = {"count": st.integers(1, 20), "group": st.sampled_from([None, None, 0, 1])}
NOISE, LOSS, GROUP = st.floats(0.7, 50), st.floats(0.01, 1.5), {"group": FIELDS["group"]}
ADDITIVE = st.one_of(
    st.builds(gaussian, NOISE, **FIELDS),
    st.builds(discrete, NOISE, **FIELDS),
    st.builds(pure, LOSS, **FIELDS),
    st.builds(selection, LOSS, **FIELDS),
    st.builds(failure, delta=st.floats(1e-9, 1e-5), **GROUP),
)
OTHERS = st.one_of(
    st.builds(approximate, epsilon=LOSS, delta=st.floats(1e-9, 1e-5), **GROUP),
    st.builds(sketch, n_rows=st.integers(1, 30), ridge=st.floats(30, 1e4), **GROUP),
)


@settings(max_examples=25, derandomize=True)
@given(st.lists(ADDITIVE | OTHERS, min_size=1, max_size=4), st.floats(1e-9, 1e-2))
def test_both_accountants_agree_about_random_events(events, delta):
    expected, stated = epsilon_of(events, delta), certified_epsilon(events, delta)
    if np.isinf(expected):
        assert np.isinf(stated)
    else:
        assert expected * (1 - 1e-4) <= stated <= expected * (1 + 1e-3) + GRID


@settings(derandomize=True)
@given(st.lists(ADDITIVE, min_size=1, max_size=6))
def test_a_ledger_adds_up_what_the_other_accountant_does(events):
    found = spending(events)
    assert (found.rho, found.pure_epsilon, found.failure) == pytest.approx(rho_of(events))
