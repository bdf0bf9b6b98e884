"""The league: errors, verdicts, stored results of other libraries, and what its page says."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.collections import league as tables
from data.store.folders import PROJECT_ROOT
from tests.bench.league import ours
from tests.bench.league.__main__ import draws
from tests.bench.league.judging import comparisons, lengthened, ratios_of, rows_of
from tests.bench.league.ours import STUDY
from tests.bench.league.page import league_answer, league_page, league_sections
from tests.bench.league.whole_table import MISSED, MOST_ERROR, WholeTable, missed_of_regression

STORED = json.loads((PROJECT_ROOT / "docs" / "league.json").read_text())
OTHERS = Path(__file__).with_name("small.json")


def test_the_constant_of_a_regression_has_error_one_and_what_is_no_number_the_most():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, (300, 2)), np.ones(300)])
    for family, y in (("", X[:, 0]), ("logistic", X[:, 0] > 0.2), ("poisson", rng.poisson(np.exp(X[:, 0])))):
        missed = missed_of_regression(X, y.astype(float), family)
        mean = y.mean()
        constant = {"": mean, "logistic": np.log(mean / (1 - mean)), "poisson": np.log(mean)}[family]
        assert missed(np.array([0, 0, constant])) == pytest.approx(1)
        assert missed(np.full(3, np.nan)) == MOST_ERROR


def test_means_of_a_table_are_measured_in_standard_deviations(home):
    name = "league_progression"
    problem = WholeTable(kind="whole_table", dataset=name, **tables.problems(["means"])[name])
    (draw,) = draws(problem, 2)
    rows = draw.sample.X
    means, stds = rows.mean(axis=0), rows.std(axis=0)
    assert draw.judge(means) == 0
    assert draw.judge(means + 0.5 * stds) == pytest.approx(0.5)
    assert draw.judge(np.full(len(means), np.nan)) == MOST_ERROR


RUN = """
import sys
from dpalgos.audit import lower_bound
from tasks.run_options import RunOptions
from tests.plain_runs import run_plainly

audit = lower_bound.audit_estimator
lower_bound.audit_estimator = lambda name, **asked: audit(name, **{**asked, "n_trials": 100})
print(run_plainly(sys.argv[1], RunOptions(profile="smoke", offline=True, out=sys.argv[2]))[0].parent)
"""
SMALL = {
    '["linear"]\n\n': '[{ name = "preconditioned_regression", calibrations = ["tight"] }]\n\n',
    "epsilon = [0.1, 0.5, 1.0, 3.0, 10.0]": "epsilon = [1.0]",
    "smoke = 3": "smoke = 12",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The report of the study on one table, by the plugin and the study file of the league."""
    at = tmp_path_factory.mktemp("league")
    text = STUDY.read_text().partition('[[panels]]\ncollection = "league"\ngroups = ["logistic"]')[0]
    for old, new in SMALL.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (at / "league.toml").write_text(text)
    environment = {**os.environ, "DPCOST_WITH": str(STUDY.with_name("whole_table.py"))}
    environment |= {"DPCOST_HOME": str(at / "home"), "PYTHONPATH": str(PROJECT_ROOT)}
    words = [sys.executable, "-c", RUN, str(at / "league.toml"), str(at / "out")]
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False, cwd=PROJECT_ROOT
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return at / "out" / "league"


