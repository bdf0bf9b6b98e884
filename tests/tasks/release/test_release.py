"""``dpcost release`` and ``dpcost ledger``, as a user types them: charged once, replayed, recorded."""

import json
import sqlite3
from functools import partial

import numpy as np
import pandas as pd
import pytest

import tasks.release.release
from data.ledger import Ledger
from tests.builders import release_file, release_words
from tests.flows.small_project import sentence
from tests.tasks.analyst_tables import release

SECRET = 987654.321


@pytest.fixture
def dpcost(command_line):
    def call(*words):
        status, out, err = command_line(*words)
        assert str(SECRET) not in out + err
        return status, out, err

    assert call("ledger", "open", "patients", "--epsilon", 1, "--delta", 1e-5)[0] == 0
    return call


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(-1, 1, (400, 3)), columns=["age", "weight", "cost"])
    table.loc[0, "cost"] = SECRET
    path = tmp_path / "patients.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture
def config(tmp_path):
    return partial(release_file, tmp_path, "patients", ["age", "weight"])


def ask(dpcost, data, config, *more, estimator="dp_mean", epsilon=0.5):
    return dpcost(*release_words(estimator, data, config, epsilon), *more)


def test_a_release_is_charged_once_and_replayed_with_its_interval(dpcost, data, config):
    answers = [json.loads(ask(dpcost, data, config(), "--json", "--interval", 0.95)[1]) for _ in range(2)]
    first, second = (answer["release"] for answer in answers)
    assert first["answer"] == second["answer"]
    assert (first["ledger"]["replayed"], second["ledger"]["replayed"]) == (False, True)
    spent = first["ledger"]["epsilon_spent"]
    assert second["ledger"]["epsilon_spent"] == spent <= 0.5
    (shown,) = json.loads(dpcost("ledger", "show", "--json")[1])
    assert (len(shown["charges"]), shown["epsilon_spent"]) == (1, spent)
    assert json.loads(dpcost("ledger", "verify", "--json")[1])["ok"]
    for each in first["answer"]:
        # Noise that nobody seeded now and then hides how little was cut, so that there is no interval.
        assert (each["lower"] is None) == (each["upper"] is None)
        assert each["lower"] is None or each["lower"] < each["shrunk"] < each["upper"]
    other = json.loads(ask(dpcost, data, config(), "--json")[1])["release"]  # another question
    assert (other["ledger"]["replayed"], other["level"]) == (False, None)


def test_a_renamed_copy_gets_no_new_budget(dpcost, data, config):
    assert ask(dpcost, data, config())[0] == 0
    assert dpcost("ledger", "open", "others", "--epsilon", 1, "--delta", 1e-5)[0] == 0
    path = config()
    path.write_text(path.read_text().replace("patients", "others"))
    assert "patients" in sentence(ask(dpcost, data, path, epsilon=0.3))


def test_the_budget_ends(dpcost, data, config):
    statuses = [ask(dpcost, data, config(), epsilon=epsilon)[0] for epsilon in (0.5, 0.55, 0.6, 0.65, 0.7)]
    assert statuses[0] == 0
    assert statuses[-1] == 2
    assert "the budget of 'patients' is epsilon 1" in sentence(ask(dpcost, data, config(), epsilon=0.9))
    assert json.loads(dpcost("ledger", "show", "--json")[1])[0]["epsilon_spent"] <= 1.0


def test_classes_are_released_under_their_names(dpcost, tmp_path, config):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(-1, 1, (200, 2)), columns=["age", "weight"])
    path = tmp_path / "classes.csv"
    table.assign(cost=rng.integers(0, 3, 200)).to_csv(path, index=False)
    params = 'family = "multinomial"\nn_classes = 3\nn_iterations = 2'
    settings = config(bounds="covariate_bound = 1.5", params=params, columns='y = "cost"')
    answers = [json.loads(ask(dpcost, path, settings, "--json", estimator="dp_glm")[1]) for _ in range(2)]
    named = [f"{column}, class {k}" for column in ("age", "weight") for k in range(3)]
    first, second = (answer["release"] for answer in answers)
    assert [each["name"] for each in first["answer"]] == named
    assert second["ledger"]["replayed"]
    assert second["answer"] == first["answer"]


