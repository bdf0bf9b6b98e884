"""Times to an event, curves and baseline tables as releases: units, records, tables and figures."""

import numpy as np
import pytest

import tasks.release.release
from data.errors import DataError
from data.ledger import Ledger
from dpalgos.formula import phreg, survival, table_one
from tasks.advice.releases import forecast_release
from tasks.errors import SpecError
from tasks.release.record import methods_of, record_of, write_record
from tasks.release.request import read_request
from tasks.report.coefficients import by_group_of, nested_record, table_of, text_of
from tests.builders import refused
from tests.dpalgos.test_group_tables import FORMULA as BASELINE
from tests.dpalgos.test_group_tables import PUBLIC, trial
from tests.dpalgos.test_survival import in_rows, patients
from tests.tasks.analyst_tables import drawn_from_a_seed, edited, initialized, release

N = 1500
FORMULA = "Surv(time, died) ~ arm + age"
BOUNDS = {"time": (0, 5), "died": (0, 1), "age": (40, 80)}
ARMS, BUDGET = {"arm": ["placebo", "drug"]}, {"epsilon": 1e4, "delta": 1e-6}


def release_file(folder, study, formula=FORMULA, kind="formula", more=""):
    text = f'{kind} = "{formula}"\n[dataset]\nname = "trial"\nstudy = "{study.name}"\n{more}'
    (folder / f"{kind}.toml").write_text(text)
    return folder / f"{kind}.toml"


def study_of(folder, table):
    """Return the release file of a completed study, whose formula has a time to an event."""
    return release_file(folder, initialized(folder, table, bounds=BOUNDS, categories=ARMS))


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.setattr(tasks.release.release, "draw_release", drawn_from_a_seed)
    ledger = Ledger(tmp_path / "home")
    ledger.open_dataset("trial", 1e7, 1e-3)
    return ledger


def test_times_outside_their_bounds_are_cut_at_periods_only(ledger, tmp_path):
    """With `outside = "clip"`, an early event and a late entry stay in their periods."""
    frame = patients(N).round(6)
    frame["entered"] = (frame["time"] / 2).round(6)
    bounds = {**BOUNDS, "time": (1, 4), "entered": (0, 2)}
    file = initialized(tmp_path, frame, bounds=bounds, categories=ARMS)
    edited(file, "upper = 4", "upper = 4\nperiods = [0, 1, 2, 3, 4]")
    edited(file, 'outside = "refuse"', 'outside = "clip"')
    formula = "Surv(entered, time, died) ~ arm"
    config = release_file(tmp_path, file, formula)
    got = release(ledger, "preconditioned_glm", tmp_path / "table.csv", config, epsilon=1e6, delta=1e-6)
    declared = {"bounds": {"time": (1, 4), "entered": (0, 2)}, "levels": ARMS, "periods": [0, 1, 2, 3, 4]}
    plain = phreg(formula, frame, **declared, epsilon=1e6, delta=1e-6, random_state=0, interval=None)
    for name, expected in plain.params.items():
        assert got.estimate[name] == pytest.approx(expected, abs=0.02)


def test_curves_of_times_in_days_have_a_caution_on_units(ledger, tmp_path):
    frame = patients(N).round(6)
    file = initialized(tmp_path, frame.assign(time=365 * frame["time"]), bounds=BOUNDS, categories=ARMS)
    edited(file, 'outside = "refuse"', 'outside = "clip"')
    config = release_file(tmp_path, file, "Surv(time, died) ~ arm", "survival")
    got = release(ledger, "cumulative_counts", tmp_path / "table.csv", config, epsilon=1.0, delta=1e-6)
    (caution,) = record_of(got)["release"]["cautions"]
    assert "unit" in caution


