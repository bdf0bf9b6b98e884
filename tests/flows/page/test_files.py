"""The study file and the plan that the page writes, and the questions that it makes, without a browser."""

import pytest

from data.errors import DataError
from reports.charts.budgets import budget_gauge, half_width_chart
from tasks.advice.releases import ReleaseForecast
from tasks.errors import SpecError
from tasks.own_table.answers import answers_about_rows, kind_of, with_rows, with_texts
from tasks.own_table.typed import (
    codes_of,
    count_of,
    list_of,
    number_of,
    numbers_of,
    quoted_entry,
    text_of_list,
)
from tasks.protocol.draft import QuestionDraft, opened_files, text_of_question
from tasks.protocol.foreseen import (
    needed,
    needed_times,
    past_forecasts,
    rows_of,
    text_of_forecast,
    text_of_past,
    unit_of_response,
)
from tasks.protocol.plan_file import read_plan
from tests.builders import refused
from tests.flows.page.driving import people, served

CSV = "age,group,code\n" + "\n".join(
    f"{18 + number % 60},{'ab'[number % 2]},0{number % 7}" for number in range(60)
)
COLUMNS = [
    {"name": "age", "lower": 18, "upper": 90, "source": "a law"},
    {"name": "group", "categories": ["a", "b, c"], "source": "a codebook"},
]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "My table.csv").write_text(CSV)
    return opened_files("My table.csv", tmp_path)


def question_of(kind, formula, others, **facts):
    return QuestionDraft(kind=kind, formula=formula, **facts).named(others)


def declare(files):
    files.declared["data"] |= {"privacy_unit": "a person", "clusters": "none", "columns": COLUMNS}
    files.questions.append(question_of("regression", "age ~ group", []))
    files.keep()


def test_a_new_table_has_a_study_file_with_open_facts_and_no_value_of_a_column(files):
    assert files.study.name == "my-table.toml"
    assert files.kinds == {"age": "whole number", "group": "text", "code": "text"}
    assert files.declared["data"]["rows"] == 60
    assert files.faults()


def test_a_wrong_bound_is_named_by_its_column_while_others_are_open(files):
    age = {"name": "age", "lower": "one", "upper": 90, "source": "a law"}
    files.declared["data"]["columns"] = [{**COLUMNS[1], "categories": ["?"]}, age]
    files.keep()
    (fault,) = files.faults(besides_open=True)
    assert fault.startswith("data.columns.age.lower: ")
    assert "'one'" in fault


def test_ctrl_c_closes_the_page_without_a_fault(tmp_path):
    with served(people(tmp_path)):
        pass
    assert "interrupted" not in (tmp_path / "page.log").read_text()


def test_the_command_line_reads_what_the_page_wrote(files):
    declare(files)
    assert files.faults() == []
    plan = read_plan(files.plan)
    assert list(plan.requests) == ["regression"]
    assert {table.out for table in plan.plan.tables} == {
        f"models.{kind}" for kind in ("docx", "tex", "md", "csv")
    }


def test_another_window_reads_the_same_declarations(files):
    declare(files)
    again = files.again()
    assert (again.declared, again.questions, again.kinds) == (files.declared, files.questions, files.kinds)
    again.keep()


def test_a_window_does_not_replace_what_another_wrote(files):
    declare(files)
    other = files.again()
    other.plan_facts["epsilon"] = 0.5
    other.keep()
    files.declared["data"]["privacy_unit"] = "a household"
    refused(files.keep, SpecError, files.plan.name)
    assert files.again().declared["data"]["privacy_unit"] == "a person"


def test_the_digest_of_a_plan_changes_with_its_study_file(files):
    declare(files)
    before = read_plan(files.plan).digest
    files.declared["data"]["columns"][0]["upper"] = 91
    files.keep()
    assert read_plan(files.plan).digest != before


