"""``dpcost release`` on people's tables with a column of user ids: one budget per user, ids never shown."""

import json

import numpy as np
import pandas as pd
import pytest

import tasks.release.release
from tests.builders import release_file, release_words
from tests.flows.small_project import sentence
from tests.tasks.analyst_tables import numbers_of

BOUNDS = "value_bound = 100.0\nconcentration_radius = 2.0"
USER = 'user_id = "person"'


@pytest.fixture
def dpcost(command_line, caplog):
    def call(*words):
        status, out, err = command_line(*words)
        assert "maria" not in (out + err + caplog.text).lower()
        return status, out, err

    call("ledger", "open", "visits", "--epsilon", 20, "--delta", 1e-5)
    return call


@pytest.fixture
def visits(tmp_path):
    """3,000 people; the last holds half of all rows."""
    rng = np.random.default_rng(0)
    person = np.r_[np.repeat(np.arange(2999), 3), np.full(9000, 2999)]
    table = pd.DataFrame(rng.normal([7.0, -3.0], 1.0, (len(person), 2)), columns=["hours", "steps"])
    table.loc[person == 2999, ["hours", "steps"]] = 90.0
    table["cost"] = table["hours"] * 0.1 - table["steps"] * 0.1
    table["person"] = [f"Maria {code}" for code in person]
    table["household"] = person // 2
    path = tmp_path / "visits.csv"
    table.to_csv(path, index=False)
    return path


def ask(dpcost, data, tmp_path, *, estimator="user_level_mean", columns=USER, bounds=BOUNDS, epsilon=6):
    config = release_file(tmp_path, "visits", ["hours", "steps"], columns=columns, bounds=bounds)
    return dpcost(*release_words(estimator, data, config, epsilon), "--json")


def test_a_mean_over_users_is_released_and_replayed(dpcost, visits, tmp_path):
    answer = numbers_of(json.loads(ask(dpcost, visits, tmp_path)[1]))
    assert abs(answer["hours"] - 7) < 0.3  # the one with half of all rows has no more weight
    assert abs(answer["steps"] + 3) < 0.3
    again = json.loads(ask(dpcost, visits, tmp_path)[1])
    assert again["release"]["ledger"]["replayed"]
    assert numbers_of(again) == answer
    (shown,) = json.loads(dpcost("ledger", "show", "--json")[1])
    assert shown["unit"] == "user by person"
    assert "protects each user by person" in dpcost("ledger", "show")[1]


def test_how_many_rows_a_user_has_cannot_be_asked(dpcost, visits, tmp_path):
    """Users with more rows than count are cut to them, and every question is charged."""
    for n_charges, most in enumerate((5, 9000), start=1):
        status, out, err = ask(dpcost, visits, tmp_path, bounds=BOUNDS + f"\nsamples_per_user = {most}")
        assert (status, err) == (0, "")
        assert abs(numbers_of(json.loads(out))["hours"] - 7) < 0.3
        assert len(json.loads(dpcost("ledger", "show", "--json")[1])[0]["charges"]) == n_charges


@pytest.mark.parametrize(
    ("estimator", "columns", "bounds"),
    [("dp_mean", "", "value_bound = 100.0"), ("user_level_mean", 'user_id = "household"', BOUNDS)],
)
def test_a_budget_has_one_unit(dpcost, visits, tmp_path, estimator, columns, bounds):
    assert ask(dpcost, visits, tmp_path)[0] == 0
    err = sentence(ask(dpcost, visits, tmp_path, estimator=estimator, columns=columns, bounds=bounds))
    assert "'visits' protects each user by person" in err
    (shown,) = json.loads(dpcost("ledger", "show", "--json")[1])
    assert len(shown["charges"]) == 1


@pytest.mark.parametrize(
    "spellings",
    [("{}", "{}.0", "0{}", " {}", "+{}", "{}e0"), ("Zo\u00eb {}", "Zoe\u0308 {}", " Zo\u00eb {}")],
)
def test_an_id_that_is_written_in_several_ways_is_one_user(dpcost, tmp_path, monkeypatch, spellings):
    """Otherwise half of a person's rows would be protected as if the other half were another person's."""
    drawn, real = [], tasks.release.release.draw_release
    watched = lambda plan, sample: drawn.append(sample) or real(plan, sample)  # noqa: E731
    monkeypatch.setattr(tasks.release.release, "draw_release", watched)
    person = np.repeat(np.arange(1, 501), len(spellings))
    table = pd.DataFrame({"hours": 1.0, "steps": 2.0}, index=range(len(person)))
    table["person"] = [spellings[k % len(spellings)].format(code) for k, code in enumerate(person)]
    table.to_csv(tmp_path / "visits.csv", index=False)
    status, _, err = ask(dpcost, tmp_path / "visits.csv", tmp_path, epsilon=19)
    assert status == 0, err
    assert drawn[0].user_codes.tolist() == (person - 1).tolist()
