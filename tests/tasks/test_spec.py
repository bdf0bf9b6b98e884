"""Studies as they are read: sizes that are rules, columns of formulas; claims, and what a verdict needs."""

import math
import re
import tomllib
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.results.table import COLUMNS, LIMIT, validate_results
from dpalgos import InputError
from flows.studies.find_study import find_study, readable_studies
from tasks.errors import SpecError
from tasks.own_table.analyst_table import AnalystTable
from tasks.own_table.formula import expand_formula, expand_group_numbers
from tasks.own_table.row_simulator import Guesses
from tasks.own_table.simulated_rows import check_guesses
from tasks.problems.kinds import measure_of
from tasks.scorecard.claims import (
    Claim,
    Evidence,
    Judgment,
    difference_interval,
    load_scorecard,
    mean_interval,
)
from tasks.scorecard.judging import judge, printed_figures, scorecard_page
from tasks.size_rules import evaluate_rule
from tasks.study.spec import StudySpec, TableSpec
from tests.builders import declared_column, refused


def test_smoke_keeps_the_ends_and_one_budget():
    study = find_study("housing")
    blocks = study.blocks("smoke", replicates=3, seed=0)
    assert {each.replicates.n for each in blocks if each.replicates.panel == "public"} == {100, 20600}
    assert {cell.epsilon for block in blocks for cell in block.cells} == {None, 0.5, LIMIT}
    rules = {"public": {"", "1/n^2"}, "paper": {"", "10/n^1.1"}, "chronic conditions": {"", "1/n^2"}}
    assert all({cell.delta_rule for cell in block.cells} == rules[block.replicates.panel] for block in blocks)
    whole = study.blocks("paper", replicates=3, seed=0)
    assert {cell.estimator for block in blocks for cell in block.cells} == {e.name for e in study.estimators}
    keys = [cell.key for block in whole for cell in block.cells]
    assert len(set(keys)) == len(keys)


SIZES = {"n": 1000, "d": 20, "s": 5}

RULES = {"10/n^1.1": 10 / math.pow(1000, 1.1), "1/n^2": 1e-6, "4*sqrt(log(n))": 4 * math.sqrt(math.log(1000))}
RULES |= {"10 + sqrt(2*log(2*n*d/.01))": 10 + math.sqrt(2 * math.log(2 * 1000 * 20 / 0.01))}
RULES |= {"-(s - d)**2": -225, "min(n, 2*d)": 40, "max(exp(0), 1e-3)": 1, "1e-6": 1e-6, " n ": 1000, 0.5: 0.5}


@pytest.mark.parametrize("rule", RULES)
def test_arithmetic_in_sizes(rule):
    assert evaluate_rule(rule, SIZES) == RULES[rule]


OF_PEOPLE = (
    declared_column("age", lower=18, upper=90, source="law"),
    declared_column("region", categories=("north", "south", "west"), source="map"),
    declared_column("cost", lower=1, upper=5000, source="tariff"),
    declared_column("weight", lower=1, upper=5000, transform="log", source="tariff"),
)
TABLE = AnalystTable(path="people.csv", rows=100, privacy_unit="a row", columns=OF_PEOPLE)


def test_a_formula_comes_to_columns_that_are_fitted_and_to_a_response():
    table, design = expand_formula("cost ~ age + C(region) + age:region", TABLE)
    assert design.response_column == "cost"
    names = ["C(region)[T.south]", "C(region)[T.west]", "age", "age:region[T.south]", "age:region[T.west]"]
    assert [name.removeprefix("~ ") for name in design.covariates] == names
    derived = {column.name: column for column in table.columns if column.derived}
    assert tuple(derived) == design.covariates
    assert derived["~ age"].uses == ("age", "region")
    logs, design = expand_formula("log(cost) ~ age", table)
    assert logs.columns[:4] == TABLE.columns
    assert design.response_column == "~ log(cost)"
    response = logs.columns[-1]
    assert (response.lower, response.upper) == pytest.approx((0, math.log(5000)))


def test_the_reference_of_a_category_is_the_formulas():
    _, design = expand_formula("cost ~ C(region, Treatment('west'))", TABLE)
    assert design.references == {"region": "west"}
    assert design.covariates[0] == "~ C(region, Treatment('west'))[T.north]"


