"""The league: workers, errors, attacks, time limits, merging, and what the page says first."""

import subprocess
from unittest.mock import MagicMock

import numpy as np
import pytest

from data.store.folders import home as own_home
from dpalgos.accounting.gaussian_dp import gaussian_epsilon
from flows.league.method_run import EPSILONS, REPETITIONS, MethodRun, _mean_with_error, _replayed
from flows.league.methods import opendp
from flows.league.run import league, merged
from flows.league.scale import MOST_ERROR, scale_of
from flows.league.tables import declarations, developed_on, load_table, means_of
from flows.league.worker import Table as WorkerTable
from flows.league.worker_process import Worker, all_methods
from reports.league import comparisons, ratios_of
from reports.pages.league import render_league
from tasks.errors import SpecError

METHODS = """
import time
import numpy as np

REQUIRES = ()
OURS = OURS_
FAMILIES = FAMILIES_


def least_squares(table, epsilon, delta, seed):
    X = np.column_stack([table.X, np.ones(len(table.X))])
    return np.linalg.lstsq(X, table.y, rcond=None)[0]


def zero(table, epsilon, delta, seed):
    return np.zeros(table.X.shape[1] + 1)


def failing(table, epsilon, delta, seed):
    raise ValueError("it wants more rows")


def slow(table, epsilon, delta, seed):
    print("what a library prints is no answer")
    time.sleep(2)


METHODS = {name: globals()[name] for name in FAMILIES}
"""


@pytest.fixture
def methods(tmp_path):
    """Return methods by name: one of ours, which takes the constant alone, and three of others."""
    told = {"ours": (["zero"], True), "theirs": (["least_squares", "failing", "slow"], False)}
    for file, (names, ours) in told.items():
        families = {name: ["linear"] for name in names}
        text = METHODS.replace("OURS_", str(ours)).replace("FAMILIES_", str(families))
        (tmp_path / f"{file}.py").write_text(text)
    return {method.name: method for method in all_methods(tmp_path)}


def test_a_fit_that_fails_or_takes_too_long_has_that_as_its_result(methods, tmp_path):
    table = load_table("progression", tmp_path)
    np.savez(tmp_path / "table.npz", **table.arrays())
    budget = {"epsilon": 1.0, "delta": 1e-6, "seed": 0}
    with Worker(methods["failing"], tmp_path) as worker:
        worker.load(tmp_path / "table.npz")
        assert worker.fit(methods["failing"], **budget)["error"] == "ValueError: it wants more rows"
        assert "takes more than" in worker.fit(methods["slow"], limit=0.5, **budget)["error"]
        after = worker.fit(methods["least_squares"], **budget)  # in a new process, of the same table
    scale = scale_of(table)
    assert scale.error(after["coef"]) < 1e-9
    constant = np.zeros(table.X.shape[1] + 1)
    constant[-1] = table.y.mean()
    assert scale.error(constant) == pytest.approx(1)
    assert scale.error(np.full(3, 1.0)) == scale.error(np.nan * constant) == MOST_ERROR


def test_the_page_says_first_where_others_are_better_and_names_what_an_attack_found(methods, home):
    chosen = [methods[name] for name in ("least_squares", "zero", "failing")]
    found = league(chosen, ["progression"], minutes=30, folder=own_home() / "league", trials=150)
    by_method = {audit["method"]: audit for audit in found["audits"]}
    assert by_method["least_squares"]["violated"]  # it has no noise
    assert by_method["zero"]["proved"] == 0
    ratios = ratios_of(found)
    assert (ratios["zero"] == 1).all()
    assert (ratios["least_squares"] < 1).all()
    assert np.isinf(ratios["failing"]).all()
    about = {"command": "dpcost league --seed 0", "finished": "2026-01-01", "version": "1"}
    files = render_league(found, **about, complete=False)
    text = files["report.md"].decode()
    first = text.index("Nothing was compared")  # a method that failed its attack is no rival
    assert first < text.index("## Rules")
    assert "least\\_squares violates its claim" in text or "least_squares violates its claim" in text
    assert "dpcost league --method 'least_squares' --table none --seed 0" in text
    assert b"<svg" in files["report.html"]
    assert "(figures/league-linear.png)" in text
    assert files["figures/league-linear.png"]


def test_an_interrupted_run_goes_on_where_it_was(methods, tmp_path):
    chosen, names = [methods["zero"]], ["progression"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MethodRun, "_audited", interrupted)
        with pytest.raises(KeyboardInterrupt):
            league(chosen, names, minutes=10, folder=tmp_path, trials=100)
    (kept,) = (tmp_path / "journal").iterdir()
    lines = kept.read_text().strip().splitlines()
    kept.write_text(kept.read_text() + '\n["cut off')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MethodRun, "_audited", lambda *_: {})
        fit = MagicMock()
        patch.setattr(Worker, "fit", fit)
        again = league(chosen, names, minutes=10, folder=tmp_path, trials=100)
    fit.assert_not_called()  # nothing is fitted twice
    assert len(again["rows"]) == len(EPSILONS)
    assert sum(row["repetitions"] for row in again["rows"]) == len(lines)
    assert not list((tmp_path / "journal").iterdir())


