"""Plans of a file: checked without data, reserved, released, changed, continued; measured over many."""

import itertools
import json
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest
from prefect.states import Completed, Failed

import dpalgos
import flows.protocol
import tasks.protocol.prepare
import tasks.release.release
from data.errors import BudgetExhausted, ContentRefused, LedgerError
from data.ledger import Ledger, open_ledger
from flows.protocol import release_question
from reports.writing import num_in
from tasks.errors import SpecError
from tasks.protocol.plan_file import read_plan
from tasks.protocol.prepare import check_reservable, prepare_plan, reserve_plan
from tasks.protocol.questions import QuestionSet
from tasks.protocol.registration import deviations, is_released, registered_plan, registration_of
from tasks.release.release import draw_answer, public_plan
from tasks.release.spending import room_in, spent_epsilon
from tasks.report.coefficients import read_record, record_by_group, released_model
from tests.builders import refused
from tests.independent.accountant import epsilon_of_rho, rho_of
from tests.tasks.protocol.trials import (
    EXTRA,
    SMALL,
    SMALL_N,
    edit,
    plan_once,
    simulate_on_few,
    trial,
    written,
)


@pytest.fixture
def file(tmp_path, home, monkeypatch):
    """A plan with its data, study and an open budget; tasks run in this process, forecasts on few tables."""
    monkeypatch.setattr(tasks.protocol.prepare, "simulate_release", simulate_on_few)
    monkeypatch.setattr(tasks.release.release, "release_plan", plan_once)
    monkeypatch.setattr(flows.protocol, "release_question", in_process)
    open_ledger(home).open_dataset("trial", 3.0, 1e-6)
    return written(tmp_path, SMALL_N, SMALL)


def in_process(*arguments, return_state, **keywords):
    try:
        release_question.fn(*arguments, **keywords)
    except Exception as error:
        return Failed(data=error)
    return Completed()


def prepared_plan(file):
    return prepare_plan(read_plan(file), open_ledger().account("trial"))


def reserve(file):
    prepared = prepared_plan(file)
    reserve_plan(prepared, open_ledger())
    return prepared


def asks(file):
    """Return whether a reserve of the plan asks for consent."""
    questions = []
    reserve_plan(prepared_plan(file), open_ledger(), lambda _: questions.append("reserve?"))
    return bool(questions)


def run(file, again=False, told=lambda _: None):
    folder = file.parent / "out"
    told(flows.protocol.protocol.fn(str(file), str(folder), again))
    return folder / "protocol.html"


def charges(state=None):
    found = open_ledger().account("trial").charges
    return [each.reserve for each in found if state in (None, each.state)]


def found_deviations(file):
    plan = read_plan(file)
    return list(deviations(plan, registration_of(plan, open_ledger().account("trial"))))


def test_a_plan_is_checked_without_data_and_fits_its_budget(file):
    (file.parent / "trial.parquet").unlink()
    prepared = prepared_plan(file)
    assert not prepared.split.refusal
    rows = {(row[0], row[2]): row for row in prepared.table.texts}
    assert rows["primary", "C(arm)[T.drug]"][5] == "2.50"
    nested = next(row for row in prepared.table.texts if row[0] == "unadjusted (nested in primary)")
    assert nested[1] == "0"
    assert float(nested[3]) > 0
    requests = itertools.starmap(prepared.plan.request, prepared.split.epsilons.items())
    rho, _, failure = rho_of([event for each in requests for event in public_plan(each).events])
    assert failure == 0
    assert 2.9 < epsilon_of_rho(rho, 1e-6) <= 3.0


FORM = """
[[estimators]]
name = "preconditioned_regression"
form = "{0}"
about = "Intervals of {0} regression."
calibrations = ["tight"]
params = {{ interval = 0.95, interval_target = "{0}" }}
"""
REFUSED = tomllib.loads(Path(__file__).with_name("refused.toml").read_text(encoding="utf-8"))["refused"]


@pytest.mark.parametrize("line", REFUSED, ids=lambda line: line[1])
def test_a_wrong_plan_is_refused_by_name(file, line):
    old, new, *named = line
    edit(file, (old, new))
    refused(lambda: read_plan(file), SpecError, *named)


def test_an_estimator_that_cannot_be_released_is_refused_by_question(file):
    edit(file, ('mean = "baseline"', 'formula = "systolic ~ baseline"\nestimator = "tukey_em"\ninterval = 0'))
    refused(lambda: prepared_plan(file), SpecError, "'mean baseline'", "cannot be released")


