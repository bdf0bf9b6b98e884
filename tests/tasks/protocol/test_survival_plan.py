"""A plan of a trial with survival as outcome: hazard ratios, curves and a baseline table."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flows.protocol
import tasks.advice.releases
import tasks.release.release
from data.ledger import open_ledger
from flows.studies.find_study import find_study
from tasks.errors import SpecError
from tasks.protocol import prepare
from tasks.protocol.plan_file import read_plan
from tasks.protocol.prepare import prepare_plan, reserve_plan
from tasks.report.coefficients import by_group_of, read_record
from tests.builders import refused
from tests.dpalgos.test_group_tables import PUBLIC, trial
from tests.tasks.analyst_tables import drawn_from_a_seed, edited, initialized
from tests.tasks.protocol.test_plans import in_process
from tests.tasks.release.test_survival_release import BOUNDS

N = 4000
PLAN = Path(__file__).with_name("survival_plan.toml").read_text()


@pytest.fixture
def file(tmp_path, home, monkeypatch):
    monkeypatch.setattr(tasks.advice.releases, "_OF_TIMES", 4)
    monkeypatch.setattr(tasks.release.release, "draw_release", drawn_from_a_seed)
    monkeypatch.setattr(flows.protocol, "release_question", in_process)
    open_ledger(home).open_dataset("trial", 12.0, 1e-6)
    study = initialized(tmp_path, trial(N).round(6), bounds=BOUNDS, categories=PUBLIC["levels"])
    edited(study, "upper = 5", "upper = 5\nperiods = [0, 1, 2.5, 5]")
    study.write_text(
        study.read_text()
        + "\n[guesses]\nshares = { arm = [0.5, 0.5] }\nmean = { died = 0.5 }\nstd = { age = 12.0 }\n"
    )
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path / "plan.toml"


def test_a_plan_of_times_is_forecast_reserved_and_released(file):
    prepared = prepare_plan(read_plan(file), open_ledger().account("trial"))
    assert prepared.split.refusal == ""
    terms = {name: each.get("terms", ()) for name, each in prepared.forecasts.items()}
    forecast = {name: {row[0]: row[2] for row in rows} for name, rows in terms.items()}
    assert forecast["hazards"]["arm[T.drug]"] < 0.4
    assert max(forecast["curves"][f"{arm} at 2.5"] for arm in ("placebo", "drug")) < 0.06
    assert 0 < forecast["baseline"]["age, drug"] < 2
    reserve_plan(prepared, open_ledger())
    folder = file.parent / "out"
    (methods,) = flows.protocol.protocol.fn(str(file), str(folder))
    page = (folder / "protocol.md").read_text()
    found = "the log hazard ratio of arm"
    assert all(word in page for word in ("planned test", "Logrank test", "age, mean (SD)", found))
    assert all(word in methods for word in ("hazard ratios", "survival curves by group", "baseline table"))
    assert "ours" not in methods
    assert "– III" in (folder / "table1.md").read_text()
    assert "at risk" in (folder / "curves.md").read_text()
    for name in ("hazards", "curves"):  # a forecast tells what is released
        answer = {each["name"]: each for each in read_record(folder / name)["release"]["answer"]}
        for term, half_width in forecast[name].items():
            released = (answer[term]["upper"] - answer[term]["lower"]) / 2
            assert 0.4 < released / half_width < 2.5, (name, term)
    test = next(line for line in page.splitlines() if "+ 1 = 0" in line).split(" | ")[1]
    hazards = {each["name"]: each for each in read_record(folder / "hazards")["release"]["answer"]}
    difference = (hazards["arm[T.drug]"]["lower"] + hazards["arm[T.drug]"]["upper"]) / 2 + 1
    assert float(test.replace("−", "-")) == pytest.approx(difference, abs=0.01)
    curves = by_group_of(read_record(folder / "curves")["release"])
    assert curves.periods == (0, 1, 2.5, 5)
    sizes = by_group_of(read_record(folder / "baseline")["release"]).sizes
    assert curves.curves().query("time == 0")["at_risk"].tolist() == pytest.approx(sizes)
    assert all(
        f"{round(each):,}" in (folder / f"{name}.md").read_text()
        for each in sizes
        for name in ("curves", "table1")
    )
    assert not np.isnan(curves.logrank().pvalue)


def test_curves_of_all_persons_are_forecast(file):
    edited(file, 'survival = "Surv(time, died) ~ arm"', 'survival = "Surv(time, died) ~ 1"')
    edited(file, ', "drug at 5" = 0.1', "")
    prepared = prepare_plan(read_plan(file), open_ledger().account("trial"))
    assert prepared.split.refusal == ""
    assert len(prepared.forecasts["curves"]["terms"]) == 3


def test_forecasts_have_a_range_only_if_the_shares_of_categories_are_stated(file):
    for is_stated in (True, False):
        if not is_stated:
            edited(file.with_name("mine.toml"), "shares = { arm = [0.5, 0.5] }\n", "")
        forecasts = prepare_plan(read_plan(file), open_ledger().account("trial")).forecasts
        questions = forecasts["hazards"], forecasts["hazards"]["nested"]["unadjusted"], forecasts["curves"]
        for low, expected, high in (each[1:] for question in questions for each in question["terms"]):
            assert expected > 0
            assert (low is not None, high is not None) == (is_stated, is_stated)


def test_a_study_of_times_names_what_to_use_instead(file):
    study = file.with_name("mine.toml")
    study.write_text('formula = "Surv(time, died) ~ arm"\n' + study.read_text())
    refused(lambda: find_study(str(study)), SpecError, "Surv(time, died) ~ arm", "plan")


def test_a_table_of_a_plan_takes_hazard_ratios_from_its_curves(file, command_line):
    """The nested model has the noise of all terms of the larger one; the curves do not."""
    status, out, err = command_line("protocol", "check", file)
    assert (status, "write submodel = 'curves'" in out) == (0, True), err
    edited(file, 'submodel = "hazards"', 'submodel = "curves"')
    edited(
        file,
        'columns = ["baseline"]',
        'columns = ["baseline"]\n\n[[table]]\nout = "both.csv"\ncolumns = ["unadjusted", "hazards"]',
    )
    prepared = prepare_plan(read_plan(file), open_ledger().account("trial"))
    assert not [note for note in prepared.table.notes if "submodel" in note]
    ((term, *_, expected, _),) = prepared.forecasts["curves"]["nested"]["unadjusted"]["terms"]
    assert term == "arm[T.drug]"
    reserve_plan(prepared, open_ledger())
    folder = file.parent / "out"
    flows.protocol.protocol.fn(str(file), str(folder))
    (ratio,) = by_group_of(read_record(folder / "curves")["release"]).hazard_ratios().to_dict("records")
    table = pd.read_csv(folder / "both.csv").set_index(["release", "term"]).loc["unadjusted"]
    row = table.loc["arm[T.drug]"]
    assert row["hazard_ratio"] == pytest.approx(ratio["hazard_ratio"])
    assert row["hazard_ratio_low"] == pytest.approx(ratio["ci_low"])
    assert 0.4 < np.log(ratio["ci_high"] / ratio["ci_low"]) / 2 / expected < 2.5
    page = (folder / "protocol.md").read_text()
    assert "Hazard ratios follow from the released curves" in page


@pytest.mark.parametrize(
    ("formula", "named"),
    [
        ('formula = "Surv(time, died) ~ age"', "'Surv(time, died) ~ arm'"),
        ('formula = "Surv(time, died) ~ arm + age"', "'Surv(time, died) ~ arm'"),
        ('formula = "Surv(time, died) ~ 1"', "'Surv(time, died) ~ arm'"),
        ('formula = "Surv(time, died) ~ arm"\ntest = "arm[T.drug] = 0"', "test"),
    ],
)
def test_only_the_formula_of_the_curves_is_nested_in_them(file, formula, named):
    edited(
        file, 'submodel = "hazards"\nformula = "Surv(time, died) ~ arm"', f'submodel = "curves"\n{formula}'
    )
    refused(lambda: read_plan(file), SpecError, "'unadjusted'", named)


def test_a_release_repeats_no_forecast_of_its_check(file, command_line, monkeypatch):
    """A forecast is made of public declarations and code; whoever changes one is forecast anew."""
    status, checked, err = command_line("protocol", "check", file)
    assert status == 0, err
    simulate = tasks.advice.releases.synthetic_tables
    monkeypatch.setattr(tasks.advice.releases, "synthetic_tables", None)
    assert command_line("protocol", "check", file)[:2] == (0, checked)
    prepared = prepare_plan(read_plan(file), open_ledger().account("trial"))
    reserve_plan(prepared, open_ledger())
    for changed, old, new in (
        (file, 'survival = "Surv(time, died) ~ arm"', 'survival = "Surv(time, died) ~ arm"\ninterval = 0.9'),
        (file.with_name("mine.toml"), "std = { age = 12.0 }", "std = { age = 11.0 }"),
        (file, "delta = 1e-6", "delta = 1e-7"),
    ):
        text, simulated = changed.read_text(), []
        monkeypatch.setattr(
            tasks.advice.releases,
            "synthetic_tables",
            lambda *a, s=simulated, **k: s.append(1) or simulate(*a, **k),
        )
        edited(changed, old, new)
        prepare_plan(read_plan(file))
        assert simulated, new
        changed.write_text(text)


def test_a_forecast_is_kept_until_code_that_forecasts_changes(tmp_path, home, monkeypatch):
    copies = [shutil.copytree(folder, tmp_path / folder.name) for folder in prepare.FORECASTER]
    monkeypatch.setattr(prepare, "FORECASTER", copies)

    def value(computed):
        kept = prepare.KeptForecasts("dpalgos.central.dp_mean", "declared")
        return kept.value("half-widths", 1.0, lambda _: computed)

    assert [value(1), value(2)] == [1, 1]
    for number, name in enumerate(("advice/releases.py", "release/request.py", "protocol/prepare.py"), 3):
        (tmp_path / name).write_text("changed")
        assert value(number) == number