def interrupted(*_, **__):
    raise KeyboardInterrupt


def test_what_a_method_does_not_come_to_counts_for_nobody(methods, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flows.league.method_run.MOST_PACE", 0.5)
        found = league([methods["slow"]], ["progression"], minutes=0.02, folder=tmp_path)
    assert found["rows"] == []
    fits = [(1.0, "a", 0.5), (1.0, "b", 1.0), (3.0, "a", None), (3.0, "c", 2.0)]
    told = {"table": "t", "family": "linear"}
    rows = [told | {"epsilon": epsilon, "method": name, "value": value} for epsilon, name, value in fits]
    ratios = ratios_of({"rows": rows, "methods": {}, "audits": []}).loc[("linear", "t")]
    assert ratios["a"].tolist() == [1, np.inf]
    assert ratios.loc[1.0, "b"] == 2
    assert np.isnan(ratios.loc[3.0, "b"])


def test_an_environment_that_cannot_be_made_ends_no_run(methods, tmp_path, monkeypatch):
    def refused(command, **_):
        return subprocess.CompletedProcess(command, int("install" in command), "", "no such option")

    monkeypatch.setattr("flows.league.environments.subprocess.run", refused)
    (tmp_path / "no.py").write_text(
        "REQUIRES = ('--no-such-option',)\nFAMILIES = {'none': ['linear']}\nMETHODS = {}\n"
    )
    (broken,) = [method for method in all_methods(tmp_path) if method.name == "none"]
    found = league([broken, methods["zero"]], ["progression"], minutes=10, folder=tmp_path, trials=100)
    answered = {row["method"]: "value" in row for row in found["rows"]}
    assert answered == {"none": False, "zero": True}
    assert "cannot be installed" in next(row["error"] for row in found["rows"] if row["method"] == "none")


def test_a_table_gives_libraries_what_they_lack():
    X, rng = np.linspace(-1, 1, 400).reshape(200, 2), np.random.default_rng(0)
    X[:, 1] = rng.uniform(-1, 1, 200)
    table = WorkerTable(
        X=X,
        y=X @ [0.5, -1] + 0.2,
        lower=-np.ones(2),
        upper=np.ones(2),
        y_lower=-2.0,
        y_upper=2.0,
        family="linear",
    )
    products = table.products()
    assert all(((low <= values) & (values <= high)).all() for values, low, high in products)
    assert table.solved(values.sum() for values, _, _ in products) == pytest.approx([0.5, -1, 0.2])
    for family, mean in (("logistic", lambda u: 1 / (1 + np.exp(-u))), ("counts", np.exp)):
        table.family = family
        y = mean(X @ [0.5, -1] + 0.2)
        assert table.regression(X, y) == pytest.approx([0.5, -1, 0.2], abs=0.01)


def results_of(errors, *, violated=()):
    """Return a league's results with a table ``t`` and ε = 1: errors (repetitions,) by method, ours first."""
    rows = []
    for name, values in errors.items():
        told = {"table": "t", "family": "linear", "epsilon": 1.0, "method": name}
        value, spread, count = _mean_with_error(values)
        halves = [_mean_with_error(values[1::2]), _mean_with_error(values[::2])]
        rows.append(told | {"value": value, "standard_error": spread, "repetitions": count, "halves": halves})
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
    about = {"command": "dpcost league", "finished": "2026-01-01", "version": "1"}
    for complete in (True, False):
        text = render_league(found | {"machines": []}, **about, complete=complete)["report.md"].decode()
        assert ("Among the methods and tables of this run" in text) is not complete
        assert "in 0 of 1 settings" in text
        assert "| t | linear | 1 | far | 1.4" in text, text[:900]
        assert "worse than the constant, at worst 1.4" in text
        assert "≥ 100" in text


def test_errors_below_a_thousandth_are_equal():
    tiny = {"ours": [9e-4, 8e-4] * 10, "near": [1e-5, 2e-5] * 10}
    assert comparisons(results_of(tiny))[0].verdict == "undecided"


def test_means_of_a_table_are_measured_in_standard_deviations(tmp_path):
    table = means_of(load_table("progression", tmp_path))
    scale, means, stds = scale_of(table), table.X.mean(axis=0), table.X.std(axis=0)
    assert scale.error(means) == 0
    assert scale.error(means + 0.5 * stds) == pytest.approx(0.5)
    assert scale.constant == pytest.approx(scale.error(np.zeros(len(means))))
    assert scale.error([np.nan] * len(means)) == scale.error([1.0]) == MOST_ERROR
    worker = WorkerTable(**table.arrays())
    products = worker.products()
    assert len(products) == len(means)
    assert worker.solved(values.sum() for values, _, _ in products) == pytest.approx(means)


def test_quick_fits_are_repeated_more_often_and_every_half_is_kept(methods, tmp_path):
    found = league([methods["zero"]], ["progression"], minutes=10, folder=tmp_path, trials=100)
    assert {row["repetitions"] for row in found["rows"]} == {REPETITIONS}
    for row in found["rows"]:
        (chosen, _, first), (judged, _, second) = row["halves"]
        assert (first, second) == (REPETITIONS // 2, REPETITIONS // 2)
        assert row["value"] == pytest.approx((chosen + judged) / 2)


def test_a_replay_holds_what_noise_proves_against_the_claim():
    assert _replayed({"certified": None, "releases": []}) == {}
    for multiplier, violated in ((2.0, True), (50.0, False)):
        told = _replayed({"releases": [{"multiplier": multiplier, "rate": 0.5, "times": 20.0}]})
        assert told["violated_replay"] is violated
        assert told["replayed"] > 0


def test_tables_of_the_mirror_are_read_where_they_are(tmp_path, monkeypatch):
    monkeypatch.delenv("DPCOST_DATA_MIRROR", raising=False)
    with pytest.raises(SpecError, match="airfoil"):
        load_table("airfoil", tmp_path)
    (tmp_path / "wang2018").mkdir()
    np.savez(tmp_path / "wang2018" / "airfoil.npz", X=np.full((3, 5), 1e6), y=np.full(3, 120.0))
    monkeypatch.setenv("DPCOST_DATA_MIRROR", str(tmp_path))
    table = load_table("airfoil", tmp_path)
    assert (table.upper == table.X).all()


def test_results_of_several_machines_are_one_and_what_is_known_counts_once():
    def results(machine, *rows):
        told = [{"table": t, "method": m, "epsilon": e, "value": v} for t, m, e, v in rows]
        audits = [{"method": m, "proved": v} for _, m, _, v in rows] + [{"method": "m", "error": "slow"}]
        tables, methods = ({row[i]: {"from": machine} for row in rows} for i in (0, 1))
        return {"rows": told, "audits": audits, "tables": tables, "methods": methods, "machines": [machine]}

    whole = merged(
        [
            results("z"),
            results("a", ("t", "m", 1.0, 0.1)),
            results("b", ("t", "m", 1.0, 0.2), ("u", "k", 1.0, 0.3)),
        ]
    )
    assert [row["value"] for row in whole["rows"]] == [0.1, 0.3]
    assert [audit["proved"] for audit in whole["audits"]] == [0.1, 0.3]
    assert whole["tables"] == {"t": {"from": "a"}, "u": {"from": "b"}}
    assert whole["machines"] == ["z", "a", "b"]


def test_the_league_is_broad_and_every_table_is_declared():
    tables, found = declarations(), all_methods()
    assert len(tables) >= 30
    assert {about.get("family", "gaussian") for about in tables.values()} == {
        "gaussian",
        "logistic",
        "poisson",
    }
    for about in tables.values():
        assert about["response"] in about["columns"]
        for told in about["columns"].values():
            assert len(told) >= 2
            assert isinstance(told[0], str) or told[0] < told[1]
    assert len({method.name for method in found}) == len(found)
    assert len(EPSILONS) == 5
    assert {family for method in found if method.ours for family in method.families} == {
        "linear", "logistic", "counts", "means"
    }  # fmt: skip


@pytest.mark.parametrize("name", ["progression", "politics", "insured_visits", "tumors"])
def test_rows_are_within_their_public_bounds(name, tmp_path):
    table = load_table(name, tmp_path)
    assert (table.lower <= table.X).all()
    assert (table.upper >= table.X).all()
    assert table.y_lower <= table.y.min()
    assert table.y.max() <= table.y_upper
    assert table.X.shape[1] == len(table.lower) == len(table.upper)


def test_half_of_the_tables_of_every_family_judge_what_was_developed_on_the_others():
    names, families = declarations(), {about.get("family", "gaussian") for about in declarations().values()}
    for family in families:
        own = [name for name, about in names.items() if about.get("family", "gaussian") == family]
        assert 0.3 * len(own) <= sum(map(developed_on, own)) <= 0.7 * len(own)
    assert developed_on("computers")
    assert not developed_on("diamonds")


def test_opendp_converts_its_noise_itself_and_spends_the_budget():
    """Its ε for ρ lies between that of the exact Gaussian curve and that of the plain bound for ρ."""
    for rho in (0.001, 0.05, 1.0):
        for delta in (1e-8, 1e-4):
            told = opendp._epsilon(rho, delta)
            exact = gaussian_epsilon(delta, np.sqrt(2 * rho))
            assert exact * (1 - 1e-6) <= told <= rho + 2 * np.sqrt(rho * np.log(1 / delta))


def test_opendp_sums_have_the_noise_of_its_own_conversion():
    """Sums of zeros are the noise; the standard deviation of 8,000 draws errs by .8 %."""
    epsilon, delta, table = 1.0, 1e-6, MagicMock()
    table.products.return_value = [(np.zeros(3), -1.0, 1.0)] * 8_000
    table.solved = np.array
    noise = opendp.sums(table, epsilon, delta, 0)
    multiplier = table.shows.call_args.args[0]
    assert opendp._epsilon(8_000 / (2 * multiplier**2), delta) == pytest.approx(epsilon, rel=1e-6)
    assert np.std(noise) == pytest.approx(2 * multiplier, rel=0.06)