@pytest.mark.parametrize("events", ["first", "all"])
def test_rows_of_a_person_in_a_file_are_followed_as_those_of_a_frame(ledger, tmp_path, events):
    """Quarterly rows, in any order and with clipped covariates."""
    frame = in_rows(patients(3000).assign(person=np.arange(3000)), 0.25).round(6)
    bounds = {**BOUNDS, "age": (40.1, 79.9), "start": (0, 5)}
    file = initialized(tmp_path, frame, bounds=bounds, categories=ARMS, user_id="person")
    edited(file, 'outside = "refuse"', 'outside = "clip"')
    for name in ("time", "start"):
        text = file.read_text()
        at = text.index(f'name = "{name}"')
        file.write_text(text[:at] + text[at:].replace("upper = 5", "upper = 5\nperiods = [0, 1, 2, 3, 5]", 1))
    formula, budget = "Surv(start, time, died) ~ arm + age", {"epsilon": 3.0, "delta": 1e-6}
    more = f'[columns]\nuser_id = "person"\n[params]\nevents = "{events}"'
    config = release_file(tmp_path, file, formula, more=more)
    got = release(ledger, "preconditioned_glm", tmp_path / "table.csv", config, interval=0.95, **budget)
    assert got.plan.n_units == 3000
    declared = {"bounds": {"age": (40.1, 79.9)}, "levels": ARMS, "periods": [0, 1, 2, 3, 5]}
    rng = np.random.default_rng(0)
    plain = phreg(formula, frame, user="person", events=events, **declared, **budget, random_state=rng)
    record = record_of(got)["release"]
    answer = {each["name"]: [each["estimate"], each["lower"], each["upper"]] for each in record["answer"]}
    for name, low, high in plain.conf_int().itertuples():
        ends = [None if np.isnan(each) else pytest.approx(each) for each in (low, high)]
        assert answer[name] == [pytest.approx(plain.params[name]), *ends]
    assert plain.params["arm[T.drug]"] == pytest.approx(-0.5, abs=0.15)
    assert ("first event" in record["methods"]) == (events == "first")
    respelled = got.plan.request.with_formula("Surv(start, time, died) ~ age + arm")
    assert respelled.by_formula.survival.all_events == (events == "all")


def released(ledger, folder, table, estimator="preconditioned_glm"):
    config = study_of(folder, table)
    return release(ledger, estimator, folder / "table.csv", config, interval=0.95, **BUDGET)


def test_a_release_has_the_hazard_ratios_of_the_same_frame(ledger, tmp_path):
    frame = patients(N).round(6)
    got = released(ledger, tmp_path, frame)
    record, periods = record_of(got), got.plan.request.by_formula.survival.periods
    options = {"bounds": {"age": (40, 80)}, "levels": ARMS, "periods": periods, "random_state": 0}
    plain = phreg(FORMULA, frame, **options, **BUDGET)
    answer = {each["name"]: each["estimate"] for each in record["release"]["answer"]}
    np.testing.assert_allclose([answer[name] for name in plain.params.index], plain.params, atol=0.02)
    assert record["release"]["model"]["n"] == N
    assert record["deployment"]["privacy_loss"]["privacy_unit"] == "Row"
    assert "for each row" in record["release"]["methods"]
    assert "baseline terms" in record["release"]["methods"]
    assert record["release"]["risk"]["unit"] == "row"
    assert "user" not in record["release"]["risk"]["sentence"]
    assert "hazard_ratio" in table_of([record], tmp_path / "table.csv").decode()
    nested = nested_record(record, "Surv(time, died) ~ arm")
    assert "arm[T.drug]" in {each["name"] for each in nested["release"]["answer"]}


