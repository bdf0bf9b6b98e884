"""One question has one form, however it is spelled, and one user one budget; other bits are another one."""

import itertools
import json
import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tasks.release.release
from data.errors import AnswerLost, ContentRefused
from data.ledger import Ledger
from data.ledger.content import Fingerprinter
from tasks.errors import SpecError
from tests.builders import refused, release_file, release_words
from tests.flows.small_project import sentence
from tests.tasks.analyst_tables import completed, edited, init_study, numbers_of, release

QUESTIONS = tomllib.loads(Path(__file__).with_name("questions.toml").read_text(encoding="utf-8"))
N = 240
CONFIG = '[dataset]\nname = "people"\n{study}[columns]\nx = {x}\n{y}[bounds]\n{bounds}\n[params]\n{params}\n'


def people():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(-1, 1, (N, 3)).round(3), columns=["age", "weight", "cost"])
    sites = rng.choice(["north", "south", "west", "None"], N)
    arm, person = 100_000_001 + rng.integers(0, 2, N), np.arange(N) // 4 + 2**53
    return table.assign(arm=arm, site=sites, person=person)


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "home")
    ledger.open_dataset("people", 1e4, 1e-3)
    return ledger


def asked(ledger, folder, estimator="box_mean", *, table=None, study="", x='["age", "weight"]', **stated):
    options = stated.pop("options", {})
    settings = {"y": "", "bounds": "", "params": "", **stated}
    file = folder / "people.csv"
    (people() if table is None else table).to_csv(file, index=False)
    config = folder / "release.toml"
    config.write_text(CONFIG.format(study=study, x=x, **settings))
    return release(ledger, estimator, file, config, epsilon=1.0, delta=1e-6, **options)


BOX = {"bounds": "lower = -1.0\nupper = 1.0"}


@pytest.mark.parametrize("spellings", QUESTIONS["spellings"].values(), ids=QUESTIONS["spellings"])
def test_a_question_that_is_spelled_otherwise_is_the_same(ledger, tmp_path, spellings):
    first, *others = [asked(ledger, tmp_path, **(BOX | stated)) for stated in spellings]
    for other in others:
        assert other.replayed
        assert other.estimate == first.estimate
    assert len(other.account.charges) == 1


DECLARED = {"study": 'study = "mine.toml"\n', "x": '["age", "site"]', "y": 'y = "cost"\n'}


def test_codes_for_missing_cells_need_a_rule_that_refuses_no_row(ledger, tmp_path):
    """A refusal of rows with a code would say whether any cell holds it, or one certain row exists."""
    file, _ = study_of(tmp_path)
    edited(file, 'name = "age"\n', 'name = "age"\nmissing = ["47"]\n')
    ask = lambda **more: asked(ledger, tmp_path, "preconditioned_regression", **DECLARED, **more)  # noqa: E731
    refused(ask, SpecError, "'age'", "impute")
    edited(file, 'missing = "refuse"', 'missing = "drop"')
    assert not ask().replayed
    without_any = people().assign(age=47)
    assert not ask(table=without_any, options={"allow_new_content": True}).replayed


def test_other_questions_are_charged(ledger, tmp_path):
    different = QUESTIONS["different"]
    assert not any(asked(ledger, tmp_path, **(BOX | stated)).replayed for stated in different)


def study_of(folder):
    people().to_csv(folder / "people.csv", index=False)
    init_study("mine", folder / "people.csv", folder=folder, response="cost")
    levels = ["north", "south", "west", "None"]
    file = completed(folder / "mine.toml", {"arm": (1e8, 1e8 + 3), "person": (0, 1e16)}, {"site": levels})
    file.write_text(file.read_text().replace("lower = 0", "lower = -1"))
    return file, levels