BAD = {
    "no.csv": None,
    "no.toml": None,
    "empty.csv": "",
    "twice.csv": "a,a\n1,2\n",
    "letter.txt": "a,b\n1,2\n",
    "broken.toml": "x = [",
    "study.toml": "x = 1",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_by_its_name(tmp_path, name):
    if BAD[name] is not None:
        (tmp_path / name).write_text(BAD[name])
    with pytest.raises(ValueError, match=name):
        opened_files(name, tmp_path)


def test_tables_of_one_name_have_study_files_of_their_own(files, tmp_path):
    (tmp_path / "my-table.csv").write_text(CSV)
    for _ in range(2):
        assert opened_files("my-table.csv", tmp_path).study.name == "my-table-2.toml"
    assert opened_files("My table.csv", tmp_path).study.name == "my-table.toml"


def test_a_study_file_opened_again_has_the_kinds_of_all_columns(files, tmp_path):
    declare(files)
    assert opened_files(files.study.name, tmp_path).kinds == files.kinds


def test_a_table_with_declared_marks_is_opened_by_its_study_file(tmp_path):
    (tmp_path / "costs.csv").write_text("cost,group\n" + "1.234,a\n" * 60)
    (tmp_path / "costs.toml").write_text('[data]\npath = "costs.csv"\nthousands = "."\ndecimal = ","\n')
    assert opened_files("costs.toml", tmp_path).kinds == {"cost": "whole number", "group": "text"}


TYPED = {
    **{"1": 1, "-2.5": -2.5, "−2": -2, "1e-6": 1e-6, "": "?", "one": "one", "0.125": 0.125, "1.500": 1.5},
    **{"0,5": 0.5, "0,125": 0.125, "2,25": 2.25, "1.234,5": 1234.5, "-12.345.678,9": -12345678.9},
    **{"1,234.5": 1234.5, "1 234,5": 1234.5, "1'234": 1234, "1.234.567": 1234567, "-3,1415": -3.1415},
    **{text: text for text in ("1,500", "1,23,4", "1.234.5", "1.234,567,8", "1,2a")},
}


@pytest.mark.parametrize("text", TYPED)
def test_numbers_are_read_as_a_person_types_them(text):
    assert number_of(text) == TYPED[text]


@pytest.mark.parametrize("text", ["4000", "4,000", "4.000", "4 000"])
def test_a_whole_number_may_have_marks_between_thousands(text):
    assert count_of(text) == 4000


def test_numbers_with_decimal_commas_are_between_semicolons():
    assert numbers_of("0,5; 1; 2,5") == numbers_of("0.5, 1, 2.5") == [0.5, 1, 2.5]
    assert list_of('"a; b", c') == ["a; b", "c"]


@pytest.mark.parametrize(
    ("answers", "stated"),
    [
        (("one", "rows", ""), {"rows": 60, "clusters": "none"}),
        (("", "rows", ""), {"rows": 60, "clusters": "?"}),
        (("people", "rows", "code"), {"user_id": "code", "users": 9, "missing": "refuse"}),
        (("groups", "rows", "code"), {"rows": 60, "clusters": "code"}),
        (("groups", "rows", ""), {"rows": 60, "clusters": "?"}),
        (("groups", "independent", "code"), {"rows": 60, "clusters": "none"}),
        (
            ("groups", "groups", "code"),
            {"user_id": "code", "users": 9, "missing": "refuse", "clusters": "code"},
        ),
    ],
    ids=str,
)
def test_answers_about_rows_are_declared_and_read_again(answers, stated):
    unit, protect, by = answers
    data = {"privacy_unit": "a person", "rows": 1, "users": 2, "user_id": "other", "clusters": "other"}
    found = with_rows(data, unit=unit, protect=protect, by=by, rows=60, users=9)
    of_groups = answers[:2] == ("groups", "groups")
    assert found == {"privacy_unit": "a group of persons" if of_groups else "a person", **stated}
    again = {"people": answers, "groups": answers}.get(unit, (unit, "rows", ""))
    again = (
        ("one", "rows", "")
        if protect == "independent"
        else again
        if by or unit == "one"
        else ("", "rows", "")
    )
    assert answers_about_rows(found) == again


def test_a_column_keeps_what_has_no_field_and_what_was_typed():
    known = {"name": "t", "digits": 2, "lower": 1, "categories": ["a"], "source": "?"}
    typed = {"upper": "10,5", "periods": "0; 2,5; 10", "source": "a law", "resolution": ""}
    found = with_texts(known, "time", typed)
    assert found == {
        **{"name": "t", "digits": 2, "lower": 0, "upper": 10.5, "periods": [0, 2.5, 10], "source": "a law"}
    }
    assert kind_of(found) == "time"
    assert with_texts(known, "number", {"lower": "", "upper": "", "unit": ""}) == {
        **{"name": "t", "digits": 2, "lower": "?", "upper": "?"}
    }


def test_a_guess_is_stated_and_taken_out(files):
    declare(files)
    places = files.guess_places()
    assert places["shares of group"] == ("shares", "group")
    assert files.guesses_with("explained", "", "0,3") == {"explained": 0.3}
    files.declared["guesses"] = files.guesses_with("shares", "group", "0,3; 0,7")
    files.declared["guesses"] = files.guesses_with("mean", "age", "40")
    assert files.declared["guesses"] == {"shares": {"group": [0.3, 0.7]}, "mean": {"age": 40}}
    assert files.guess(*places["mean of age"]) == 40
    assert files.guesses_with("shares", "group", "") == {"mean": {"age": 40}}


def test_a_table_with_points_between_thousands_opens_with_its_decimal_mark(tmp_path):
    rows = "\n".join(f"{k};1.{k:03},5;{'ab'[k % 2]}" for k in range(60))
    (tmp_path / "kosten.csv").write_text(f"age;cost;group\n{rows}\n")
    refused(lambda: opened_files("kosten.csv", tmp_path), DataError, "thousands")
    assert opened_files("kosten.csv", tmp_path, ",").kinds["cost"] == "number"
    assert opened_files("kosten.csv", tmp_path).kinds["cost"] == "number"


def test_a_number_with_two_readings_is_refused_with_what_to_type(files):
    files.declared["data"]["columns"] = [{**COLUMNS[0], "upper": "1,500"}]
    files.keep()
    fault = files.faults(besides_open=True)[0]
    assert "'1,500'" in fault
    assert "1234.5" in fault


def test_codes_of_categories_are_read_by_line():
    assert codes_of("female = 2, F\n\nmale=1") == {"female": ["2", "F"], "male": ["1"]}


def test_a_text_with_a_comma_is_one_category():
    for texts in (["a", "b, c"], ["a\nb", "c\r"], ['say "x"', "a=b", " c ", "C:\\new", "µ"], ["a"]):
        assert list_of(text_of_list(texts)) == texts
        assert "\n" not in text_of_list(texts)
        written = "\n".join(f"{quoted_entry(each)} = {text_of_list(texts)}" for each in texts)
        assert codes_of(written) == dict.fromkeys(texts, texts)
    assert list_of('a,, "C:\\x, y" ,b\nc') == ["a", "C:\\x, y", "b\nc"]


def test_questions_have_names_of_their_own():
    first = question_of("regression", "y ~ x", [], family="logistic", test="x = 0")
    second = question_of("regression", "y ~ z", [first])
    nested = question_of("regression", "y ~ 1", [first, second], submodel="regression")
    assert first == {"name": "regression", "formula": "y ~ x", "family": "logistic", "test": ["x = 0"]}
    assert (second["name"], second["params"]) == ("regression 2", {"interval_target": "robust"})
    assert nested == {"name": "regression 3", "formula": "y ~ 1", "submodel": "regression"}
    assert text_of_question(nested) == "y ~ 1 (nested in regression)"
    assert question_of("table1", "g ~ x", [])["table1"] == "g ~ x"
    recurrent = question_of("hazard", "Surv(t, d) ~ x", [], events="all")
    assert recurrent["params"] == {"events": "all"}
    assert "params" not in question_of("hazard", "Surv(t, d) ~ x", [])
    assert text_of_question({**first, "precision": {"x": 0.5}}) == "y ~ x (logistic); x within ± 0.5"


def test_a_half_width_between_two_forecasts_is_interpolated():
    line = [(1.0, 0.4), (4.0, 0.1)]  # proportional to 1 / ε
    assert (needed(line, 0.2), needed(line, 0.5), needed(line, 0.05)) == ("2.00", "1.00", None)
    assert needed_times([(1, 0.4), (2, 0.2)], 0.1) == "4.00"
    assert needed_times([(1, 0.4), (2, 0.4)], 0.1) is None


def test_a_forecast_is_said_in_words():
    nan = float("nan")
    facts = {"half_widths": [], "ends": [], "intervals": (0, 0, 0), "signs": (0, 0, 0)}

    def foreseen(none, *terms):
        return ReleaseForecast(names=tuple(each[0] for each in terms), terms=terms, none=none, **facts)

    found = foreseen(0.25, ("x", 0.5, 1.0, 2.0), ("z", nan, 3.0, nan), ("far", nan, nan, nan))
    assert rows_of(found) == [
        ("x", "± 1.00", "0.500 to 2.00"),
        ("z", "± 3.00", ""),
        ("far", "no interval", ""),
    ]
    for of_effects, words in ((True, "Effects of z above 3.00"), (False, "that of z: ± 3.00")):
        assert words in text_of_forecast(found, of_effects=of_effects)
    assert "above 3.00 points will" in text_of_forecast(found, of_effects=True, unit="points")
    assert "25%" in text_of_forecast(found, of_effects=True)
    assert "shares" in text_of_forecast(foreseen(0, ("z", nan, 3.0, nan)), of_effects=True)
    assert text_of_forecast(foreseen(1, ("far", nan, nan, nan)), of_effects=True) == ""


def test_a_forecast_is_in_the_declared_unit_of_a_linear_response(files):
    declare(files)
    files.declared["data"]["columns"] = [{**COLUMNS[0], "unit": "years"}, COLUMNS[1]]
    files.questions.append(question_of("regression", "age ~ group", files.questions, family="poisson"))
    files.questions.append(question_of("table1", "group ~ age", files.questions))
    files.keep()
    assert [*map(unit_of_response, read_plan(files.plan).requests.values())] == ["years", "", ""]


def test_forecasts_of_the_past_stand_next_to_what_was_released():
    def charge(terms, interval):
        answer = interval and {"interval": interval}
        return {"reserve": "plan/a", "answer": answer, "cost": {"facts": {"forecast": {"terms": terms}}}}

    terms = [["x", 0.5, 1.0, 2.0], ["z", None, 1.0, None], ["far", 0.5, 1.0, 2.0], ["none", None, None, None]]
    released = {"x": [-1.2, 1.2], "z": [0.0, 4.0], "far": [None, None], "none": [0.0, 1.0]}
    drawn, open_one = charge(terms, released), charge(terms, None)
    bare = {"reserve": "", "answer": {"interval": released}, "cost": {"facts": {}}}
    past = past_forecasts([{"name": "table", "charges": [drawn, open_one, bare]}])
    assert [(each.question, each.term, each.released, each.is_in_range) for each in past] == [
        ("table: plan/a", "x", 1.2, True),
        ("table: plan/a", "z", 2.0, None),
    ]
    text = text_of_past(past)
    assert "1 of 2" in text
    assert "1 of 1" in text
    assert "No interval" in text_of_past([])


def test_pictures_show_names_as_text():
    assert "&lt;b&gt;" in str(half_width_chart({"<b>": [(1.0, 0.4), (2.0, 0.3)]}, 1.0))
    assert ">120<" in str(half_width_chart({"b": [(1.0, 123.0), (2.0, 30.0)]}, 1.0))
    assert "1.5 of 2 is spent" in str(budget_gauge(1.5, 1.0, 2.0))