EVENTS = TABLE.model_copy(update={"columns": (*OF_PEOPLE, declared_column("code", lower=1, upper=2))})
OF_CATEGORIES = [
    partial(expand_formula, "cost ~ C(code)"),
    partial(expand_formula, "Surv(cost, code) ~ age"),
    partial(expand_group_numbers, "table1", "code ~ age"),
]


@pytest.mark.parametrize("expand", OF_CATEGORIES)
def test_a_refusal_of_numbers_says_what_to_write_in_a_study_file(expand):
    said = refused(lambda: expand(EVENTS), SpecError, "code", "in a study file")
    line = re.search(r"categories = \[.*?\]", said)
    advised = declared_column("code", categories=tuple(tomllib.loads(line[0])["categories"]))
    expand(TABLE.model_copy(update={"columns": (*OF_PEOPLE, advised)}))


def test_guesses_about_a_logarithm_name_it():
    of_column, of_logarithm = (Guesses(mean={name: 4.2}) for name in ("weight", "log(weight)"))
    refused(lambda: check_guesses(of_column, OF_PEOPLE), InputError, "log(weight)")
    assert check_guesses(of_logarithm, OF_PEOPLE) == of_logarithm


SPEC = find_study("mean_comparison")
PANEL = "low-dimensional"


def results(errors, *, calibration="tight", certified=0.5, replicates=20):
    """Return a results table: errors is estimator → size → mean error."""
    head, parts = SPEC.headline, []
    noise = 0.05 * np.random.default_rng(5).normal(size=replicates)
    everywhere = {"study": SPEC.name, "dataset": "gaussian_mean", "panel": PANEL, "metric": "l2_error"}
    everywhere |= {"data_source": "simulated", "status": "ok", "seed": 1, "d": 20, "form": "", "message": ""}
    for estimator, by_size in errors.items():
        same = {"estimator": estimator, "calibration": "none", "privacy_model": "none", "delta_rule": ""}
        if estimator.startswith(("dp", "karwa")):
            same |= {"calibration": calibration, "privacy_model": "central", "delta_rule": head.delta}
            same |= {"epsilon": head.epsilon, "delta": 1e-4}
            same |= {"certified_epsilon": certified, "estimator_epsilon": certified}
        for n, mean in by_size.items():
            rows = pd.DataFrame({"replicate": range(replicates), "value": mean * (1 + noise)})
            cell = ":".join(map(str, (*same.values(), n)))
            parts.append(rows.assign(**everywhere, **same, n=n, cell=cell))
    return validate_results(pd.concat(parts).reindex(columns=list(COLUMNS)))


def claim_of(test, panel=PANEL):
    same = {"text": "x", "where": "x", "study": SPEC.name, "estimator": "dp_mean"}
    return Claim(id="A-x", panel=panel, test=test, **same)


def verdict(test, errors, *, calibration="tight", **settings):
    evidence = Evidence(SPEC, results(errors, calibration=calibration, **settings))
    return judge(claim_of(test), evidence)[calibration]


def test_every_claim_is_about_something_that_its_study_has():
    for entry in load_scorecard().claims:
        spec = find_study(entry.study)
        assert entry.paper in load_scorecard().papers, entry.id
        named = spec.headline.panel if entry.panel == "*" else entry.panel
        claim = entry.model_copy(update={"panel": named})
        panels = {panel.name: spec.estimators_of(panel) for panel in spec.panels}
        if not claim.panel:  # those that look at errors find their rows by the panel
            assert claim.test is None or claim.test.kind == "guarantee", claim.id
            assert claim.estimator in {item.name for items in panels.values() for item in items}, claim.id
            continue
        there = {(item.name, item.form) for item in panels[claim.panel]}
        assert (claim.estimator, claim.form) in there, claim.id
        grid = spec.grid_of(spec.panel(claim.panel))
        of_claim = [item for item in panels[claim.panel] if item.name == claim.estimator]
        steps = grid.steps if any(item.takes_steps or item.takes_path(grid) for item in of_claim) else ()
        assert claim.steps in (steps or {None}), claim.id
        assert getattr(claim.test, "panel", claim.panel) in panels, claim.id
        for other in ("than", "baseline"):
            name = getattr(claim.test, other, "") or claim.estimator
            assert name in {item for item, _ in there}, claim.id