def test_a_run_is_stored_with_results_of_others_and_a_method_that_violates_its_claim_is_excluded(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(ours, "developed_on", lambda _: False)
    file, history = tmp_path / "league.json", tmp_path / "history.csv"
    file.write_text(OTHERS.read_text())
    rows = pd.read_parquet(folder / "results.parquet")
    assert set(rows["metric"]) == {MISSED}
    assert rows.groupby("estimator")["value"].nunique()["preconditioned_regression"] == 12
    ours.store(folder, "nothing", file, history)
    assert history.read_text().endswith(",1 / 0 / 0 of 1,–,–,nothing\n")
    league = lengthened(json.loads(file.read_text()))
    assert str(PROJECT_ROOT) not in league["command"]
    html, markdown = league_page(league, "somewhere")
    text = markdown.decode()
    assert "Cheat violates its claim: ε is at least 3" in text
    assert "other libraries: a machine" in text
    assert "an old one" not in text
    assert "| Honest | 0.900 (" in text
    assert "Elsewhere" not in text
    assert "| box_mean" not in text
    assert "clearly better than the best rival in 1 of 1 settings" in text
    assert 'aria-label="Picture: league-linear"' in html.decode()


def test_verdicts_on_the_fits_of_the_published_run_are_those_that_were_published():
    found = comparisons(lengthened(STORED))
    fresh = {name for name, about in STORED["tables"].items() if not about["developed"]}
    judged = [each for each in found if each.family != "means" and each.table in fresh]
    counts = Counter(each.verdict for each in judged)
    published = (PROJECT_ROOT / "docs" / "league_history.csv").read_text().splitlines()[-1]
    listed = " / ".join(str(counts[verdict]) for verdict in ("better", "worse", "undecided"))
    assert f",{listed} of {counts.total()}," in published


def results_of(errors, *, violated=()):
    """Return a league's results with a table ``t`` and ε = 1: errors (repetitions,) by method, ours first."""
    fits = [pd.DataFrame({"estimator": name, "value": values}) for name, values in errors.items()]
    found = pd.concat([each.assign(replicate=each.index) for each in fits])
    found = found.assign(panel="t", epsilon=1.0, status="ok", message="")
    rows = rows_of(found, {"t": ("t", "linear")}, {name: name for name in errors})
    methods = {name: {"ours": k == 0} for k, name in enumerate(errors)}
    audits = [{"method": name, "violated": name in violated} for name in errors]
    tables = {"t": {"family": "linear", "developed": False, "constant": 1.0}}
    return {"rows": rows, "methods": methods, "audits": audits, "tables": tables}


def test_the_best_of_many_equal_rivals_is_no_better_than_ours():
    rng, verdicts = np.random.default_rng(0), []
    for _ in range(100):
        errors = {name: rng.normal(1, 0.1, 20).tolist() for name in ("ours", *map(str, range(15)))}
        (found,) = comparisons(results_of(errors))
        verdicts.append(found.verdict)
    # Each tail has 2.3 percent; 100 draws exceed 12 percent by chance less than once in 10⁶ seeds.
    assert max(verdicts.count(verdict) for verdict in ("worse", "better")) <= 12


def test_a_comparison_counts_both_errors_and_no_method_that_violates_its_claim():
    rng = np.random.default_rng(0)
    ours, near, far, cheat = (rng.normal(m, 0.05, 20).tolist() for m in (0.5, 0.51, 0.3, 0.01))
    (undecided,) = comparisons(results_of({"ours": ours, "near": near}))
    assert undecided.verdict == "undecided"
    wide, narrow = [0.2, 0.2, 0.9, 0.9] * 5, [0.5, 0.5, 0.501, 0.501] * 5
    for told in ({"ours": wide, "near": narrow}, {"ours": narrow, "near": wide}):
        assert comparisons(results_of(told))[0].verdict == "undecided"
    told = {"ours": ours, "near": near, "far": far, "cheat": cheat}
    (lost,) = comparisons(results_of(told, violated={"cheat"}))
    assert (lost.verdict, lost.rival) == ("worse", "far")
    ratio, spread = lost.ratio
    assert ratio == pytest.approx(np.mean(ours) / np.mean(far))
    draws = np.mean(ours) + np.std(ours, ddof=1) / np.sqrt(20) * rng.standard_normal(10_000)
    others = np.mean(far) + np.std(far, ddof=1) / np.sqrt(20) * rng.standard_normal(10_000)
    assert spread == pytest.approx(np.std(draws / others), rel=0.1)
    assert comparisons(results_of({"ours": ours, "cheat": cheat}, violated={"cheat"})) == []
    failed = results_of({"ours": ours, "near": near})
    failed["rows"][0].update(value=None, halves=None, error="it failed")
    assert comparisons(failed)[0].verdict == "worse"


def test_the_page_counts_losses_with_their_errors_and_claims_nothing_of_methods_that_did_not_run():
    rng = np.random.default_rng(0)
    found = results_of({"ours": rng.normal(1.5, 0.05, 20), "far": rng.normal(0.3, 0.05, 20)})
    found["rows"][1]["value"] = 100.0
    found["methods"] = {name: told | {"library": "", "file": ""} for name, told in found["methods"].items()}
    found["tables"]["t"] |= {"source": "somewhere", "n": 100, "d": 2}
    for complete in (True, False):
        league = found | {"complete": complete}
        first, answer = league_sections(league)[0].context, league_answer(league)
        assert ("Among the methods and tables of this run" in answer) is not complete
        assert "in 0 of 1 settings" in answer
        assert len(answer.split()) <= 30
        (counts,) = first["counted"]
        assert (counts["better"], counts["worse"], counts["n"], counts["above"]) == (0, 1, 1, 1)
        assert counts["most"] == pytest.approx(1.5, abs=0.1)
        assert first["losses"][0][:4] == ["t", "linear", "far", "1"]
        assert first["losses"][0][4].startswith("1.4")
        assert "≥ 100" in first["losses"][0][5]


def test_what_a_method_does_not_come_to_counts_for_nobody():
    fits = [(1.0, "a", 0.5), (1.0, "b", 1.0), (3.0, "a", None), (3.0, "c", 2.0)]
    told = {"table": "t", "family": "linear"}
    rows = [told | {"epsilon": epsilon, "method": name, "value": value} for epsilon, name, value in fits]
    ratios = ratios_of({"rows": rows, "methods": {}, "audits": []}).loc[("linear", "t")]
    assert ratios["a"].tolist() == [1, np.inf]
    assert ratios.loc[1.0, "b"] == 2
    assert np.isnan(ratios.loc[3.0, "b"])