def test_a_nested_model_may_stand_before_its_release(file):
    head, first, second, rest = file.read_text().split("[[question]]")
    file.write_text("[[question]]".join([head, second.replace("C(arm)", "C(arm) + age"), first, rest]))
    refused(lambda: read_plan(file), SpecError, "'unadjusted'", "nested")
    edit(file, ("C(arm) + age", "C(arm)"))
    assert read_plan(file).plan.questions[0].name == "unadjusted"


METHODS = (
    "Noise was drawn",
    "Unit of privacy",
    "neighboring data are",
    "A file with a missing value",
    ": Intervals cover the coefficients",  # which question has them
)


def test_a_plan_is_reserved_released_and_repeated_without_a_charge_or_a_simulation(file, monkeypatch):
    prepared, methods = reserve(file), []
    assert charges("reserved") == ["trial-plan/primary", "trial-plan/mean baseline"]
    page = run(file, told=methods.extend)
    (methods,) = methods
    assert [methods.count(words) for words in METHODS] == [1] * len(METHODS)
    assert "ours" not in methods
    assert "baseline" in methods
    text = page.with_suffix(".md").read_text()
    assert prepared.plan.sha256 in text
    assert "None." in text.partition("## Deviations")[2]
    assert "registered on" in text
    assert all(f"## {name}" in text for name in ("primary", "unadjusted", "mean baseline"))
    assert "T.drug" in (page.parent / "table.tex").read_text()
    assert "systolic, arm[placebo]" in (page.parent / "means.md").read_text().replace("\\", "")
    first = read_record(page.parent / "primary")
    titled = record_by_group(first, "arm", titled=True)["release"]["answer"]
    assert all(": systolic, arm[" in each["name"] for each in titled)
    (file.parent / "out" / "primary" / "release.json").unlink()
    assert not asks(file)
    run(file)
    again = read_record(page.parent / "primary")
    assert again["release"]["ledger"]["replayed"]
    assert again["release"]["answer"] == first["release"]["answer"]
    assert len(charges("released")) == 2
    monkeypatch.setattr(tasks.protocol.prepare, "simulate_release", None)
    later = prepared_plan(file)
    assert later.split.epsilons == prepared.split.epsilons
    assert later.split.total == pytest.approx(prepared.split.total)
    assert later.table.texts == prepared.table.texts


def test_a_question_that_changes_before_its_answer_keeps_its_epsilon_and_is_marked(file):
    before = reserve(file).split.epsilons
    edit(file, ('mean = "baseline"', 'mean = "age"'))
    after, given_back = prepared_plan(file), []
    reserve_plan(after, open_ledger(), given_back.extend)
    assert [each.reserve for each in given_back] == ["trial-plan/mean baseline"]
    assert after.split.epsilons == before
    assert [row[0] for row in after.forecasts["mean baseline"]["terms"]] == ["age"]
    assert len(charges("reserved")) == 2
    assert [line for line in found_deviations(file) if "'mean baseline'" in line and "['age']" in line]
    text = run(file).with_suffix(".md").read_text()
    # Under deviations, and in the methods.
    assert text.count("'mean baseline' changed after registration") == 2


def test_corrected_data_are_accepted_after_all_reserves_are_given_back(file):
    reserve(file)
    trial(0, SMALL_N).drop(columns="age").to_parquet(file.parent / "trial.parquet")
    refused(lambda: reserve(file), ContentRefused, "'trial'")
    account = open_ledger().account("trial")
    left = [each.id for each in account.charges]
    open_ledger().reserve("trial", [], room_in(account.budget), give_back=left)
    reserve(file)
    run(file)
    assert len(charges("released")) == 2


def test_a_release_keeps_to_the_declarations_that_were_reserved(file):
    digest, study = reserve(file).plan.digest, file.parent / "trial.toml"
    text = study.read_text()
    study.write_text(f"{text}\n# changed")
    release = flows.protocol.protocol.fn
    refused(lambda: release(str(file), str(file.parent / "out"), digest=digest), SpecError, "changed")
    assert charges("reserved") == charges()
    study.write_text(text)
    assert read_plan(file).digest == digest


def test_questions_that_were_added_after_a_release_name_it_in_their_methods(file):
    edit(file, ('mean = "baseline"', 'mean = "baseline"\nprecision = 3.0'))
    reserve(file)
    run(file)
    record = lambda name: json.loads((file.parent / "out" / name / "release.json").read_text())["release"]  # noqa: E731
    before = [record(name) for name in ("primary", "mean baseline")]
    assert [each["ledger"]["earlier"] for each in before] == [[], []]
    file.write_text(file.read_text() + EXTRA)
    reserve(file)
    run(file)
    assert len(record("extra")["ledger"]["earlier"]) == 2
    assert "before the program read the data" not in record("extra")["methods"]
    assert [record(name)["ledger"]["earlier"] for name in ("primary", "mean baseline")] == [[], []]