def test_markers_in_another_order_are_the_same_question_and_levels_are_another(ledger, tmp_path):
    file, levels = study_of(tmp_path)
    text = file.read_text().replace('missing = "refuse"', 'missing = "drop"')
    written = str(levels)
    assert written in text
    mark = 'name = "age"\n'
    marked, number = (text.replace(mark, mark + f"missing = {it}\n") for it in ('["?", "."]', '["99"]'))
    others_turned, turned = str([levels[0], *reversed(levels[1:])]), str([*reversed(levels)])
    respaced = marked.replace('"."', '" . "')
    spellings = [
        (marked, False),
        (text.replace(mark, mark + 'missing = [".", "?", "?", "NA"]\n'), True),
        *[(respaced, True), (marked.replace(written, others_turned), False)],
        *[(number, False), (number.replace("99", "099.0"), True)],
        *[(text, False), (marked.replace(written, turned), False), (marked.replace(', "."', ""), False)],
    ]
    for content, same in spellings:
        file.write_text(content)
        assert asked(ledger, tmp_path, "preconditioned_regression", **DECLARED).replayed == same


def with_cell(column, value):
    table = people()
    table[column] = table[column].astype(object)
    table.loc[7, column] = value
    return table


MENDED = [("age", 0.5, np.nextafter(0.5, 1)), ("arm", 100_000_001, 100_000_003)]


@pytest.mark.parametrize(("column", "before", "after"), MENDED)
def test_any_other_bit_of_what_is_read_is_another_question(ledger, tmp_path, column, before, after):
    stated = {"x": f'["{column}"]', "bounds": "lower = -1\nupper = 200000000"}
    first = asked(ledger, tmp_path, table=with_cell(column, before), **stated)
    assert asked(ledger, tmp_path, table=with_cell(column, before), **stated).estimate == first.estimate
    assert not asked(ledger, tmp_path, table=with_cell(column, after), **stated).replayed


@pytest.mark.parametrize("kind", [int, str])
def test_whole_numbers_of_many_digits_are_told_apart(kind):
    digests = set()
    for person in (2**53, 2**53 + 1):
        reader = Fingerprinter(b"k" * 32, read={"person": ()})
        reader.add(pa.record_batch({"person": [kind(person), kind(3)]}))
        digests.add((reader.fingerprint(), reader.exact()))
    assert len({fingerprint for fingerprint, _ in digests}) == 1
    assert len(digests) == 2


def test_a_level_that_is_a_word_for_missing_elsewhere_is_told_from_it():
    digests = {}
    for levels, cells in itertools.product(((), ("None", "a")), (["None", "a"], ["NA", "a"])):
        reader = Fingerprinter(b"k" * 32, read={"site": levels})
        reader.add(pa.record_batch({"site": cells}))
        digests[levels, cells[0]] = reader.fingerprint(), reader.exact()
    assert len({fingerprint for fingerprint, _ in digests.values()}) == 1
    assert digests[(), "None"] == digests[(), "NA"]
    assert digests[("None", "a"), "None"] != digests[("None", "a"), "NA"]


@pytest.mark.parametrize("change", [lambda t: t.drop(columns="site"), lambda t: t.iloc[1:]])
def test_another_file_is_refused_before_all_of_it_is_read(ledger, tmp_path, change, monkeypatch):
    def release_of(table):
        table.to_parquet(tmp_path / "people.parquet")
        config = tmp_path / "release.toml"
        config.write_text(CONFIG.format(study="", x='["age"]', y="", params="", **BOX))
        return release(ledger, "box_mean", tmp_path / "people.parquet", config, epsilon=1.0, delta=1e-6)

    release_of(people())
    monkeypatch.setattr(Fingerprinter, "_row_hashes", None)  # nothing may be read of the rows
    refused(lambda: release_of(change(people())), ContentRefused, "'people'")


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