CLOSE = [{"kind": "error_ratio", "than": "karwa_vadhan_mean", "factor": 1.5}]
CLOSE += [{"kind": "level", "metric": "l2_error", "at_most": 1.5}]


@pytest.mark.parametrize("test", CLOSE)
def test_nothing_holds_against_its_own_evidence(test):
    """At one of three sizes the mean is beyond what is claimed, by chance or not: that is left open."""
    ones = dict.fromkeys((100, 1000, 5000), 1.0)
    table = results(dict.fromkeys(("dp_mean", "karwa_vadhan_mean"), ones), replicates=3)
    table.loc[(table["estimator"] == "dp_mean") & (table["n"] == 1000), "value"] = [0.1, 0.2, 5.6]
    assert math.isnan(judge(claim_of(test), Evidence(SPEC, table))["tight"].value)


RATIO = {"kind": "error_ratio", "than": "karwa_vadhan_mean"}
GUARANTEE = {"kind": "guarantee"}
ONE = {100: 1.0}
BETTER = {"dp_mean": ONE, "karwa_vadhan_mean": {100: 2.0}}


@pytest.mark.parametrize("offset", [-3e-16, 3e-16])
def test_what_differs_by_rounding_is_left_open(offset):
    table = results({"dp_mean": ONE, "karwa_vadhan_mean": ONE})
    table["value"] = 1.0 + offset * (table["estimator"] == "dp_mean")
    assert math.isnan(judge(claim_of(RATIO), Evidence(SPEC, table))["tight"].value)


@pytest.mark.parametrize(("replicates", "expected"), [(2, math.nan), (7, math.nan), (8, 1.0)])
def test_equal_values_decide_if_they_are_many(replicates, expected):
    level = {"kind": "level", "metric": "l2_error", "at_most": 0.005}
    found = verdict(level, {"dp_mean": {100: 0.0}}, replicates=replicates)
    assert found.value == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("test", [RATIO, RATIO | {"somewhere": True}])
def test_one_size_of_three_decides_at_the_confidence_of_all(test):
    """The t value of 3 is beyond the limit of one size, 2.9, and within that of three, 3.4."""
    tens = dict.fromkeys((100, 1000, 5000), 10.0)
    table = results(dict.fromkeys(("dp_mean", "karwa_vadhan_mean"), tens))
    numbers = np.arange(20) - 9.5
    lead = 3 / math.sqrt(20) + numbers / numbers.std(ddof=1)
    table["value"] = 10.0
    table.loc[(table["estimator"] == "dp_mean") & (table["n"] == 1000), "value"] += lead * (
        -1 if "somewhere" in test else 1
    )
    assert math.isnan(judge(claim_of(test), Evidence(SPEC, table))["tight"].value)


@pytest.mark.parametrize(("n_failed", "expected"), [(1, 1.0), (27, math.nan)])
def test_a_verdict_counts_the_repetitions_without_an_estimate(n_failed, expected):
    table = results(BETTER, replicates=30)
    failed = (table["estimator"] == "dp_mean") & (table["replicate"] < n_failed)
    table.loc[failed, ["value", "status", "message"]] = [math.nan, "failed", "x"]
    found = judge(claim_of(RATIO), Evidence(SPEC, table))["tight"]
    assert found.value == pytest.approx(expected, nan_ok=True)
    assert f"{30 - n_failed} of 30" in found.text


@pytest.mark.parametrize(("epsilon", "expected"), [(0.5, 1.0), (5.0, math.nan)])
def test_a_claim_is_judged_at_the_epsilon_of_the_headline_alone(epsilon, expected):
    table = results(BETTER).replace({"epsilon": {0.5: epsilon}})
    found = judge(claim_of(RATIO), Evidence(SPEC, table))["tight"]
    assert found.value == pytest.approx(expected, nan_ok=True)
    assert ("ε = 0.5" in found.text) is (epsilon == 0.5)


