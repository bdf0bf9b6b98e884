"""Public rows next to an analyst's own table, in a study and in a release."""


import numpy as np
import pandas as pd
from analyst_tables import computed, reported, study_of

from flows.studies.find_study import find_study
from reports.analysis.results import PUBLIC_ALONE
from tests.flows.test_declared_release import BOUNDS, CATEGORIES, people

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
    return spec, pd.read_parquet(record["path"])


def test_public_rows_have_the_columns_of_the_design(tmp_path):
    """What was declared of the private table's columns is applied to them: units, categories, an intercept."""
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
    spec, rows = results(with_public(file), tmp_path / "with")
    same = rows[~rows["form"].isin([FORM, PUBLIC_ALONE])].reset_index(drop=True)
    pd.testing.assert_frame_equal(same, alike)
    alone = rows[rows["form"] == PUBLIC_ALONE]
    assert set(alone["privacy_model"]) == {"none"}
    assert alone["value"].nunique() == 1  # whatever is drawn of the private rows
    # 200 rows of the same law: near to the private table's answer, as far as chance allows.
    assert 0 < alone["value"].max() < 0.3


def test_public_rows_alone_are_not_taken_for_the_answer_without_privacy(tmp_path):
    """Even where they are more than the private ones, and better."""
    file = with_public(study(tmp_path), people(12_000)[4000:])
    spec, rows = results(file, tmp_path / "run")
    page = reported(file, tmp_path)
    assert "sees no private row" in page
    assert "8,000 rows of public.csv" in page