def test_how_many_rows_a_user_has_has_no_weight_and_cannot_be_asked(dpcost, visits, tmp_path):
    """Users with more rows than count are cut to them, and every question is charged once."""
    for n_charges, most in enumerate((5, 9000), start=1):
        bounds = BOUNDS + f"\nsamples_per_user = {most}"
        first, again = (json.loads(ask(dpcost, visits, tmp_path, bounds=bounds)[1]) for _ in range(2))
        assert abs(numbers_of(first)["hours"] - 7) < 0.3  # the one with half of all rows has no more weight
        assert abs(numbers_of(first)["steps"] + 3) < 0.3
        assert again["release"]["ledger"]["replayed"]
        assert numbers_of(again) == numbers_of(first)
        (shown,) = json.loads(dpcost("ledger", "show", "--json")[1])
        assert (shown["unit"], len(shown["charges"])) == ("user by person", n_charges)
    assert "protects each user by person" in dpcost("ledger", "show")[1]


@pytest.mark.parametrize(
    ("estimator", "columns", "bounds"),
    [("dp_mean", "", "value_bound = 100.0"), ("user_level_mean", 'user_id = "household"', BOUNDS)],
)
def test_a_budget_has_one_unit(dpcost, visits, tmp_path, estimator, columns, bounds):
    assert ask(dpcost, visits, tmp_path)[0] == 0
    visits.unlink()  # the number of units would be that of the distinct values of a column
    err = sentence(ask(dpcost, visits, tmp_path, estimator=estimator, columns=columns, bounds=bounds))
    assert "'visits' protects each user by person" in err
    assert "for another" not in err  # these rows cannot get a second budget
    (shown,) = json.loads(dpcost("ledger", "show", "--json")[1])
    assert len(shown["charges"]) == 1


@pytest.mark.parametrize(
    "spellings",
    [("{}", "{}.0", "0{}", " {}", "+{}"), ("Zo\u00eb {}", "Zoe\u0308 {}", " Zo\u00eb {}")],
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


UNREAD = {
    "added": lambda table: table.assign(more=1.0),
    "dropped": lambda table: table.drop(columns="cost"),
    "renamed": lambda table: table.rename(columns={"cost": "price"}),
    "corrected": lambda table: table.assign(cost=table["cost"] + (np.arange(N) == 3)),
    "another each time": lambda table: table.assign(now=np.random.default_rng().random(N)),
}


@pytest.mark.parametrize("unit", ["person", ""])
def test_columns_that_are_not_read_are_no_part_of_a_question(tmp_path, unit):
    ledger = Ledger(tmp_path / "home")
    ledger.open_dataset("people", 1e4, 1e-3, unit)
    kind = "user_level_mean", "value_bound = 1.0\nconcentration_radius = 0.5"
    estimator, bounds = kind if unit else ("box_mean", BOX["bounds"])
    small = people().assign(person=np.arange(N) // 4)
    x = '["age", "weight"]' + '\nuser_id = "person"' * bool(unit)
    params = "range_failure = 1.0" * bool(unit)
    ask = partial(asked, ledger, tmp_path, estimator, x=x, bounds=bounds, params=params)
    first = ask(table=small)
    assert not first.replayed
    for change in UNREAD.values():
        other = ask(table=change(small), options={"allow_new_content": not unit})
        assert other.replayed
        assert (other.estimate, len(other.account.charges)) == (first.estimate, 1)
    lost = ask(table=small.assign(age=0.25), options={"allow_new_content": not unit})
    assert not lost.replayed
    again = ask(table=UNREAD["added"](small.assign(age=0.25)), options={"allow_new_content": not unit})
    assert again.replayed
    assert again.estimate == lost.estimate != first.estimate


def test_a_lost_answer_is_lost_whatever_columns_are_not_read(ledger, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(tasks.release.release, "draw_answer", lambda plan: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            asked(ledger, tmp_path, **BOX)
    new = {"table": UNREAD["renamed"](people()), **BOX}
    refused(
        lambda: asked(ledger, tmp_path, options={"allow_new_content": True}, **new), AnswerLost, "--again"
    )
    paid = asked(ledger, tmp_path, options={"allow_new_content": True, "again": True}, **new)
    assert not paid.replayed
    assert asked(ledger, tmp_path, **BOX).estimate == paid.estimate
    assert [each.attempt for each in ledger.account("people").charges] == [1, 2]
    assert ledger.verify().ok
