"""Claims are judged on repetitions: what a verdict needs, and what an open one says."""

import math

import numpy as np
import pandas as pd
import pytest

from flows.studies.find_study import find_study
from reports.results import COLUMNS, validate_results
from tasks.scorecard.claims import Claim, Evidence, difference_interval, load_scorecard, mean_interval
from tasks.scorecard.judging import judge, scorecard_page

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


def verdict(test, errors, *, calibration="tight", **settings):
    claim = Claim(id="A-x", text="x", where="x", study=SPEC.name, panel=PANEL, estimator="dp_mean", test=test)
    return judge(claim, Evidence(SPEC, results(errors, calibration=calibration, **settings)))[calibration]


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
        steps = {step for item in panels[claim.panel] for step in item.steps if item.name == claim.estimator}
        assert claim.steps in (steps or {None}), claim.id
        for other in ("than", "baseline"):
            name = getattr(claim.test, other, claim.estimator)
            assert name in {item for item, _ in there}, claim.id


CLOSE = [{"kind": "error_ratio", "than": "karwa_vadhan_mean", "factor": 1.5}]
CLOSE += [{"kind": "level", "metric": "l2_error", "at_most": 1.5}]


@pytest.mark.parametrize("test", CLOSE)
def test_nothing_holds_against_its_own_evidence(test):
    """At one of three sizes the mean is beyond what is claimed, by chance or not: that is left open."""
    ones = dict.fromkeys((100, 1000, 5000), 1.0)
    table = results(dict.fromkeys(("dp_mean", "karwa_vadhan_mean"), ones), replicates=3)
    table.loc[(table["estimator"] == "dp_mean") & (table["n"] == 1000), "value"] = [0.1, 0.2, 5.6]
    claim = Claim(id="A-x", text="x", where="x", study=SPEC.name, panel=PANEL, estimator="dp_mean", test=test)
    found = judge(claim, Evidence(SPEC, table))["tight"]
    assert math.isnan(found.value)


RATIO = {"kind": "error_ratio", "than": "karwa_vadhan_mean"}
GAP = {"kind": "gap_shrinks", "baseline": "sample_mean"}
GUARANTEE = {"kind": "guarantee"}
ONE, LEVELS, BASELINE = {100: 1.0}, {100: 2.0, 1000: 3.0}, {100: 0.5, 1000: 0.4}


def level(metric="l2_error", **bounds):
    return {"kind": "level", "metric": metric, **bounds}


# A test, errors of the estimator and of another one by size, and the verdict: no number where it is open
VERDICTS = [
    (RATIO, {100: 1.0, 1000: 0.5}, {"karwa_vadhan_mean": {100: 2.0, 1000: 0.8}}, 1.0),
    (RATIO, {100: 1.0, 1000: 0.9}, {"karwa_vadhan_mean": {100: 2.0, 1000: 0.8}}, 0.0),
    (GAP, {100: 2.0, 1000: 0.9}, {"sample_mean": BASELINE}, 1.0),
    (GAP, {100: 0.9, 1000: 2.0}, {"sample_mean": BASELINE}, 0.0),
    (GAP, {100: 2.0, 1000: 0.3}, {"sample_mean": BASELINE}, 0.0),
    (GAP, {100: 2.0}, {"sample_mean": ONE}, math.nan),
    (level(at_least=1.9), LEVELS, {}, 1.0),
    (level(at_most=2.5), LEVELS, {}, 0.0),
    (level(at_least="log(n)"), LEVELS, {}, 0.0),
    (level("auc", at_most=1.0), LEVELS, {}, math.nan),
]


@pytest.mark.parametrize(("test", "errors", "others", "expected"), VERDICTS)
def test_a_verdict_is_about_every_size(test, errors, others, expected):
    assert verdict(test, {"dp_mean": errors, **others}).value == pytest.approx(expected, nan_ok=True)


def test_a_level_needs_a_bound():
    with pytest.raises(ValueError, match="at_least"):
        verdict(level("auc"), {"dp_mean": LEVELS})


def test_a_guarantee_is_what_the_noise_proves():
    assert verdict(GUARANTEE, {"dp_mean": ONE}, certified=0.5).value == 1.0
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
    assert difference_interval(pd.Series([3.0, 3.0]), pd.Series([1.0, 1.0])) == (2, 2)


def test_a_scorecard_without_evidence_says_what_to_run(tmp_path):
    context = {"profile": "smoke", "seed": 1, "command": "", "started": "", "evidence": {}}
    page = scorecard_page(load_scorecard(), {}, tmp_path, context)
    assert "dpcost run mean_comparison" in page.with_name("report.md").read_text()
    table = validate_results(pd.read_parquet(tmp_path / "results.parquet"))
    assert table["value"].isna().all()
    assert len(table) == 2 * table["metric"].nunique() == 2 * len(load_scorecard().claims)
