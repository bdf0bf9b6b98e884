"""Tables of people and of weighted rows at the command line: forecasts, releases, what no output shows."""

import contextlib
import json
import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels import api as sm

import dpalgos.formula
from data.errors import LedgerError
from data.ledger import open_ledger
from dpalgos.rows.streams import StreamedRows
from flows.studies.find_study import find_study
from tasks.advice.releases import simulate_release
from tasks.problems.registered_table import RegisteredTable
from tasks.release.record import record_of
from tasks.release.request import read_request
from tests.builders import release_words
from tests.tasks.analyst_tables import (
    advice_of,
    completed,
    computed,
    drawn_from_a_seed,
    edited,
    init_study,
    initialized,
    refusal,
    release,
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


def test_pages_count_people_and_no_output_shows_how_many_rows_they_have(
    tmp_path, home, few_tables, command_line, caplog
):
    caplog.set_level("DEBUG")
    table = patients()
    special = {"response": "visits", "user_id": "patient"}
    texts = {"init": init_study("mine", _written(tmp_path, table), folder=tmp_path, **special)}
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
    edited(file, "users = 1500", "users = 1499")
    texts["error"] = command_line(*_release_words(tmp_path))[2]
    assert "users" in texts["error"]
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.suffix[1:] in ["toml", "md", "html", "json", "csv", "txt", "jsonl", "log"]:
            texts[str(path)] = path.read_text() if path.name != "table.csv" else ""
        if path.suffix == ".parquet" and (tmp_path / "out") in path.parents:
            texts[str(path)] = pd.read_parquet(path).to_csv()
    texts["log"] = caplog.text
    assert len(texts) > 15
    assert "1,500 users" in texts["report"]
    assert "estimate on all users" in texts["report"]
    methods = (tmp_path / "out" / "methods.html").read_text(encoding="utf-8")
    assert ("Unit of privacy: user" in methods, "Unit of privacy: row" in methods) == (True, False)
    (read,) = json.loads((tmp_path / "out" / "manifest.json").read_text())["data"]
    assert (read["n_rows"], read["rows_read"], read["unit"]) == (1500, 1500, "user")
    assert shows(1500, texts["report"])
    assert [where for where, text in texts.items() if shows(len(table), text)] == []


def _written(folder, table):
    table.to_csv(folder / "table.csv", index=False)
    return folder / "table.csv"


def _release_words(folder, *more):
    files = folder / "table.csv", folder / "mine-release.toml"
    return *release_words("preconditioned_regression", *files, 2), "--interval", 0.95, "--yes", *more


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
    of_unlike_rows = np.var(y) * (1 / np.bincount(codes)).mean()
    assert np.var(between) > 1.5 * of_unlike_rows


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


def test_clusters_offer_to_protect_them_and_init_says_if_they_are_too_few(tmp_path, home):
    def initialized_of(n_clinics, **options):
        path = _written(tmp_path, trial(n_clinics))
        return init_study("mine", path, folder=tmp_path, response="outcome", force=True, **options)

    few = initialized_of(40, user_id="clinic")
    assert "40 users are too few for intervals" in few
    assert 3 < float(re.search(r"more than ε = ([\d.]+)", few).group(1)) < 10
    assert "too few" not in initialized_of(400, user_id="clinic") + initialized_of(40)
    initialized_of(400)
    file = completed(tmp_path / "mine.toml", {"clinic": (0, 400), "arm": (0, 1), "outcome": (-9, 9)})
    assert "protects each of them with all their rows" in file.read_text()
    edited(file, 'clusters = "none"', 'clusters = "clinic"')
    said = refusal(regression, tmp_path)
    wanted = "dpcost init --user-id clinic", "stronger guarantee", "too few"
    assert [words for words in wanted if words not in said] == []


SURVEY_BOUNDS = {"age": (20, 90), "dose": (0, 4), "cost": (-10, 20), "visits": (0, 60)}
NAMES = {"linear": "preconditioned_regression", "logistic": "preconditioned_glm"}
NAMES["poisson"] = "preconditioned_glm"
FITS = {"linear": sm.families.Gaussian, "logistic": sm.families.Binomial, "poisson": sm.families.Poisson}
RESPONSES = {"linear": "cost", "logistic": "ill", "poisson": "visits"}


def survey(n=3000, seed=0):
    """People of a survey: the effect of a dose depends on what weights depend on."""
    rng = np.random.default_rng(seed)
    is_sampled_often = rng.random(n) < 0.5
    table = pd.DataFrame({"age": rng.uniform(20, 90, n).round(1), "dose": rng.uniform(0, 4, n).round(2)})
    predictor = 0.02 * (table.age - 55) + np.where(is_sampled_often, 0.1, 0.6) * table.dose - 0.7
    table["cost"] = (predictor + rng.normal(0, 1, n)).clip(-10, 20).round(3)
    table["ill"] = (rng.random(n) < 1 / (1 + np.exp(-predictor))).astype(int)
    table["visits"] = rng.poisson(np.exp(predictor))
    table["w"] = np.where(is_sampled_often, 0.5, 2.0) * rng.uniform(0.8, 1.2, n)
    return table.assign(person=np.arange(n) // 2)


def surveyed(folder, table=None, family="linear", **options):
    response = RESPONSES[family]
    table = (survey() if table is None else table)[["age", "dose", response, "w", "person"]]
    special = {"weights": "w", **options}
    if "formula" not in special:
        special |= {"response": response}
    if not special.get("user_id") and "formula" not in special:
        table = table.drop(columns="person")
    return initialized(folder, table, bounds=SURVEY_BOUNDS, family=family, **special)


def released(folder, home, family="linear", epsilon=1e6, **options):
    ledger = open_ledger(home)
    with contextlib.suppress(LedgerError):
        ledger.open_dataset("mine", 1e9, 1e-5)
    files = folder / "table.csv", folder / "mine-release.toml"
    return release(ledger, NAMES[family], *files, epsilon=epsilon, delta=1e-6, **options)


def weighted(family, table, weights):
    formula = f"{RESPONSES[family]} ~ age + dose"
    return smf.glm(formula, table, family=FITS[family](), var_weights=weights).fit()


def of_one_setting(file, n_rows, n):
    """Let a study of so many rows have one size and the budget 3."""
    sizes = f"{n_rows // 16}, {n_rows // 4}, {n_rows - n_rows // 10}"
    edited(file, f"n = [{sizes}]\nepsilon = [0.5, 1.0, 3.0]", f"n = [{n}]\nepsilon = [3.0]")
    edited(file, f"n = {n_rows - n_rows // 10}\nepsilon = 0.5", f"n = {n}\nepsilon = 3.0")
    return file


@pytest.mark.parametrize("user_id", ["", "person"])
@pytest.mark.parametrize("family", ["linear", "logistic", "poisson"])
def test_a_study_measures_weighted_fits(tmp_path, home, family, user_id):
    n = 1500 if user_id else 3000
    file = surveyed(tmp_path, family=family, user_id=user_id)
    spec, _, results = computed(of_one_setting(file, n, n), tmp_path)
    problem = spec.head_panel.problem
    assert problem.covariates == ("age", "dose")
    rows = pd.read_parquet(results.path)
    assert set(rows["status"]) == {"ok"}
    error = rows[rows["metric"] == "l2_error"].groupby("estimator")["value"].mean()
    assert error["ols" if family == "linear" else "glm"] < 1e-8
    assert error[NAMES[family]] < error["zero"] / 2
    coef = problem.full_answer(problem.in_units(survey())).coef
    expected = weighted(family, survey(), survey().w / (2 if user_id else 1)).params
    units = problem.columns()
    scale = units[-1].scale if family == "linear" else 1.0
    for j, name in enumerate(["age", "dose"]):
        assert coef[j] * scale / units[j].scale == pytest.approx(expected[name], rel=1e-6)


@pytest.mark.parametrize("user_id", ["", "person"])
def test_a_release_is_that_of_the_library_with_the_same_seed(tmp_path, home, monkeypatch, user_id):
    monkeypatch.setattr("tasks.release.release.draw_release", drawn_from_a_seed)
    table, formula = survey(), "cost ~ age + dose"
    surveyed(tmp_path, table, formula=formula, user_id=user_id)
    answer = released(tmp_path, home, epsilon=2.0, interval=0.95)
    bounds = {name: SURVEY_BOUNDS[name] for name in ("age", "dose", "cost")}
    ask = {"epsilon": 2.0, "delta": 1e-6, "random_state": np.random.default_rng(0), "bounds": bounds}
    ask |= {"weights": "w", "max_weight": 3.0, "user": user_id or None, "interval_target": "least squares"}
    fitted = dpalgos.formula.ols(formula, pd.read_csv(tmp_path / "table.csv"), **ask)
    model, limits = record_of(answer)["release"], fitted.conf_int()
    assert "Rows are weighted by column w, clipped to [0, 3]." in model["methods"]
    assert ("Each user counts once" in model["methods"]) is bool(user_id)
    assert f"private for each {'user' if user_id else 'row'} at" in model["methods"]
    assert {"what": "weights w", "value": "0 to 3", "source": "declared in the study file"} in model["public"]
    assert np.isfinite(limits.loc["dose"]).all()
    for name in ("age", "dose"):
        np.testing.assert_allclose(answer.interval[name], limits.loc[name], rtol=1e-8)


def test_a_row_without_a_weight_is_treated_as_one_without_another_cell(tmp_path, home, monkeypatch):
    monkeypatch.setattr("tasks.release.release.draw_release", drawn_from_a_seed)
    table, is_missing = survey(), np.arange(3000) % 3 == 0
    file = surveyed(tmp_path, table.assign(w=table.w.where(~is_missing)))
    assert "column w" in refusal(released, tmp_path, home)
    edited(file, 'missing = "refuse"', 'missing = "drop"')
    answer, kept = released(tmp_path, home), table[~is_missing]
    expected = weighted("linear", kept, kept.w).params
    assert answer.estimate["dose"] == pytest.approx(expected["dose"], abs=2e-4)


@pytest.mark.parametrize("user_id", ["", "person"])
@pytest.mark.parametrize("family", FITS)
def test_a_study_of_weighted_rows_has_a_page(tmp_path, home, family, user_id):
    page = reported(surveyed(tmp_path, survey(600), family=family, user_id=user_id), tmp_path)
    assert "without privacy" in page
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert NAMES[family] in [each["estimator"] for each in manifest["budgets"]]


def test_weights_are_clipped_to_their_public_range(tmp_path, home, monkeypatch):
    monkeypatch.setattr("tasks.release.release.draw_release", drawn_from_a_seed)
    table = survey()
    table.loc[:20, "w"], table.loc[21:40, "w"] = 1e9, -5.0
    surveyed(tmp_path, table)
    answer, clipped = released(tmp_path, home), table.w.clip(0, 3)
    expected = weighted("linear", table, clipped).params
    assert answer.estimate["dose"] == pytest.approx(expected["dose"], abs=2e-4)


def test_other_weights_are_another_question(tmp_path, home):
    table = survey(400)
    surveyed(tmp_path, table)
    first, again = released(tmp_path, home), released(tmp_path, home)
    assert again.replayed
    assert not first.replayed
    table.loc[7, "w"] *= 1 + 1e-15
    surveyed(tmp_path, table, force=True)
    assert "weights" in str(first.plan.question.parameters["rows"])
    assert not released(tmp_path, home).replayed


def test_no_formula_takes_the_weights_as_a_covariate(tmp_path, home):
    file = surveyed(tmp_path, formula="cost ~ age + dose")
    edited(file, "cost ~ age + dose", "cost ~ age + dose + w")
    assert "'w'" in refusal(find_study, str(file))


def test_forecasts_count_the_design_effect(tmp_path, home, few_tables):
    guesses = '[guesses]\nexplained = 0.3\ncorrelation = 0.0\nmean = {{ "w" = 1.0 }}\nstd = {{ "w" = {} }}\n'
    errors = []
    for std in (0.05, 1.3):
        file = of_one_setting(surveyed(tmp_path, force=True), 3000, 2700)
        one = advice_of(file, guesses.format(std)).best(2700, 3.0)
        errors.append((one.error, one.half_width))
    (even, narrow), (uneven, wide) = errors
    assert even < uneven
    assert narrow < wide


def test_advice_names_weights_that_are_not_guessed(tmp_path):
    spec = find_study(str(surveyed(tmp_path)))
    problem = spec.head_panel.problem
    assert isinstance(problem, RegisteredTable)
    assert {"mean of w", "std of w"} <= set(problem.simulator(spec.guesses).left_open())


def test_weights_of_a_streamed_file_are_those_of_a_held_one(tmp_path, home, monkeypatch):
    monkeypatch.setattr("tasks.release.release.draw_release", drawn_from_a_seed)
    surveyed(tmp_path)
    held = released(tmp_path, home, epsilon=3.0)
    monkeypatch.setattr("tasks.release.rows.HELD_NUMBERS", 10)
    streamed = released(tmp_path, home, epsilon=3.0 + 1e-12)
    assert isinstance(streamed.plan.sample.rows, StreamedRows)
    assert streamed.estimate == pytest.approx(held.estimate, rel=1e-6)
