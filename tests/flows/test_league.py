"""The league: libraries in processes of their own, errors, attacks, verdicts, and what its page says."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pandas as pd
import psutil
import pytest
from small_project import until

import dpalgos
from data.collections import league as tables
from data.store.folders import PROJECT_ROOT
from dpalgos.audit.lower_bound import audit_estimator
from flows.environments import make_environments
from flows.studies.find_study import find_study
from reports.league import comparisons, ratios_of, rows_of
from reports.pages.league import league_answer, league_sections
from tasks.external import libraries
from tasks.external.attack import attack
from tasks.external.libraries import answer, proved
from tasks.external.worker import Table as WorkerTable
from tasks.problems.measures.explained import MISSED, MOST_ERROR, MeanScale, RegressionScale
from tasks.run.tables import fetch, parquet
from tasks.run_options import RunOptions
from tests.flows.test_init import study as own_study
from tests.plain_runs import run_plainly
from tests.tasks.analyst_tables import edited, refusal
from tests.tasks.blocks import made_block, made_cell, made_problem, prepared_data

METHODS = """
import time
import numpy as np

REQUIRES = ()
FAMILIES = {
    "Least squares": ["linear"], "Always zero": ["linear"], "Failing": ["linear"], "Slow": ["linear"]
}

def least_squares(table, epsilon, delta, seed):
    return np.linalg.lstsq(np.column_stack([table.X, np.ones(len(table.X))]), table.y, rcond=None)[0]

def zero(table, epsilon, delta, seed):
    return np.zeros(table.X.shape[1] + 1)

def failing(table, epsilon, delta, seed):
    raise ValueError("it wants more rows")

def slow(table, epsilon, delta, seed):
    print("what a library prints is no answer")
    time.sleep(20)