def test_an_older_backup_comes_back_when_asked_and_edits_are_noticed(dpcost, data, config, home, tmp_path):
    copy = tmp_path / "copy"
    status, out, _ = dpcost("ledger", "backup", copy)
    assert status == 0
    head = json.loads(dpcost("ledger", "verify", "--json")[1])["head"]
    assert f"charges: 0, datasets: 1\nhead {head}" in out
    assert "keep it as secret" in out
    dpcost("ledger", "open", "others", "--epsilon", 1, "--delta", 1e-5)
    assert "--forget-newer" in sentence(dpcost("ledger", "restore", copy))
    assert json.loads(dpcost("ledger", "restore", copy, "--forget-newer", "--json")[1])["head"] == head
    with sqlite3.connect(home / "ledger.sqlite") as connection:
        assert connection.execute("UPDATE dpcost_budgets SET epsilon = 9").rowcount == 1
    assert dpcost("ledger", "verify")[0] == 1
    assert ask(dpcost, data, config())[0] == 2


def test_a_record_names_earlier_releases_also_if_the_clock_was_set_back(dpcost, data, config, monkeypatch):
    for epsilon, year, n_earlier in ((0.3, 2100, 0), (0.2, 1970, 1)):
        monkeypatch.setattr(
            "data.ledger.ledger.timestamp", lambda year=year: f"{year}-01-01T00:00:00.000+00:00"
        )
        released = json.loads(ask(dpcost, data, config(), "--json", epsilon=epsilon)[1])["release"]
        assert len(released["ledger"]["earlier"]) == n_earlier
        assert ("before the program read the data" in released["methods"]) == (not n_earlier)


def test_a_plan_that_is_not_what_was_asked_is_never_charged(dpcost, data, config, monkeypatch):
    def dearer(name, n_rows, n_features, keywords, **others):
        return plan(name, n_rows, n_features, {**keywords, "epsilon": 0.9}, **others)

    plan = tasks.release.release.release_plan
    monkeypatch.setattr(tasks.release.release, "release_plan", dearer)
    status, out, err = ask(dpcost, data, config())
    assert status == 1
    assert "internal error, AssertionError in tasks/release/release.py" in err
    assert "run the same command again: without --again no question is charged twice" in err
    assert not out
    assert not json.loads(dpcost("ledger", "show", "--json")[1])[0]["charges"]


def test_a_record_has_no_private_value_and_no_path(dpcost, data, config, tmp_path):
    folder = tmp_path / "record"
    assert ask(dpcost, data, config(), "--record", folder)[0] == 0
    assert ask(dpcost, data, config(), "--record", folder)[0] == 0  # the same record
    whole = (folder / "release.json").read_text()
    (folder / "release.json").write_text(whole.replace("Approximate", "approximate"))
    assert "--force" in ask(dpcost, data, config(), "--record", folder)[2]
    assert ask(dpcost, data, config(), "--record", folder, "--force")[0] == 0
    text, page = ((folder / name).read_text() for name in ("release.json", "release.html"))
    record = json.loads(text)
    for shown in (text, page):
        assert str(tmp_path) not in shown
        assert str(SECRET) not in shown
    assert record["deployment"]["privacy_loss"]["privacy_unit"] == "Row"
    assert record["release"]["ledger"]["head"] == json.loads(dpcost("ledger", "verify", "--json")[1])["head"]
    assert {each["what"] for each in record["release"]["public"]} >= {"number of rows", "value_bound"}


@pytest.mark.parametrize("user_id", [None, "person"])
def test_progress_tells_how_many_rows_were_read_unless_that_is_private(tmp_path, user_id):
    ledger, told = Ledger(tmp_path / "home"), []
    table = pd.DataFrame({"age": np.linspace(-1, 1, 600), "weight": 0.5, "person": np.arange(600) // 2})
    table.to_csv(tmp_path / "people.csv", index=False)
    ledger.open_dataset("people", 100.0, 1e-5)
    columns = 'user_id = "person"' if user_id else ""
    bounds = "value_bound = 1.0\n" + "concentration_radius = 1.0\n" * bool(user_id)
    config = release_file(tmp_path, "people", ["age", "weight"], columns=columns, bounds=bounds)
    name = "user_level_mean" if user_id else "dp_mean"
    release(ledger, name, tmp_path / "people.csv", config, epsilon=50.0, delta=1e-6, progress=told.append)
    assert told[-1:] == ([] if user_id else [600])
