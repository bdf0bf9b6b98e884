"""Tables of people at the command line: forecasts of their rows, and outputs without the number of rows."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from data.ledger import open_ledger
from flows.studies.find_study import find_study
from tasks.advice.releases import forecast_release, simulate_release
from tasks.release.request import read_request
from tests.builders import release_words
from tests.tasks.analyst_tables import (
    advice_of,
    completed,
    edited,
    init_study,
    initialized,
    refusal,
    reported,
)

BOUNDS = {"age": (20, 90), "dose": (0, 4), "visits": (-20, 40)}
GUESSES = """
[guesses]
rows_per_user = {rows}
within_users = {within}
explained = 0.3
correlation = 0.1
mean = {{ age = 55.0, dose = 2.0, visits = 3.0 }}
std = {{ age = 18.0, dose = 1.1, visits = 2.0 }}
"""


def patients(n=1500, n_rows=4787, seed=0):
    """Patients of several visits; none of their numbers is the number of rows."""
    rng = np.random.default_rng(seed)
    patient = np.r_[np.arange(n), rng.integers(0, n, n_rows - n)]
    age = rng.uniform(20, 90, n)[patient].round(1)
    dose = rng.uniform(0, 4, n_rows).round(2)
    visits = 0.02 * age + dose + rng.normal(0, 1, n)[patient] + rng.normal(0, 1, n_rows)
    return pd.DataFrame({"patient": patient, "age": age, "dose": dose, "visits": visits.round(2)})


def study(folder, table=None, **options):
    table = patients() if table is None else table
    special = {"response": "visits", "user_id": "patient", "target": "robust", **options}
    return initialized(folder, table, bounds=BOUNDS, **special)


def regression(folder, epsilon=2.0):
    budget = {"epsilon": epsilon, "delta": 1e-6, "interval": 0.95}
    return read_request(folder / "mine-release.toml", "preconditioned_regression", **budget)


def shows(count, text):
    """Return whether a text has a whole number, however it is written."""
    digits = str(count)
    written = rf"{digits[:-3]}[,.\u2009\u202f\u00a0 ]?{digits[-3:]}" if count > 999 else digits
    return re.search(rf"(?<![\d.\w]){written}(?![\d\w]|\.\d)", text) is not None


def test_a_count_is_found_however_it_is_written():
    assert all(shows(4787, text) for text in ("4787 rows", "4,787.", "rows: 4\u202f787", '{"n": 4787}'))
    assert not any(shows(4787, text) for text in ("0.4787", "14787", "4787.5", "a4787b"))


def test_no_output_shows_how_many_rows_people_have(tmp_path, home, few_tables, command_line, caplog):
    caplog.set_level("DEBUG")
    table = patients()
    texts = {
        "init": init_study(
            "mine", _written(tmp_path, table), folder=tmp_path, response="visits", user_id="patient"
        )
    }
    file = study(tmp_path, table, force=True)
    edited(file, "standard = 20", "standard = 2")
    texts["report"] = reported(file, tmp_path)
    for words in (
        ("check", file),
        ("advise", file),
        ("ledger", "open", "mine", "--epsilon", 3, "--delta", 1e-5),
        _release_words(tmp_path, "--record", tmp_path / "record"),
        _release_words(tmp_path, "--json"),
        ("ledger", "show"),
        ("ledger", "show", "--json"),
        ("table", tmp_path / "record"),
    ):
        status, out, err = command_line(*words)
        assert status == 0, err
        texts[" ".join(map(str, words))] = out + err
    edited(file, "users = 1500", "users = 1501")
    texts["error"] = command_line(*_release_words(tmp_path))[2]
    assert "users" in texts["error"]
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.suffix[1:] in ["toml", "md", "html", "json", "csv", "txt", "jsonl", "log"]:
            texts[str(path)] = path.read_text() if path.name != "table.csv" else ""
        if path.suffix == ".parquet" and (tmp_path / "out") in path.parents:
            texts[str(path)] = pd.read_parquet(path).to_csv()
    texts["log"] = caplog.text
    assert len(texts) > 15
    assert shows(1500, texts["report"])
    assert [where for where, text in texts.items() if shows(len(table), text)] == []


def _written(folder, table):
    table.to_csv(folder / "table.csv", index=False)
    return folder / "table.csv"


def _release_words(folder, *more):
    files = folder / "table.csv", folder / "mine-release.toml"
    return *release_words("preconditioned_regression", *files, 2), "--interval", 0.95, "--yes", *more


def test_pages_count_people(tmp_path, home):
    page = reported(study(tmp_path), tmp_path)
    assert "1,500 users" in page
    assert "estimate on all users" in page
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    (read,) = manifest["data"]
    assert (read["n_rows"], read["rows_read"], read["unit"]) == (1500, 1500, "user")


def test_a_file_that_states_the_rows_of_people_is_refused(tmp_path):
    file = study(tmp_path)
    edited(file, 'user_id = "patient"', 'rows = 4787\nuser_id = "patient"')
    assert "rows must be left out" in refusal(find_study, str(file))


@pytest.mark.parametrize(
    ("family", "response"), [("linear", "visits"), ("logistic", "ill"), ("poisson", "count")]
)
def test_forecasts_simulate_the_rows_of_people_as_guessed(tmp_path, family, response):
    table = patients(400, 1300).assign(ill=0, count=3)[["patient", "age", "dose", response]]
    bounds = {**BOUNDS, "count": (0, 60)}
    file = initialized(
        tmp_path, table, bounds=bounds, response=response, user_id="patient", family=family, target="robust"
    )
    text = re.sub(r"\[guesses\]\n(mean.*\n)?", "", file.read_text())
    guesses = f"[guesses]\nrows_per_user = 6.0\nwithin_users = 0.8\nmean.{response} = 0.4\n"
    file.write_text(text + (guesses if family == "logistic" else guesses.replace("0.4", "3.0")))
    name = "preconditioned_regression" if family == "linear" else "preconditioned_glm"
    request = read_request(tmp_path / "mine-release.toml", name, epsilon=2.0, delta=1e-6, interval=0.95)
    simulated = simulate_release(request, 12)
    for sample in simulated.samples:
        sizes = np.bincount(sample.user_codes)
        assert len(sizes) == 400
        assert 4 < sizes.mean() < 9
        assert sizes.std() > sizes.mean() / 2
    y, codes = simulated.samples[0].y, simulated.samples[0].user_codes
    between = np.bincount(codes, y) / np.bincount(codes)
    alone = np.var(y) / np.bincount(codes).mean()
    assert np.var(between) > 1.5 * alone


def widths(folder, guesses="", epsilon=2.0):
    file = study(folder, force=True)
    if guesses:
        file.write_text(file.read_text() + guesses)
    return forecast_release(regression(folder, epsilon))


def test_more_rows_help_unless_they_are_alike(tmp_path, few_tables):
    few, many, alike = (
        widths(tmp_path, GUESSES.format(rows=rows, within=within)).half_widths.mean()
        for rows, within in ((1.0, 0.05), (10.0, 0.05), (10.0, 0.95))
    )
    assert many < few
    assert many < alike


def test_without_guesses_of_their_rows_the_range_is_wide_and_says_so(
    tmp_path, home, few_tables, command_line
):
    study(tmp_path)
    open_ledger(home)
    said = command_line("advise", tmp_path / "mine.toml")[1]
    assert "rows_per_user, within_users" in said
    stated = advice_of(study(tmp_path, force=True), GUESSES.format(rows=3.0, within=0.5))
    said = command_line("advise", tmp_path / "mine.toml")[1]
    assert "rows_per_user" in said.split("stated under [guesses]")[1]
    assert "rows_per_user" not in said.partition("not stated")[2]
    assert isinstance(stated.guess, str)


def trial(n_clinics, per_clinic=25, seed=0):
    rng = np.random.default_rng(seed)
    clinic = np.repeat(np.arange(n_clinics), per_clinic)
    outcome = 0.5 * (clinic % 2) + rng.normal(0, 0.3, n_clinics)[clinic] + rng.normal(0, 1, len(clinic))
    return pd.DataFrame({"clinic": clinic, "arm": clinic % 2, "outcome": outcome.round(3)})


def init_trial(folder, n_clinics, **options):
    path = _written(folder, trial(n_clinics))
    return init_study("mine", path, folder=folder, response="outcome", force=True, **options)


def test_init_says_if_clusters_are_too_few(tmp_path):
    few = init_trial(tmp_path, 40, user_id="clinic")
    assert "40 users are too few for intervals" in few
    needed = float(re.search(r"more than ε = ([\d.]+)", few).group(1))
    assert 3 < needed < 10
    assert "too few" not in init_trial(tmp_path, 400, user_id="clinic")
    assert "too few" not in init_trial(tmp_path, 40)


def test_clusters_offer_to_protect_them(tmp_path, home):
    init_trial(tmp_path, 400)
    file = completed(tmp_path / "mine.toml", {"clinic": (0, 400), "arm": (0, 1), "outcome": (-9, 9)})
    assert "protects each of them with all their rows" in file.read_text()
    edited(file, 'clusters = "none"', 'clusters = "clinic"')
    said = refusal(regression, tmp_path)
    assert "dpcost init --user-id clinic" in said
    assert "stronger guarantee" in said
    assert "too few" in said
