"""Synthetic rows of persons with times to an event."""

from dataclasses import replace

import numpy as np
import pytest

from dpalgos.formula.columns import NumberColumn
from dpalgos.formula.design import design_of
from dpalgos.formula.time_to_event import declared_times
from tasks.own_table.row_simulator import STUDIED, Guesses, RowSimulator

N = 4_000
FORMULA = "Surv(start, stop, died) ~ x"


def simulator(*, of_users, **guesses):
    bounds = {"start": (0, 5), "stop": (0, 5), "x": (-2, 2)}
    times = design_of(FORMULA, declared_times(FORMULA, None, None, {"bounds": bounds})).survival
    return RowSimulator(
        declared={"x": NumberColumn(-2.0, 2.0)},
        response="died",
        response_column=NumberColumn(0.0, 1.0),
        family="logistic",
        usual=STUDIED,
        guesses=Guesses(std={"x": 0.7}, **guesses),
        times=times,
        of_users=of_users,
    )


def test_a_person_has_a_row_from_each_change_to_the_next_until_the_first_event():
    found = simulator(of_users=True, mean={"died": 0.1, "x": 0.0}, rows_per_user=4.0).draw_persons(
        N, np.random.default_rng(0)
    )
    rows, person = found.rows, found.users
    is_first, is_last = np.diff(person, prepend=-1) > 0, np.diff(person, append=N) > 0
    assert len(np.unique(person)) == N
    assert not rows["start"][is_first].any()
    np.testing.assert_array_equal(rows["start"][~is_first], rows["stop"][~is_last])
    assert (rows["stop"] > rows["start"]).all()
    assert not rows["died"][~is_last].any()
    assert len(person) / N == pytest.approx(4.0, rel=0.2)
    assert rows["died"].mean() == pytest.approx(0.1, rel=0.25)


def test_covariates_multiply_the_hazard():
    """Persons with a large covariate leave earlier, and more often with the event."""
    for seed in range(5):
        found = simulator(
            of_users=False, mean={"died": 0.5, "x": 0.0}, effects={"x": 1.0}, explained=0.4
        ).draw_persons(N, np.random.default_rng(seed))
        x, died, stop = (found.rows[name] for name in ("x", "died", "stop"))
        is_large = x > 0
        assert died[is_large].mean() > died[~is_large].mean() + 0.1
        assert np.median(stop[is_large & (died == 1)]) < np.median(stop[~is_large & (died == 1)])


def test_all_events_of_a_person_count_in_rows_of_the_guessed_number():
    one = simulator(of_users=True, mean={"died": 0.3, "x": 0.0}, rows_per_user=3.0)
    found = replace(one, times=replace(one.times, all_events=True)).draw_persons(N, np.random.default_rng(1))
    assert np.bincount(found.users, found.rows["died"]).max() > 1
    assert found.rows["died"].mean() == pytest.approx(0.3, rel=0.25)
