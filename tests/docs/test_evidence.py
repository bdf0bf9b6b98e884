"""What the site recommends follows from its own tables of errors, which compare on common panels only."""

import importlib
import re

import pandas as pd
import pytest

from flows.studies.evidence import evidence
from tests.builders import PROJECT


@pytest.fixture
def generate(monkeypatch):
    monkeypatch.syspath_prepend(str(PROJECT / "docs"))
    return importlib.import_module("generate.evidence")


def measured(errors, *, error=0.001, epsilon=1.0):
    """Return evidence: errors is (panel, estimator, form) → mean; zero has no ε."""
    rows = [
        {"panel": panel, "estimator": name, "form": form, "mean": mean, "se": error * mean,
         "epsilon": None if name == "zero" else epsilon}
        for (panel, name, form), mean in errors.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


# On two panels the better estimator has a form of its own on each; the other is on both, and is worse.
SPLIT = {("a", "ldp_nldp", "dense"): 0.1, ("b", "ldp_nldp", "pure"): 0.2}
SPLIT |= {(panel, "ldp_iht", ""): 0.5 for panel in "ab"} | {(panel, "zero", ""): 1.0 for panel in "ab"}


def test_forms_do_not_split_an_estimator_away(generate):
    groups = generate.comparisons(measured(SPLIT))
    winners = {group.panel.iloc[0]: generate.best(group)[1.0] for group in groups}
    assert winners == {"a": ["ldp_nldp, dense"], "b": ["ldp_nldp, pure"]}


def test_zero_and_ties_are_among_the_answers(generate):
    errors = {("a", "ldp_iht", ""): 0.5, ("a", "ldp_nldp", ""): 0.5001, ("a", "zero", ""): 0.2}
    assert generate.best(generate.comparisons(measured(errors))[0]) == {1.0: ["zero"]}
    tied = {**errors, ("a", "zero", ""): 0.9}
    assert generate.best(generate.comparisons(measured(tied))[0]) == {1.0: ["ldp_iht", "ldp_nldp"]}


def test_no_recommendation_is_contradicted_by_the_table_of_errors(generate):
    """On each set of panels, the first named estimator has the smallest error of all, zero included."""
    rows = evidence()
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