def test_a_person_without_a_value_stays_one_of_the_number_of_persons(ledger, tmp_path):
    frame = patients(N).round(6)
    frame.loc[::10, "age"] = np.nan
    config = study_of(tmp_path, frame)
    study = tmp_path / "mine.toml"
    study.write_text(study.read_text().replace('missing = "refuse"', 'missing = "drop"'))
    got = release(ledger, "preconditioned_glm", tmp_path / "table.csv", config, **BUDGET)
    assert got.plan.n_units == N
    sample = got.plan.sample
    is_left_out = ~sample.X[:, 1:].any(axis=1)  # but for the exposure
    assert np.unique(sample.user_codes[is_left_out]).tolist() == list(range(0, N, 10))
    options = {"bounds": {"age": (40, 80)}, "levels": ARMS, "random_state": 0}
    periods = got.plan.request.by_formula.survival.periods
    plain = phreg(FORMULA, frame.dropna(), periods=periods, **options, **BUDGET)
    for name, expected in plain.params.items():
        assert got.estimate[name] == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize(
    ("line", "estimator"), [("formula", "preconditioned_glm"), ("survival", "cumulative_counts")]
)
def test_a_record_says_which_category_is_the_event(ledger, tmp_path, line, estimator):
    frame = patients(N).round(6)
    frame["died"] = np.where(frame["died"] == 1, "yes", "no")
    config = study_of(tmp_path, frame)
    config.write_text(config.read_text().replace("formula =", f"{line} =").replace(" + age", ""))
    study = tmp_path / "mine.toml"
    study.write_text(study.read_text().replace("['?']", '["yes", "no"]'))
    got = release(ledger, estimator, tmp_path / "table.csv", config, **BUDGET)
    assert "The event died is coded: 0 is 'yes' and 1 is 'no'." in record_of(got)["release"]["methods"]


CURVES = "Surv(time, died) ~ arm"
ESTIMATORS = {"survival": "cumulative_counts", "table1": "group_sums"}


def released_by_group(ledger, folder, kind, formula, frame=None, interval=None, **edits):
    frame = trial(1500).round(6) if frame is None else frame
    file = folder / "mine.toml"
    if not file.exists():
        initialized(folder, frame, bounds=BOUNDS, categories=PUBLIC["levels"])
    for old, new in edits.items():
        edited(file, f'{old} = "refuse"', f'{old} = "{new}"')
    config = release_file(folder, file, formula, kind)
    return release(ledger, ESTIMATORS[kind], folder / "table.csv", config, interval=interval, **BUDGET)


