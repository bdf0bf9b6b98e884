"""`dpcost advise`: errors foreseen from declarations alone."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from data.tables import declared, reading
from flows.cli.advise import advise as command
from flows.studies.find_study import find_study
from tasks.advice import forecasts, releases
from tasks.advice.forecasts import advise, tables_of_study
from tasks.advice.releases import (
    SimulatedRelease,
    forecast_release,
    middle_and_ends,
    needed_epsilon,
    range_of,
    simulate_release,
)
from tasks.own_table import row_simulator
from tasks.own_table.row_simulator import Guesses
from tasks.release.request import read_request
from tests.builders import BOUNDS, CATEGORIES, people, release_words
from tests.tasks.analyst_tables import edited, initialized


def study(folder, n=4000, **options):
    """Complete a study of so many people, of whom advice reads the declarations alone."""
    table = people(n).assign(visits=3)
    table = table if "user_id" in options else table.drop(columns="person")
    return initialized(folder, table, bounds={**BOUNDS, "visits": (0, 20)}, categories=CATEGORIES, **options)


RESPONSES = [{}, {"response": "cost", "user_id": "person"}]
RESPONSES += [{"response": "visits", "family": "poisson"}, {"response": "region", "family": "multinomial"}]


@pytest.mark.parametrize("options", RESPONSES)
def test_no_task_touches_the_data(tmp_path, monkeypatch, home, few_tables, options):
    file = study(tmp_path, 400, **options)
    (tmp_path / "table.csv").unlink()
    for module in (reading, declared):
        monkeypatch.setattr(module, "opened_table", lambda path: pytest.fail("the data were opened"))
    spec = find_study(str(file))
    advice = advise(spec)
    private = [each for each in advice.forecasts if each.private]
    assert {each.epsilon for each in private} == {0.5, 1.0, 3.0}
    assert all(each.refused or each.error > 0 for each in private)
    assert advice.best(max(spec.grid.n), 3.0) is not None


def small(file):
    text = re.sub(r"epsilon = \[.*", "epsilon = [0.5, 3.0]", file.read_text())
    text = re.sub(r"\nn = \[.*, (\d+), (\d+)\]", r"\nn = [\1, \2]", text)
    file.write_text(re.sub(r"\[\[estimators\]\]\nname = \"adassp\"(\n.+)*", "", text))
    return file


def regression(folder, epsilon, delta):
    budget = {"epsilon": epsilon, "delta": delta, "interval": 0.95}
    return read_request(folder / "mine-release.toml", "preconditioned_regression", **budget)


def test_how_many_intervals_to_expect_is_foretold_for_a_study_and_for_a_release(tmp_path, few_tables):
    spec = find_study(str(small(study(tmp_path, 4000, response="cost"))))
    own = {f.epsilon: f for f in advise(spec).forecasts if f.private and f.n == spec.headline.n}
    assert own[3.0].coordinates == 5
    assert own[3.0].half_width < own[0.5].half_width
    assert 0 <= own[3.0].intervals[1] <= own[3.0].intervals[0] <= own[3.0].intervals[2] <= 5
    for epsilon, wanted in ((1e-3, 0), (1000.0, 5)):
        foreseen = forecast_release(regression(tmp_path, epsilon, 1e-7))
        assert (foreseen.intervals[0], len(foreseen.names)) == (wanted, 5)
        assert np.isfinite(foreseen.half_widths).sum() == wanted
        assert foreseen.signs[1] <= foreseen.signs[0] <= foreseen.intervals[2]


def test_refused_tables_count_for_half_widths_and_intervals():
    """Of five tables, two have intervals: most have none."""
    of_cell = pd.DataFrame({"value": [1.0, 1.0, 1.0, np.nan, np.nan], "message": "refused"})
    of_cell = of_cell.assign(
        cell="a", calibration="none", estimator="adassp", form="", steps=None, n=9, epsilon=1
    )
    widths = {"a": [np.array([1.0, 2.0]), np.array([1.0, np.nan]), *[np.zeros(0)] * 3]}
    forecast = forecasts._forecast(None, of_cell, widths)
    assert forecast.half_width == np.inf
    assert forecast.intervals == middle_and_ends(np.array([2, 1, 0, 0, 0]))
    assert forecast.coordinates == 2


def test_a_table_whose_release_is_refused_has_no_interval(tmp_path, monkeypatch):
    study(tmp_path, 4000, response="cost")
    simulated = simulate_release(regression(tmp_path, 1000.0, 1e-7), 4)
    assert simulated.forecast(1000.0).intervals[0] == 5
    release = SimulatedRelease.release
    monkeypatch.setattr(SimulatedRelease, "release", lambda *args: release(*args) if args[-1] == 3 else None)
    forecast = simulated.forecast(1000.0)
    assert np.isnan(forecast.half_widths).all()
    assert (forecast.intervals[0], forecast.signs[0]) == (0, 0)
    for widths in simulated.half_widths(1000.0).values():
        assert list(np.isinf(widths)) == [True, True, True, False]


def test_an_error_of_zero_counts_as_the_smallest_other_one():
    assert range_of(np.array([0.2, 0.0, 0.1])) == range_of(np.array([0.2, 0.1, 0.1]))


def test_twice_the_sampling_error_is_that_of_the_estimators_that_answer(tmp_path, monkeypatch, few_tables):
    file = small(study(tmp_path, 400, response="cost"))
    compute = forecasts.compute_block
    expected = advise(find_study(str(file))).wanted

    def computed(block, prepared):
        rows = compute(block, prepared)
        return rows.assign(value=rows["value"].mask(rows["estimator"] == "iht_linear_regression"))

    edited(
        file,
        'name = "ols"',
        'name = "iht_linear_regression"\nparams = { sparsity = 2 }\n\n[[estimators]]\nname = "ols"',
    )
    monkeypatch.setattr(forecasts, "compute_block", computed)
    assert advise(find_study(str(file))).wanted == pytest.approx(expected)


def test_the_command_prints_one_json_document_without_nan(tmp_path, home, capsys, few_tables):
    command(str(small(study(tmp_path, 200, response="cost"))), None, True)
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"forecasts", "wanted", "needs", "guess", "guesses", "risks", "releases"}
    assert all(risk["unit"] == "row" for risk in told["risks"].values())
    assert told["guesses"] == Guesses().model_dump(mode="json")
    zero = next(each["error"] for each in told["forecasts"] if each["estimator"] == "zero")
    assert zero > 0
    command(str(tmp_path / "mine.toml"), 0.1, False)
    assert "sampling error" not in (said := capsys.readouterr().out)
    assert "no data were read" in said
    command(str(tmp_path / "mine.toml"), None, False)
    assert "(twice the error of a new sample of this size without privacy)" in capsys.readouterr().out


def test_a_forecast_is_made_at_the_delta_of_the_headline(tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.advice.forecasts.TABLES", 8)  # enough to name the guess that matters most
    file = small(study(tmp_path, 400, response="cost"))
    one = repr(advise(find_study(str(file))))  # as text, since NaN differs from itself
    edited(file, '["1/n^2"]', '["1/n^2", "10/n^1.1"]')
    assert repr(advise(find_study(str(file)))) == one


def test_synthetic_tables_are_as_large_as_the_study_and_fewer_where_it_is_large(tmp_path, monkeypatch):
    spec = find_study(str(study(tmp_path, 1500, response="cost")))
    monkeypatch.setattr(row_simulator, "_ROWS_IN_ALL", 6000)
    sizes = [len(table.X) for table, _ in tables_of_study(spec, 12)]
    assert sizes == [1500] * 4
    monkeypatch.setattr(row_simulator, "_ROWS_IN_ALL", 1)
    assert len(list(tables_of_study(spec, 12))) == 3


def test_levels_whose_shares_are_not_stated_have_no_range(tmp_path):
    """At n = 6000 and ε = 1 half-widths are up to 0.7 for a level of 1.5 %, and 0.06 for one of 10 %."""
    file = study(tmp_path, 6000, response="cost")
    unknown = forecast_release(regression(tmp_path, 1.0, 1e-7))
    stated = "[guesses]\nsource = 'a register'\nshares = { region = [0.4, 0.3, 0.3], smoker = [0.5, 0.5] }\n"
    edited(file, "[grid]", stated + "[grid]")
    known = forecast_release(regression(tmp_path, 1.0, 1e-7))
    levels = ["=" in name for name in known.names]
    assert np.isnan(unknown.ends[:, levels]).all()
    assert np.isfinite(unknown.half_widths).all()
    others = np.delete(unknown.ends, np.flatnonzero(levels), axis=1)
    assert np.isfinite(others).all()
    assert np.isfinite(known.ends).all()


def test_the_epsilon_that_half_of_the_intervals_need_is_named(tmp_path, home, command_line, monkeypatch):
    study(tmp_path, 4000, response="cost")
    needed = needed_epsilon(regression(tmp_path, 1e-3, 1e-7))
    assert 0.005 < needed < 1
    for factor, has_half in ((2**0.5, True), (0.25, False)):  # one step of the grid is by few tables
        found = forecast_release(regression(tmp_path, factor * needed, 1e-7))
        assert (found.intervals[0] >= 2.5) == has_half
    assert needed_epsilon(regression(tmp_path, 1e-7, 1e-7)) is None
    command_line("ledger", "open", "mine", "--epsilon", 1, "--delta", 1e-6)
    files = tmp_path / "table.csv", tmp_path / "mine-release.toml"
    words = release_words("preconditioned_regression", *files, 1e-3, 1e-7)
    status, _, err = command_line(*words, "--interval", 0.95, "--yes")
    assert status == 2
    assert f"epsilon about {needed:.2g}" in err
    assert "4,000 rows" in err
    assert "skewed = false" in err  # of long tails
    assert "use that epsilon, a robust interval_target, more rows" in err
    monkeypatch.setattr(releases, "needed_epsilon", lambda _: None)
    _, _, err = command_line(*words, "--interval", 0.95)
    assert "no epsilon up to 16.384 gives half" in err
    assert "that epsilon," not in err


def test_forecast_half_widths_have_no_exponents(tmp_path, home, few_tables, command_line):
    study(tmp_path, 4000, response="cost", target="robust")
    command_line("ledger", "open", "mine", "--epsilon", 1, "--delta", 1e-6)
    files = tmp_path / "table.csv", tmp_path / "mine-release.toml"
    words = release_words("preconditioned_regression", *files, 1.0, 1e-7)
    status, _, err = command_line(*words, "--interval", 0.95, "--yes")
    assert status == 0, err
    said = r"smoker=yes +about ± \d+, more with rare categories; for a range, state their shares"
    assert re.search(said, err)
    assert "e+0" not in err
    assert "long tail" not in err
