"""Recommendations of the site follow from its own tables of errors."""

import importlib
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpalgos
from flows.studies.find_study import find_study
from tests.bench import interval_promises
from tests.builders import PROJECT


@pytest.fixture
def generate(monkeypatch):
    monkeypatch.syspath_prepend(str(PROJECT / "docs"))
    return importlib.import_module("generate.evidence")


def test_no_recommendation_is_contradicted_by_the_table_of_errors(generate):
    """On each set of panels, the first named estimator has the smallest error of all, zero included."""
    rows = generate.evidence()
    for study in rows.study.unique():
        for group in generate.comparisons(rows[rows.study == study]):
            assert group.groupby(["label", "epsilon"]).panel.nunique().nunique() == 1
            for epsilon, labels in generate.best(group).items():
                at = group[group.epsilon == epsilon]
                if at.panel.nunique() == 1:
                    means = at.set_index("label")["mean"]
                    assert means.idxmin() == labels[0]


def test_the_page_names_the_winner_of_each_set_of_panels(generate):
    decisions = generate.pages()["evidence/decisions.txt"]
    local = next(line for line in decisions.splitlines() if "trust nobody" in line)
    assert re.search(r"correlated: \{doc\}`ldp_nldp ", local)


def test_a_measured_estimator_that_its_table_lacks_fails_the_build(generate):
    """Estimators that protect people are those of the catalog and those of rows that take people."""
    rows = generate.evidence()
    of_people = rows[rows.study == "user_regression"]
    shown = generate.pages()["evidence/errors.txt"]
    generate.check_complete("people", of_people, shown)
    assert "preconditioned_regression" in set(of_people.estimator)
    with pytest.raises(LookupError, match="preconditioned_regression"):
        generate.check_complete("people", of_people, shown.replace("/preconditioned_regression>`", ""))


def test_cells_with_next_to_no_noise_are_no_evidence(generate):
    rows = generate.evidence()
    rows = rows[rows.study == "fair"]
    limit = rows[rows.epsilon == 0.5].assign(epsilon=1000.0, mean=0.0)
    both = generate.pd.concat([rows, limit])
    assert [set(part.epsilon) for part in generate.comparisons(both)] == [
        set(part.epsilon) for part in generate.comparisons(rows)
    ]


def test_a_missing_interval_has_no_coverage_and_no_width(monkeypatch):
    """Zero of zero intervals cover; in the stored table as in what the benchmark writes."""
    none = SimpleNamespace(estimate=np.zeros(5), interval=np.full((2, 5), np.nan))
    monkeypatch.setattr(interval_promises.dpalgos, "estimate", lambda *_, **__: none)
    case = next(each for each in interval_promises.CASES if each[2] == "normal")
    stored = pd.read_csv(PROJECT / "docs" / "intervals.csv", dtype=str, keep_default_na=False).to_dict(
        "records"
    )
    rows = [interval_promises.measured(case, 2), *stored]
    missing = [row for row in rows if row["no interval %"] == "100.0"]
    assert rows[0] in missing
    assert all(row[name] == "–" for row in missing for name in ("slopes %", "intercept %", "half-width"))


# Estimators that cannot take the data of a question, or that the question is not about.
NOT_FOR = {
    "A linear regression": (),
    "A logistic regression": (),
    "A regression of counts": (
        "dp_sgd_glm",
        "objective_perturbation_glm",
        "output_perturbation_glm",
    ),  # not Poisson
    "A mean of many columns": (),
    "A regression that protects people with all their rows": (),
}
ANSWER_OTHERS = (
    "dp_sparse_",
    "screened_",
    "public_axes",
    "user_level_selection",
)  # need a sparsity, or public rows


@pytest.mark.parametrize("question", NOT_FOR)
def test_every_estimator_that_takes_the_data_is_a_rival(generate, question):
    """In all panels that say which estimator to take."""
    name, only = generate.QUESTIONS[question]
    study = find_study(name)
    for panel in study.panels:
        if only not in (None, panel.name):
            continue
        items = [item for item in study.estimators_of(panel) if item.calibrations]
        model = "user" if panel.problem.traits.of_people else "central"
        rivals = {
            entry.name
            for entry in dpalgos.catalog()
            if entry.private and entry.task == study.task_of(panel) and entry.privacy_model == model
            if entry.name not in NOT_FOR[question] and not entry.name.startswith(ANSWER_OTHERS)
        }
        assert rivals <= {item.name for item in items}, panel.name