def test_a_question_names_a_form_if_the_study_lists_several(file):
    study = file.with_name("trial.toml")
    one = '[[estimators]]\nname = "preconditioned_regression"\n'
    edit(study, (one, FORM.format("robust") + FORM.format("least squares") + one + 'form = "other"\n'))
    refused(lambda: read_plan(file), SpecError, "'primary'", "form", "'robust'", "'least squares'")
    edit(file, ('name = "primary"', 'name = "primary"\nform = "least squares"'))
    assert read_plan(file).request("primary", 1.0).keywords["interval_target"] == "least squares"


TWICE = [
    ("formula = 'systolic ~ C(arm) + baseline'", "formula = 'systolic ~ baseline + arm'"),
    ("formula = 'systolic ~ log(age)'", "formula = 'systolic ~ np.log(age)'"),
    ("mean = 'age'", "mean = ['age']"),
    ("mean = 'age'", "mean = 'age'\nprecision = 3.0"),
    ("table1 = 'arm ~ age + sex'", "table1 = 'arm ~ sex + age'"),
]


@pytest.mark.parametrize(("one", "other"), TWICE)
def test_a_question_twice_is_refused_by_its_name(file, one, other):
    text = file.read_text()
    file.write_text(f'{text}\n[[question]]\nname = "one"\n{one}\n[[question]]\nname = "other"\n{other}\n')
    refused(lambda: read_plan(file), SpecError, "'one'", "'other'", "take one out")
    both = [tomllib.loads(each) for each in (f"name = 'one'\n{one}", f"name = 'other'\n{one}")]
    plain = {"plan": {"epsilon": 1.0, "delta": 1e-6}, "question": both}
    refused(lambda: QuestionSet.read(plain), dpalgos.InputError, "'one'", "'other'")


def test_a_question_may_be_called_like_the_value_of_a_parameter(file):
    named = 'name = "primary"\nparams = { interval_target = "robust" }'
    edit(file, ("mean baseline", "robust"), ('name = "primary"', named))
    assert read_plan(file).request("primary", 1.0).keywords["interval_target"] == "robust"


def test_a_question_that_another_plan_has_asked_is_refused(file):
    reserve(file)
    other = file.rename(file.with_name("other-plan.toml"))
    edit(other, ("= 2.5", "= 2.6"))
    prepared = prepared_plan(other)
    epsilons = {
        each.reserve.partition("/")[2]: each.epsilon for each in open_ledger().account("trial").charges
    }
    same = replace(prepared, split=replace(prepared.split, epsilons=epsilons))
    refused(lambda: reserve_plan(same, open_ledger()), SpecError, "'primary'", "trial-plan/primary")
    assert len(charges()) == 2


def test_a_changed_target_and_a_changed_submodel_are_marked(file):
    released = lambda: is_released(read_plan(file), open_ledger().account("trial"))  # noqa: E731
    reserve(file)
    assert not released()
    run(file)
    assert released()
    edit(file, ("= 2.5", "= 2.0"), ('formula = "systolic ~ C(arm)"', 'formula = "systolic ~ baseline"'))
    assert not asks(file)
    assert not released()
    found, names = found_deviations(file), ["'primary'", "'unadjusted'"]
    assert [name for name in names for line in found if name in line] == names


def test_added_questions_share_what_is_left_and_dropped_ones_give_their_reserve_back(file):
    edit(file, ('mean = "baseline"', 'mean = "baseline"\nprecision = 3.0'))
    first = reserve(file)
    assert first.split.total < 2.5
    file.write_text(file.read_text() + EXTRA)
    second = reserve(file)
    assert {name: second.split.epsilons[name] for name in first.split.epsilons} == dict(first.split.epsilons)
    assert 2.9 < second.split.total <= 3.0
    assert [line for line in found_deviations(file) if "'extra' was added" in line]
    edit(file, (EXTRA, ""))
    reserve(file)
    assert "trial-plan/extra" not in charges()
    assert charges("reserved") == ["trial-plan/primary", "trial-plan/mean baseline"]


def lose(file, monkeypatch):
    """Run a plan whose mean is charged, and lost before it is stored."""

    def draw(plan):
        if plan.request.estimator.name == "box_mean":
            raise MemoryError
        return draw_answer(plan)

    with monkeypatch.context() as patch:
        patch.setattr(tasks.release.release, "draw_answer", draw)
        refused(lambda: run(file), SpecError, "'mean baseline'")


