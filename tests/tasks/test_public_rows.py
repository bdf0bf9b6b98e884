"""Public rows next to an analyst's own table, in a study and in a release."""

import numpy as np
import pandas as pd
import pytest

from data.ledger import open_ledger
from dpalgos.hardened_release import draw_release
from flows.studies.find_study import find_study
from reports.results import PUBLIC_ALONE
from tasks.release.record import record_of
from tests.tasks.analyst_tables import computed, edited, refusal, release, reported, study_of
from tests.tasks.release.test_declared_columns import BOUNDS, CATEGORIES, people

PUBLIC = '\n[public]\ndata = "public.csv"\nsource = "volunteers, none of them in the table"\n'
FORM = "public rows"
study = study_of(people, bounds=BOUNDS, categories=CATEGORIES, response="cost")


def with_public(file, rows=None):
    """Add public rows to a study; return its file."""
    (people(4200)[4000:] if rows is None else rows).to_csv(file.parent / "public.csv", index=False)
    file.write_text(file.read_text() + PUBLIC)
    return file


def results(file, folder):
    folder.mkdir(exist_ok=True)
    spec, _, record = computed(file, folder)
    return spec, pd.read_parquet(record.path)


def test_public_rows_have_the_columns_of_the_design(tmp_path):
    """What was declared of the private table is applied to them: units, categories, an intercept."""
    problem = find_study(str(with_public(study(tmp_path)))).head_panel.problem
    rows = people(4200)[4000:]
    X = np.column_stack(
        [
            (rows["age"] - 60) / 30,
            ((rows["region"] == "south") - 0.333) / 0.472,
            ((rows["region"] == "west") - 0.333) / 0.472,
            ((rows["smoker"] == "yes") - 0.5) / 0.5,
            np.ones(200),
        ]
    )
    y = (rows["cost"] - 2500) / 3750
    order, expected = (np.argsort(each[:, 0]) for each in (problem.public_X, X))
    np.testing.assert_allclose(problem.public_X[order], X[expected], atol=1e-12)
    np.testing.assert_allclose(problem.public_y[order], y.to_numpy()[expected])


def test_a_study_shows_the_public_rows_alone_and_its_other_answers_stay_the_same(tmp_path):
    file = study(tmp_path)
    _, alike = results(file, tmp_path / "without")
    _, rows = results(with_public(file), tmp_path / "with")
    same = rows[~rows["form"].isin([FORM, PUBLIC_ALONE])].reset_index(drop=True)
    pd.testing.assert_frame_equal(same, alike)
    alone = rows[(rows["form"] == PUBLIC_ALONE) & (rows["metric"] == "l2_error")]
    assert set(alone["privacy_model"]) == {"none"}
    assert alone["value"].nunique() == 1  # whatever is drawn of the private rows
    # 200 rows of the same law: near to the private table's answer, as far as chance allows.
    assert 0 < alone["value"].max() < 0.3


def test_public_rows_alone_are_not_taken_for_the_answer_without_privacy(tmp_path):
    """Even where they are more than the private ones, and better."""
    file = with_public(study(tmp_path), people(12_000)[4000:])
    page = reported(file, tmp_path)
    assert "Without privacy (Ordinary least squares)" in page
    assert "sees no private row" in page
    assert "public rows alone (Ordinary least squares)" in page
    assert "8,000 rows of public.csv" in page


def test_keys_know_the_rows_whatever_their_order_and_the_format_of_their_file(tmp_path):
    file, rows = with_public(study(tmp_path)), people(4200)[4000:]

    def digest():
        return find_study(str(file)).head_panel.problem.model_dump(mode="json")["public"]

    first = digest()
    rows[::-1].to_csv(tmp_path / "public.csv", index=False)
    assert digest() == first
    rows.to_parquet(tmp_path / "public.parquet")
    edited(file, "public.csv", "public.parquet")
    assert digest() == first
    rows[1:].to_parquet(tmp_path / "public.parquet")
    assert digest() != first


@pytest.fixture
def ledger(home):
    found = open_ledger(home)
    found.open_dataset("mine", 1000.0, 1e-6)
    return found


@pytest.fixture
def public_rows_of_releases(monkeypatch):
    """The public rows that each answer drawn in a test started from."""
    seen = []

    def draw(plan, sample):
        seen.append(plan.params.public_X)
        return draw_release(plan, sample)

    monkeypatch.setattr("tasks.release.release.draw_release", draw)
    return seen


def asked(folder, ledger, **keywords):
    keywords = {"estimator": "preconditioned_regression", "epsilon": 2.0, "delta": 1e-7} | keywords
    data, config = folder / "table.csv", folder / "mine-release.toml"
    return release(ledger, keywords.pop("estimator"), data, config, **keywords)


def test_a_study_runs_the_estimator_with_and_without_public_rows(tmp_path):
    spec, rows = results(with_public(study(tmp_path)), tmp_path / "run")
    (item,) = [item for item in spec.estimators_of(spec.head_panel) if item.form == FORM]
    assert (item.name, item.params) == (
        "preconditioned_regression",
        {"intercept": True, "interval_target": "least squares", "public_X": "sample"},
    )
    ours = rows[rows["estimator"] == "preconditioned_regression"]
    assert set(ours["form"]) == {"", FORM}
    assert set(ours["status"]) == {"ok"}
    told = set(ours[ours["form"] == FORM]["message"])
    assert all(text.startswith("the shape of the public rows was used in") for text in told)
    assert set(ours[ours["form"] == ""]["message"]) == {""}