METHODS = dict(zip(FAMILIES, (least_squares, zero, failing, slow)))
"""
STORED = json.loads((PROJECT_ROOT / "docs" / "league.json").read_text())
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
LEAGUE = Path(__file__).with_name("small_league.toml")
LOCAL = ["progression", "politics", "insured_visits", "tumors", "airfoil"]


@pytest.fixture
def methods(tmp_path, monkeypatch):
    """Make a library known that needs nothing installed."""
    for known in (libraries.methods, sys.modules["dpalgos.catalog"]._FOREIGN):
        for name in ("least_squares", "always_zero", "failing", "slow"):
            monkeypatch.setitem(known, name, None)  # and take it out afterwards
    folder = tmp_path / "methods"
    folder.mkdir()
    (folder / "theirs.py").write_text(METHODS)
    libraries.register(folder)


def drawn(name, folder, group="linear", replicates=2):
    dataset = f"league_{name}"
    problem = made_problem("whole_table", dataset=dataset, **tables.problems([group])[dataset])
    table = parquet(fetch(problem.dataset, offline=True))
    if table.data_source != "real":
        pytest.skip("neither an installed package nor the mirror has its file")
    prepared = prepared_data(problem, table, folder)
    block = made_block(problem, n=len(prepared.X), replicates=replicates)
    (draw,) = problem.draws(block.replicates, prepared)
    return problem, prepared, draw


def test_a_fit_that_fails_or_takes_too_long_is_refused_with_the_reason(methods, home, tmp_path):
    _, _, draw = drawn("progression", tmp_path)
    asked = {"seeds": [1, 2], "seconds": 60.0, **BUDGET}
    with pytest.raises(dpalgos.InputError, match="ValueError: it wants more rows"):
        answer("failing", draw.table, **asked)
    with pytest.raises(dpalgos.InputError, match="takes more than"):
        answer("slow", draw.table, **{**asked, "seconds": 0.5})
    found = answer("least_squares", draw.table, **asked)  # in a new process, of the same table
    assert found.estimate.shape == (11, 2)
    assert np.isnan(found.certified_epsilon)
    assert draw.scale.error(found.estimate[:, 0]) < 1e-9


def test_a_process_of_a_library_ends_when_its_run_is_killed(home):
    code = (
        "import pathlib, sys, time\nfrom tasks.external.process import LibraryProcess\n"
        f"process = LibraryProcess(pathlib.Path({__file__!r}), pathlib.Path(sys.executable))\n"
        "print(process._started().pid, flush=True)\ntime.sleep(60)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=PROJECT_ROOT)
    worker = int(run.stdout.readline())
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    until(lambda: not psutil.pid_exists(worker))


def test_the_constant_of_a_regression_has_error_one_and_what_is_no_number_the_most():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, (300, 2)), np.ones(300)])
    for family, y in (("", X[:, 0]), ("logistic", X[:, 0] > 0.2), ("poisson", rng.poisson(np.exp(X[:, 0])))):
        scale = RegressionScale(X, y.astype(float), family)
        mean = y.mean()
        constant = {"": mean, "logistic": np.log(mean / (1 - mean)), "poisson": np.log(mean)}[family]
        assert scale.error(np.array([0, 0, constant])) == pytest.approx(1)
        assert scale.error(np.full(3, np.nan)) == MOST_ERROR


def test_means_of_a_table_are_measured_in_standard_deviations(home, tmp_path):
    _, prepared, draw = drawn("progression", tmp_path, "means")
    means, stds = prepared.X.mean(axis=0), prepared.X.std(axis=0)
    assert draw.scale.error(means) == 0
    assert draw.scale.error(means + 0.5 * stds) == pytest.approx(0.5)
    assert draw.scale.error(np.full(len(means), np.nan)) == MOST_ERROR
    worker = WorkerTable(**draw.table)
    products = worker.products()
    assert len(products) == len(means)
    assert worker.solved(values.sum() for values, _, _ in products) == pytest.approx(means)


def test_attacks_find_a_library_without_noise_and_prove_nothing_of_a_constant(methods, home):
    names, seed = ("least_squares", "always_zero"), 2**63 - 1  # as large as a derived one can be
    found = {name: attack(made_cell(name, n=10, delta=1e-5), 150, seed) for name in names}
    assert found["least_squares"]["audited_epsilon"] > 1
    assert found["always_zero"]["audited_epsilon"] == 0
    failed = attack(made_cell("failing", n=10, delta=1e-5), 150, 1)
    assert np.isnan(failed["audited_epsilon"])
    assert "more rows" in failed["error"]


def test_noise_that_proves_more_than_is_claimed_is_refused():
    assert np.isnan(proved({"releases": []}, 1.0, 1e-5))
    release = {"rate": 0.5, "times": 20.0}
    assert 0 < proved({"releases": [{"multiplier": 50.0, **release}]}, 1.0, 1e-5) <= 1
    with pytest.raises(dpalgos.InputError, match="it claims 1"):
        proved({"releases": [{"multiplier": 2.0, **release}]}, 1.0, 1e-5)


def test_a_library_without_environment_is_left_out_and_named(home, monkeypatch, capsys):
    spec = find_study("league")
    foreign = spec.foreign()
    assert len(set(foreign.values())) == 11
    left, _ = spec.on({})
    assert left.foreign() == {}
    assert set(left.not_run) == set(foreign)
    assert "python-dp==1.1.5" in left.not_run["pydp_sums"]
    make = MagicMock()
    monkeypatch.setattr("flows.environments.make_environment", make)
    for profile, offline in (("smoke", False), ("standard", True)):
        make_environments(spec, RunOptions(profile=profile, offline=offline))
    make.assert_not_called()
    make_environments(spec, RunOptions())
    assert make.call_count == 11


def test_no_library_sees_an_analysts_own_table(home, tmp_path):
    file = own_study(tmp_path, response="cost")
    edited(file, 'kind = "subsamples"', 'kind = "whole_table"')
    assert "dataset must be a registered one" in refusal(find_study, str(file))


def test_the_page_names_what_an_attack_found_and_excludes_it(methods, home, tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.external.attack.attack", lambda cell, _, seed: attack(cell, 150, seed))
    of_ours = lambda name, **asked: audit_estimator(name, **{**asked, "n_trials": 100})  # noqa: E731
    monkeypatch.setattr("dpalgos.audit.lower_bound.audit_estimator", of_ours)
    options = RunOptions(profile="smoke", offline=True, out=str(tmp_path / "out"))
    page, _ = run_plainly(LEAGUE, options)
    rows = pd.read_parquet(page.with_name("results.parquet"))
    assert set(rows["metric"]) == {MISSED}
    by_name = rows.groupby("estimator")
    refused = {name: "refused" if name == "failing" else "ok" for name in by_name.groups}
    assert by_name["status"].first().to_dict() == refused
    assert by_name["value"].nunique()["preconditioned_regression"] == 4
    assert rows.set_index("estimator")["certified_epsilon"].isna()["least_squares"].all()
    text = page.with_name("report.md").read_text()
    assert "Least squares violates its claim" in text
    assert "dpcost rerun league --task audit" in text
    assert "| Failing | 100.0" in text or "ValueError: it wants more rows" in text
    assert "in 1 of 1 settings" in text  # of zero alone
    assert page.with_name("figures").joinpath("league-linear.png").exists()


def stored_rows():
    names = ("epsilon", "value", "standard_error", "seconds", "repetitions", "halves")
    return [
        {"table": table, "method": method, "family": STORED["tables"][table]["family"]}
        | dict(zip(("epsilon", "error") if len(fit) == 2 else names, fit, strict=True))
        for method, of_method in STORED["fits"].items()
        for table, fits in of_method.items()
        for fit in fits
    ]


def test_verdicts_on_the_fits_of_the_published_run_are_those_that_were_published():
    found = comparisons(STORED | {"rows": stored_rows()})
    fresh = {name for name, about in STORED["tables"].items() if not about["developed"]}
    judged = [each for each in found if each.family != "means" and each.table in fresh]
    counts = Counter(each.verdict for each in judged)
    published = (PROJECT_ROOT / "docs" / "league_history.csv").read_text().splitlines()[-1]
    listed = " / ".join(str(counts[verdict]) for verdict in ("better", "worse", "undecided"))
    assert f",{listed} of {counts.total()}," in published


@pytest.mark.parametrize("name", LOCAL)
def test_tables_are_those_of_the_published_run_within_their_bounds(name, home, tmp_path):
    groups = "linear", "logistic", "counts"
    (group,) = (each for each in groups if f"league_{name}" in tables.problems([each]))
    _, prepared, draw = drawn(name, tmp_path, group)
    about, means = (STORED["tables"][each] for each in (name, f"{name} (means)"))
    assert (len(prepared.X), prepared.X.shape[1] - 1) == (about["n"], about["d"])
    X = draw.table["X"]
    assert MeanScale(X).error(np.zeros(about["d"])) == pytest.approx(means["constant"], abs=1e-9)
    assert (draw.table["lower"] <= X).all()
    assert (draw.table["upper"] >= X).all()
    assert draw.table["y_lower"] <= prepared.y.min()
    assert prepared.y.max() <= draw.table["y_upper"]


def test_a_table_gives_libraries_what_they_lack():
    X, rng = np.linspace(-1, 1, 400).reshape(200, 2), np.random.default_rng(0)
    X[:, 1] = rng.uniform(-1, 1, 200)
    ends = {"lower": -np.ones(2), "upper": np.ones(2), "y_lower": -2.0, "y_upper": 2.0}
    table = WorkerTable(X=X, y=X @ [0.5, -1] + 0.2, family="linear", **ends)
    products = table.products()
    assert all(((low <= values) & (values <= high)).all() for values, low, high in products)
    assert table.solved(values.sum() for values, _, _ in products) == pytest.approx([0.5, -1, 0.2])
    for family, mean in (("logistic", lambda u: 1 / (1 + np.exp(-u))), ("counts", np.exp)):
        table.family = family
        y = mean(X @ [0.5, -1] + 0.2)
        assert table.regression(X, y) == pytest.approx([0.5, -1, 0.2], abs=0.01)


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
    for _ in range(300):
        errors = {name: rng.normal(1, 0.1, 20).tolist() for name in ("ours", *map(str, range(30)))}
        (found,) = comparisons(results_of(errors))
        verdicts.append(found.verdict)
    # Each tail has 2.3 percent; 300 draws exceed 8 percent by chance less than once in 10⁶ runs.
    assert verdicts.count("worse") < 0.08 * len(verdicts)
    assert verdicts.count("better") < 0.08 * len(verdicts)


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
        first, answer = league_sections(league)[0].facts, league_answer(league)
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