def test_a_question_that_fails_before_its_charge_leaves_the_others_and_its_reserve(file, monkeypatch):
    reserve(file)
    release = tasks.release.release.release

    def broken(ledger, request, data, **keywords):
        if request.estimator.name == "box_mean":
            raise SpecError("the file is gone")
        return release(ledger, request, data, **keywords)

    monkeypatch.setattr("flows.protocol.release", broken)
    sentence = refused(lambda: run(file), SpecError, "'mean baseline'", "the file is gone", "give-back")
    assert "nothing was drawn" in sentence
    assert charges("released") == ["trial-plan/primary"]
    text = (file.parent / "out" / "protocol.md").read_text()
    assert "the file is gone" in text
    answers = read_record(file.parent / "out" / "primary")["release"]["answer"]
    answer = next(each for each in answers if each["name"] == "C(arm)[T.drug]")
    estimate = num_in(answer["estimate"], answer["lower"], answer["upper"])
    sentence = next(line for line in text.splitlines() if line.startswith("**"))
    assert f"is {estimate} " in sentence.replace("\\", "")
    monkeypatch.setattr("flows.protocol.release", release)
    run(file)
    assert len(charges("released")) == 2


def test_an_answer_that_is_lost_is_charged_again_only_on_demand(file, home, monkeypatch):
    prepared = reserve(file)
    lose(file, monkeypatch)
    assert charges("pending") == ["trial-plan/mean baseline"]
    account = open_ledger().account("trial")
    lost = {"give_back": [each.id for each in account.charges if each.state == "pending"]}
    give_back = lambda: open_ledger().reserve("trial", [], room_in(account.budget), **lost)  # noqa: E731
    refused(give_back, LedgerError, "stays spent")
    for again in (False, True):  # the plan took all of its epsilon
        named = "is left", "3", "Raise epsilon"
        assert "--again" not in refused(lambda again=again: run(file, again=again), SpecError, *named)
    assert prepared.split.total > 2.9
    assert len(charges()) == 2


def test_a_question_that_was_charged_twice_is_marked(file, monkeypatch):
    edit(file, ('mean = "baseline"', 'mean = "baseline"\nprecision = 3.0'))
    reserve(file)
    lose(file, monkeypatch)
    text = run(file, again=True).with_suffix(".md").read_text()
    assert "charged 2 times" in text
    assert len(charges("released")) == 2


def test_every_charge_of_a_registration_is_on_the_page_whether_in_the_file_or_not(file):
    edit(file, ('mean = "baseline"', 'mean = "baseline"\nprecision = 3.0'))
    first = file.read_text()
    reserve(file)
    for name, column in (("fish1", "age"), ("fish2", "bmi")):
        fished = f'\n[[question]]\nname = "{name}"\nmean = "{column}"\nprecision = 2.0\n'
        file.write_text(first + fished)
        reserve(file)
        run(file)
    file.write_text(first)
    assert not asks(file)
    text = run(file).with_suffix(".md").read_text()
    n_questions = len(tomllib.loads(first)["question"])
    assert f"with an estimate: {n_questions} of {n_questions}." in text
    spent = spent_epsilon(open_ledger().account("trial").charges, 1e-6)
    assert f"{spent:.4g}" in text
    for name, column in (("fish1", "age"), ("fish2", "bmi")):
        deviation = [line for line in found_deviations(file) if f"'{name}' was added" in line]
        assert "dropped" in deviation[0]
        assert f"## {name} (not in the plan)" in text
        assert column in text.partition(f"## {name} (not in the plan)")[2].partition("##")[0]
    assert "None." not in text.partition("## Deviations")[2]


def test_all_charges_of_a_plan_count_in_its_epsilon(file):
    """A question that is replaced after each answer stays within the epsilon of the plan."""
    edit(file, ("epsilon = 3.0", "epsilon = 1.0"), ('"arm[T.drug]" = 2.5', '"arm[T.drug]" = 25.0'))
    for number in range(4):
        fished = f'\n[[question]]\nname = "fish{number}"\nmean = "age"\nprecision = 3.0\n'
        before = file.read_text()
        file.write_text(before.partition('\n[[question]]\nname = "fish')[0] + fished)
        prepared = prepared_plan(file)
        if prepared.split.refusal:
            assert "is charged" in prepared.split.refusal
            break
        reserve_plan(prepared, open_ledger())
        run(file)
        spent = spent_epsilon(open_ledger().account("trial").charges, 1e-6)
        assert spent <= 1.0
        assert prepared.split.total == pytest.approx(spent, rel=1e-3)
    assert spent_epsilon(open_ledger().account("trial").charges, 1e-6) <= 1.0