def test_the_size_with_the_least_noise_is_no_matter_of_rounding():
    table = results({"dp_mean": {100: 1.0, 1000: 1.0}}, calibration="paper", certified=0.52)
    table.loc[table["n"] == 1000, "estimator_epsilon"] += 3e-16
    assert "n = 100 " in judge(claim_of(GUARANTEE), Evidence(SPEC, table))["paper"].text


VERDICTS = tomllib.loads(Path(__file__).with_name("verdicts.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("test", "errors", "others", "expected"), VERDICTS["verdicts"])
def test_a_verdict_is_about_every_size(test, errors, others, expected):
    pairs = {"dp_mean": errors, **others}
    by_size = {name: dict(zip((100, 1000), each, strict=False)) for name, each in pairs.items()}
    assert verdict(test, by_size).value == pytest.approx(expected, nan_ok=True)


def test_calibrations_are_compared_like_with_like():
    """Where a form has one calibration only, the other column has no verdict."""
    errors = {"dp_mean": ONE, "karwa_vadhan_mean": {100: 2.0}}
    table = results(errors)
    table.loc[table["estimator"] == "dp_mean", "calibration"] = "paper"
    found = judge(claim_of(RATIO), Evidence(SPEC, table))
    assert {each.why_open for each in found.values()} == {"no such answer"}


def test_errors_of_two_panels_are_compared():
    table = results({"dp_mean": ONE})
    second = "high-dimensional"
    worse = table.assign(panel=second, value=2 * table["value"], cell=table["cell"] + "+")
    evidence = Evidence(SPEC, pd.concat([table, worse]))
    for panel, other, expected in ((second, PANEL, 1.0), (PANEL, second, 0.0)):
        test = {"kind": "larger_than_in", "panel": other}
        assert judge(claim_of(test, panel), evidence)["tight"].value == expected


def test_a_level_needs_a_bound():
    with pytest.raises(ValueError, match="at_least"):
        verdict({"kind": "level", "metric": "auc"}, {"dp_mean": ONE})


def test_a_guarantee_is_what_the_noise_proves():
    assert verdict(GUARANTEE, {"dp_mean": ONE}, certified=0.5).value == 1.0
    assert (
        verdict(GUARANTEE, {"dp_mean": ONE}, calibration="paper", certified=0.5001).value == 1.0
    )  # as in the table of errors
    assert verdict(GUARANTEE, {"dp_mean": ONE}, calibration="paper", certified=0.52).value == 0.0
    assert math.isnan(verdict(GUARANTEE, {"zero": ONE}).value)


def test_intervals_against_scipy():
    from scipy import stats

    rng = np.random.default_rng(3)
    first = pd.Series(rng.normal(1, 1, 12))
    expected = stats.ttest_1samp(first, 0).confidence_interval(0.99)
    assert mean_interval(first) == pytest.approx((expected.low, expected.high))
    low, high = difference_interval(first, pd.Series(rng.normal(0, 3, 9)))
    assert low < 1 < high
    assert difference_interval(pd.Series([3.0, 3.0]), pd.Series([1.0, 1.0])) == (-math.inf, math.inf)
    assert difference_interval(pd.Series([3.0] * 8), pd.Series([1.0] * 8)) == (2, 2)


@pytest.mark.parametrize("profile", ["smoke", "standard"])
def test_a_scorecard_says_what_to_run_and_that_it_is_of_a_trial_run(tmp_path, profile):
    about = {"sha256": "", "profile": profile, "seed": 1, "commit": ""}
    context = {"profile": profile, "seed": 1, "command": "", "started": "", "evidence": {SPEC.name: about}}
    page = scorecard_page(load_scorecard(), {}, readable_studies(), tmp_path, context)
    text = page.with_name("report.md").read_text()
    assert ("A trial run" in text) is (profile == "smoke")
    assert len(text.split()) <= 1300
    assert "dpcost run mean_comparison" in page.read_text()
    table = validate_results(pd.read_parquet(tmp_path / "results.parquet"))
    assert table["value"].isna().all()
    assert len(table) == 2 * table["metric"].nunique() == 2 * len(load_scorecard().claims)


def method(cell):
    return cell.estimator, cell.form, cell.s, cell.steps


def test_every_private_method_also_has_next_to_no_noise(monkeypatch):
    """On the same rows in the same repetitions, with one rule for δ and one calibration.

    The headline's panel has them at all sizes, the others at one, to save time.
    """
    monkeypatch.setattr(StudySpec, "_by_forecast", lambda *args: [{}] * len(args[-1]))
    n_cells = 0
    for spec in readable_studies():
        found: dict[tuple[str, int], dict[bool, Counter]] = {}  # by panel and size: the cells of each method
        for block in spec.blocks("standard", replicates=2, seed=1):
            place = found.setdefault(
                (block.replicates.panel, block.replicates.n), {True: Counter(), False: Counter()}
            )
            if measure_of(block.problem).has_limit and block.replicates.first == 0:
                for cell in block.cells:
                    if cell.epsilon is not None:
                        place[cell.epsilon == LIMIT][method(cell)] += 1
        measured = {place: counts for place, counts in found.items() if counts[False]}
        for panel in {panel for panel, _ in measured}:
            sizes = [n for name, n in measured if name == panel]
            have = [n for n in sizes if measured[panel, n][True]]
            assert have == sizes if panel == spec.headline.panel else len(have) == 1, (spec.name, panel)
            for n in have:
                assert measured[panel, n][True] == Counter(set(measured[panel, n][False])), (
                    spec.name,
                    panel,
                    n,
                )
                n_cells += len(measured[panel, n][True])
    assert n_cells > 100


PRINTED = {"A": "1a 1b 1c 1d 2a 2b 3a 3b 3c 3d 4a 4b", "B": "1a 1b 1c 2a 2b 2c 3", "C": "Table 1"}


def test_each_figure_that_a_paper_prints_has_one_study():
    rows = printed_figures(readable_studies(), {})
    names = {paper: [row.name for row in rows if row.paper == paper] for paper in PRINTED}
    found = {paper: " ".join(of_paper).replace("Figure ", "") for paper, of_paper in names.items()}
    assert found == PRINTED
    assert {row.paper for row in rows} | set(load_scorecard().without_figures) == {*PRINTED, "D"}
    claims = {claim.id for claim in load_scorecard().claims}
    for spec in readable_studies():
        for figure in spec.figures:
            assert set(figure.claims) <= claims
            assert figure.differs.endswith(".")


SHAPES = [((1.0, 1.0), "yes"), ((1.0, 0.0), "no"), ((1.0, math.nan), "not tested"), ((), "not tested")]


@pytest.mark.parametrize(("values", "shape"), SHAPES)
def test_a_figure_has_the_same_shape_if_its_claims_hold(values, shape):
    (figure,) = find_study("housing").figures
    verdicts = {
        name: {"paper": Judgment(value, f"It is {value}."), "tight": Judgment(1.0, "")}
        for name, value in zip(figure.claims, values, strict=False)
    }
    (row,) = printed_figures([find_study("housing")], verdicts)
    assert row.shape == shape
    assert row.why == " ".join(f"It is {value}." for value in values if value != 1.0)


@pytest.mark.parametrize(
    "more", [{}, {"metric": "l2_error"}, {"metric": "l2_error", "columns": "n", "exhibit": "x"}]
)
def test_a_table_of_a_page_has_one_source(more):
    with pytest.raises(ValueError, match="metric and columns, or exhibit"):
        TableSpec(title="t", text="", rows=("estimator",), **more)


def test_people_are_counted_as_people():
    """The size of a page may be the rows of a user, or the people of one of two groups."""
    users, candidates = (find_study(name).head_panel.problem for name in ("user_level", "user_selection"))
    assert (users.n_people(1000), candidates.n_people(100)) == (20_000, candidates.users)
    assert find_study("user_level").panel("users").problem.n_people(1000) == 1000
    assert find_study("snp").head_panel.problem.n_people(60) == 120
    assert find_study("housing").head_panel.problem.n_people(60) == 60
    assert find_study("user_regression").head_panel.problem.n_people(5) is None