def test_a_release_takes_public_rows_and_its_record_names_them(tmp_path, ledger, public_rows_of_releases):
    file = study(tmp_path)
    assert record_of(asked(tmp_path, ledger))["release"]["public_shape"] is None
    assert public_rows_of_releases.pop() is None
    people(4200)[4000:].to_csv(tmp_path / "public.csv", index=False)
    config = tmp_path / "mine-release.toml"
    edited(config, "[columns]", PUBLIC + "[columns]")
    first = asked(tmp_path, ledger)
    assert not first.replayed
    is_used = record_of(first)["release"]["public_shape"]
    assert is_used in (True, False)
    (given,) = public_rows_of_releases
    of_study = find_study(str(with_public(file))).head_panel.problem.public_X
    np.testing.assert_array_equal(given[np.lexsort(given.T)], of_study[np.lexsort(of_study.T)])
    (fact,) = [fact for fact in record_of(first)["release"]["public"] if fact["what"] == "public rows"]
    assert fact["value"].startswith("200 of public.csv, sha256 ")
    assert fact["source"] == "volunteers, none of them in the table"
    again = asked(tmp_path, ledger)
    assert again.replayed
    assert (again.estimate, record_of(again)["release"]["public_shape"]) == (first.estimate, is_used)


def test_another_public_table_is_another_question_and_the_same_one_is_not(tmp_path, ledger):
    study(tmp_path)
    rows, config = people(4200)[4000:], tmp_path / "mine-release.toml"
    rows.to_csv(tmp_path / "public.csv", index=False)
    edited(config, "[columns]", PUBLIC + "[columns]")
    asked(tmp_path, ledger)
    # Neither the order of rows, nor responses, nor other columns are a part of it.
    rows[::-1].drop(columns="cost").assign(shoes=43).to_csv(tmp_path / "public.csv", index=False)
    assert asked(tmp_path, ledger).replayed
    rows[1:].to_csv(tmp_path / "public.csv", index=False)
    assert not asked(tmp_path, ledger).replayed


@pytest.mark.parametrize("where", ["table.csv", "table.parquet", "folder"])
def test_a_release_without_a_study_takes_public_numbers_also_where_rows_are_streamed(
    tmp_path, ledger, public_rows_of_releases, where
):
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(3200, 3)), columns=["b", "a", "y"])
    (tmp_path / "folder").mkdir()
    table[:3000].to_csv(tmp_path / "table.csv", index=False)
    table[:3000].to_parquet(tmp_path / "table.parquet")
    table[:3000].to_parquet(tmp_path / "folder" / "one.parquet")
    table[3000:].to_csv(tmp_path / "public.csv", index=False)
    config = tmp_path / "release.toml"
    config.write_text('[dataset]\nname = "mine"\n[columns]\nx = ["a", "b"]\ny = "y"\n' + PUBLIC)
    budget = {"epsilon": 2.0, "delta": 1e-7}
    answer = release(ledger, "preconditioned_regression", tmp_path / where, config, **budget)
    assert list(answer.estimate) == ["a", "b"]
    (given,) = public_rows_of_releases
    np.testing.assert_array_equal(given[np.argsort(given[:, 0])], table[["a", "b"]][3000:].sort_values("a"))
    edited(config, '"b"]', '"c"]')
    table.rename(columns={"b": "c"})[:3000].to_csv(tmp_path / "other.csv", index=False)
    said = refusal(
        release,
        ledger,
        "preconditioned_regression",
        tmp_path / "other.csv",
        config,
        allow_new_content=True,
        **budget,
    )
    assert "public.csv has no column 'c'" in said


def test_the_private_file_is_refused_as_its_own_public_table(tmp_path, ledger):
    file = study(tmp_path)
    file.write_text(file.read_text() + PUBLIC.replace("public.csv", "table.csv"))
    assert "public.data must be another file" in refusal(find_study, str(file))
    edited(file, PUBLIC.replace("public.csv", "table.csv"), "")
    (tmp_path / "link.csv").symlink_to(tmp_path / "table.csv")
    edited(
        tmp_path / "mine-release.toml", "[columns]", PUBLIC.replace("public.csv", "link.csv") + "[columns]"
    )
    assert "public.data must be another file" in refusal(asked, tmp_path, ledger)
    assert ledger.account("mine").charges == []


def test_a_study_and_a_release_leave_out_the_same_public_rows(tmp_path, ledger, public_rows_of_releases):
    rows = people(4200)[4000:].reset_index(drop=True)
    rows.loc[:49, "cost"] = np.nan
    file = with_public(study(tmp_path), rows)
    edited(file, 'missing = "refuse"', 'missing = "drop"')
    edited(tmp_path / "mine-release.toml", "[columns]", PUBLIC + "[columns]")
    asked(tmp_path, ledger)
    (given,) = public_rows_of_releases
    assert len(given) == len(find_study(str(file)).head_panel.problem.public_X) == 150