def test_two_files_of_one_name_are_two_registrations(file, tmp_path):
    edit(file, ("epsilon = 3.0", "epsilon = 1.0"))
    reserve(file)
    before = charges()
    other = tmp_path / "other"
    other.mkdir()
    for name in ("trial.toml", "trial.parquet"):
        shutil.copy(file.with_name(name), other)
    second = other / file.name
    second.write_text(file.read_text())
    edit(second, ("C(arm) + baseline", "C(arm) + age"), ('mean = "baseline"', 'mean = "age"'))
    reserve(second)
    assert set(before) < set(charges())
    plans = [read_plan(each) for each in (file, second)]
    first, later = (registration_of(each, open_ledger().account("trial")) for each in plans)
    assert first.name != later.name
    assert registered_plan(plans[0], first)["sha256"] == plans[0].sha256
    assert registered_plan(plans[1], later)["sha256"] == plans[1].sha256
    assert found_deviations(file) == found_deviations(second) == []


def test_a_file_that_is_moved_or_renamed_keeps_its_registration(file, tmp_path):
    reserve(file)
    other = file.rename(file.with_name("other-plan.toml"))
    assert not asks(other)
    run(other)
    assert len(charges("released")) == 2


def test_an_answered_question_cannot_change_and_check_refuses_what_release_would_refuse(file, home):
    reserve(file)
    run(file)
    edit(file, ('mean = "baseline"', 'mean = "age"'))
    refused(lambda: reserve(file), SpecError, "'mean baseline'", "as it was charged")
    (file.parent / "trial.parquet").unlink()
    account = open_ledger().account("trial")
    refused(lambda: check_reservable(prepared_plan(file), account), SpecError, "'mean baseline'", "as it was")
    edit(file, ('mean = "age"', 'mean = "baseline"'))
    check_reservable(prepared_plan(file), account)
    Ledger(home).open_dataset("small", 1.0, 1e-6)
    edit(file, ('dataset = "trial"', 'dataset = "small"'))
    small = open_ledger().account("small")
    refused(lambda: check_reservable(prepare_plan(read_plan(file), small), small), BudgetExhausted, "'small'")


def test_a_release_of_a_reserved_question_asks_before_it_draws(file):
    prepared, name = reserve(file), "mean baseline"
    request = prepared.plan.request(name, prepared.split.epsilons[name])
    ask = {"before_charge": Mock(side_effect=SpecError("asked"))}
    one = lambda: tasks.release.release.release(open_ledger(), request, prepared.plan.data, **ask)  # noqa: E731
    refused(one, SpecError, "asked")
    assert f"trial-plan/{name}" in charges("reserved")


def test_planned_tests_are_registered_and_written_on_the_page(file):
    edit(file, ('name = "primary"', 'name = "primary"\ntest = ["C(arm)[T.drug] = 0", "baseline = 0.5"]'))
    edit(file, ('name = "unadjusted"', 'name = "unadjusted"\ntest = "C(arm)[T.drug] = -3"'))
    reserve(file)
    text = run(file).with_suffix(".md").read_text()
    assert text.count("planned test") == 2
    record = read_record(file.parent / "out" / "primary")
    (expected,) = released_model(record).t_test("baseline = 0.5").pvalue
    assert (f"{expected:.3f}" if expected >= 0.001 else "&lt; 0.001") in text
    edit(file, ("baseline = 0.5", "baseline = 0.6"))
    assert [line for line in found_deviations(file) if "test was" in line]


def test_a_table_of_means_has_a_row_for_each_variable_and_no_test(file):
    edit(file, ('columns = ["unadjusted", "primary"]', 'columns = ["mean baseline", "mean age"]'))
    edit(file, ('out = "table.tex"', 'out = "table.csv"'))
    file.write_text(file.read_text() + EXTRA.replace('"extra"', '"mean age"'))
    reserve(file)
    run(file)
    table = pd.read_csv(file.parent / "out" / "table.csv")
    assert list(table.term) == ["baseline", "age"]
    assert "p_value" not in table
    assert set(table.n) == {SMALL_N}
    edit(file, ('out = "table.csv"', 'out = "table.md"'))
    run(file)
    text = (file.parent / "out" / "table.md").read_text()
    assert "| baseline" in text
    assert "| p" not in text