@pytest.mark.parametrize("users", [750, 1600])
def test_curves_of_a_person_with_two_rows_are_refused_as_in_python(ledger, tmp_path, users):
    """A follow-up is one row: the mean of two would be of no person."""
    frame = trial(1500).round(6).assign(person=np.arange(1500) // 2)
    study = initialized(tmp_path, frame, bounds=BOUNDS, categories=PUBLIC["levels"], user_id="person")
    edited(study, "users = 750", f"users = {users}")
    config = release_file(tmp_path, study, CURVES, "survival", '[columns]\nuser_id = "person"\n')
    arguments = ledger, ESTIMATORS["survival"], tmp_path / "table.csv", config
    refused(lambda: release(*arguments, **BUDGET), DataError, "one row", "join the rows", hidden=("749",))
    assert not ledger.account("trial").charges


def test_a_release_of_curves_is_that_of_the_frame(ledger, tmp_path):
    frame = trial(1500).round(6)
    record = record_of(released_by_group(ledger, tmp_path, "survival", CURVES, frame))
    own = by_group_of(record["release"]).curves()
    plain = survival(CURVES, frame, levels=ARMS, bounds={"time": (0, 5)}, random_state=0, **BUDGET).curves()
    np.testing.assert_allclose(own["survival"], plain["survival"], atol=1e-3)
    np.testing.assert_allclose(own[["ci_low", "ci_high"]], plain[["ci_low", "ci_high"]], atol=1e-3)
    answer = {each["name"]: each for each in record["release"]["answer"]}
    last = plain.iloc[-1]
    assert answer["drug at 5"]["estimate"] == pytest.approx(last["survival"], abs=1e-3)
    assert answer["drug at 5"]["lower"] == pytest.approx(last["ci_low"], abs=1e-3)
    text = text_of([record])
    assert all(word in text for word in ("drug: at risk", "Logrank test", "Restricted mean up to 5"))
    assert "ours" not in methods_of([record])
    assert f"survival curves by group ({CURVES})" in methods_of([record])


def test_a_figure_of_curves_has_the_noisy_numbers_at_risk(ledger, tmp_path, command_line):
    record = record_of(released_by_group(ledger, tmp_path, "survival", CURVES))
    write_record(record, tmp_path / "curves")
    page = (tmp_path / "curves" / "release.html").read_text()
    assert "numbers at risk" in page
    status, *_ = command_line("figure", tmp_path / "curves", "--format", "svg", "--out", tmp_path / "a.svg")
    assert status == 0
    at_risk = by_group_of(record["release"]).curves()["at_risk"]
    another = command_line("figure", tmp_path / "curves", "--format", "png", "--out", tmp_path / "a.png")
    assert another[0] == 0  # its data file is the same
    (tmp_path / "a-figure.csv").write_text("mine")
    assert command_line("figure", tmp_path / "curves", "--format", "pdf", "--out", tmp_path / "a.pdf")[0] == 2
    assert (tmp_path / "a-figure.csv").read_text() == "mine"
    args = "figure", tmp_path / "curves", "--format", "svg", "--out", tmp_path / "a.svg", "--force"
    assert command_line(*args)[0] == 0
    drawn = (tmp_path / "a.svg").read_text()
    assert all(f">{round(each):,}<" in drawn for each in at_risk)
    assert len((tmp_path / "a-figure.csv").read_text().splitlines()) == 1 + len(at_risk)
    means = record_of(released_by_group(ledger, tmp_path, "table1", BASELINE))
    write_record(means, tmp_path / "means")
    status, _, err = command_line("figure", tmp_path / "means")
    assert status == 2
    assert "survival curves" in err


def test_a_baseline_table_has_a_row_per_variable_and_a_column_per_arm(ledger, tmp_path):
    frame = trial(1500).round(6)
    record = record_of(released_by_group(ledger, tmp_path, "table1", BASELINE, frame))
    plain = table_one(BASELINE, frame, random_state=0, **PUBLIC, **BUDGET).frame()
    own = by_group_of(record["release"]).frame()
    np.testing.assert_allclose(own["estimate"], plain["estimate"], rtol=1e-3)
    lines = table_of([record], tmp_path / "table.md").decode().splitlines()
    assert "|  | placebo | drug |" in lines
    first = [line.split("|")[1].strip() for line in lines if line.startswith("| ")]
    assert first == [
        "",
        ":--",
        "n",
        "age, mean (SD)",
        "age, median (quartiles)",
        "stage, n (%)",
        "– I",
        "– II",
        "– III",
    ]
    assert "Brackets are 95% limits" in text_of([record])
    assert "age 0.315" in text_of([record])  # the width of a cell
    with_limits = record_of(released_by_group(ledger, tmp_path, "table1", BASELINE, frame, interval=0.9))
    assert "Brackets are 90% limits" in text_of([with_limits])
    assert with_limits["release"]["answer"][0]["lower"] is not None
    assert len(ledger.account("trial").charges) == 1  # limits follow from the same release
    assert table_of([record], tmp_path / "table.docx")
    refused(lambda: text_of([record, with_limits]), SpecError, "table of its own")


def test_persons_without_a_value_are_counted_by_group_and_those_without_a_group_nowhere(ledger, tmp_path):
    frame = trial(1500).round(6)
    frame.loc[::10, "age"] = np.nan
    frame.loc[::25, "arm"] = None
    frame.loc[::8, "stage"] = None
    record = record_of(released_by_group(ledger, tmp_path, "table1", BASELINE, frame, missing="drop"))
    table = by_group_of(record["release"]).frame().set_index(["variable", "statistic", "group"])
    for arm, own in frame.groupby("arm"):
        assert table.loc[("n", "size", arm), "estimate"] == pytest.approx(len(own), abs=2)
        assert table.loc[("age", "missing", arm), "n"] == pytest.approx(own["age"].isna().sum(), abs=2)
        assert table.loc[("age", "mean", arm), "estimate"] == pytest.approx(own["age"].mean(), abs=0.1)
        assert table.loc[("stage", "missing", arm), "n"] == pytest.approx(own["stage"].isna().sum(), abs=2)
    text = text_of([record])
    assert "age, missing, n (%)" in text
    assert "About 60 persons are in no group: their group is missing." in text
    assert "Missing values are counted" in record["release"]["methods"]
    assert "Rows with a missing group are left out" in record["release"]["methods"]


@pytest.mark.parametrize("rule", ["impute = 50", 'missing = ["-7"]'])
def test_a_constant_or_a_code_for_missing_cells_says_that_they_are_counted(ledger, tmp_path, rule):
    frame = trial(1500).round(6)
    frame.loc[::10, "age"] = -7 if "-7" in rule else np.nan
    study = initialized(tmp_path, trial(1500).round(6), bounds=BOUNDS, categories=PUBLIC["levels"])
    edited(study, 'name = "age"', f'name = "age"\n{rule}')
    frame.to_csv(tmp_path / "table.csv", index=False)
    record = record_of(released_by_group(ledger, tmp_path, "table1", BASELINE))
    table = by_group_of(record["release"]).frame().set_index(["variable", "statistic", "group"])
    ages = frame.assign(age=trial(1500)["age"].where(np.arange(1500) % 10 > 0))
    for arm, own in ages.groupby("arm"):
        assert table.loc[("age", "missing", arm), "n"] == pytest.approx(own["age"].isna().sum(), abs=2)
        assert table.loc[("age", "mean", arm), "estimate"] == pytest.approx(own["age"].mean(), abs=0.1)
    assert ("stage", "missing") not in {each[:2] for each in table.index}
    methods = record["release"]["methods"]
    assert "rejected, except where it is counted" in methods
    assert "are replaced" not in methods


def test_a_time_that_is_clipped_is_censored_in_curves(ledger, tmp_path):
    frame = trial(1500).round(6)
    late = frame.assign(time=frame["time"] * 1.5)
    record = record_of(released_by_group(ledger, tmp_path, "survival", CURVES, late, outside="clip"))
    got = by_group_of(record["release"]).curves()
    plain = survival(CURVES, late, levels=ARMS, bounds={"time": (0, 5)}, random_state=0, **BUDGET).curves()
    np.testing.assert_allclose(got["survival"], plain["survival"], atol=2e-3)


def test_a_forecast_of_weighted_persons_has_intervals(tmp_path):
    frame = patients(N).round(6).assign(w=1.5)
    bounds = {**BOUNDS, "w": (0, 2)}
    file = initialized(tmp_path, frame, bounds=bounds, categories=ARMS, weights="w", response="died")
    config = release_file(tmp_path, file, more='[columns]\nweights = "w"\n')
    request = read_request(config, "preconditioned_glm", epsilon=100.0, delta=1e-6, interval=0.95)
    assert forecast_release(request).none < 0.5


def test_a_half_event_is_refused(ledger, tmp_path):
    frame = patients(N).round(6).astype({"died": float})
    frame.loc[0, "died"] = 0.5
    refused(lambda: released(ledger, tmp_path, frame), ValueError, "'died'")
    assert not ledger.account("trial").charges


def test_methods_say_which_release_came_before(ledger, tmp_path):
    """Bounds that are changed after a release were not fixed before the data were read."""
    first = record_of(released_by_group(ledger, tmp_path, "table1", BASELINE))
    assert "were fixed before the program read the data" in first["release"]["methods"]
    study = tmp_path / "mine.toml"
    study.write_text(study.read_text().replace("upper = 80", "upper = 90"))
    second = record_of(released_by_group(ledger, tmp_path, "table1", BASELINE))
    assert "were fixed before" not in second["release"]["methods"]
    assert "Before this release, one other release was made from these data" in second["release"]["methods"]
    study.write_text(study.read_text().replace("upper = 90", "upper = 80"))
    again = record_of(released_by_group(ledger, tmp_path, "table1", BASELINE))
    assert again["release"]["ledger"]["replayed"]
    assert "were fixed before the program read the data" in again["release"]["methods"]


def test_the_order_of_variables_is_no_other_question(ledger, tmp_path):
    first = released_by_group(ledger, tmp_path, "table1", "arm ~ age + stage")
    second = released_by_group(ledger, tmp_path, "table1", "arm ~ stage + age")
    assert second.charge.id == first.charge.id
    lines = text_of([record_of(second)]).splitlines()
    rows = [k for k, line in enumerate(lines) if line.startswith(("age, mean", "stage, n"))]
    assert lines[rows[0]].startswith("stage")
