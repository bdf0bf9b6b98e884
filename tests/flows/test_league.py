"""The league: workers, errors, attacks, time limits, merging, and what the page says first."""

import numpy as np
import pytest

from data.store.folders import home as own_home
from flows.league.run import EPSILONS, MOST_ERROR, Scale, league, merged
from flows.league.tables import declarations, load
from flows.league.worker_process import Worker, all_methods
from reports.pages.league import ratios_of, render_league

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
    time.sleep(30)


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
    table = load("progression", tmp_path)
    np.savez(tmp_path / "table.npz", **table.arrays())
    budget = {"epsilon": 1.0, "delta": 1e-6, "seed": 0}
    with Worker(methods["failing"], tmp_path) as worker:
        worker.load(tmp_path / "table.npz")
        assert worker.fit(methods["failing"], **budget) == {"error": "ValueError: it wants more rows"}
        assert "takes more than" in worker.fit(methods["slow"], limit=0.5, **budget)["error"]
        after = worker.fit(methods["least_squares"], **budget)  # in a new process, of the same table
    scale = Scale(table)
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
    assert "it wants more rows" in by_method["failing"]["error"]
    ratios = ratios_of(found)
    assert (ratios["least_squares"] == 1).all()
    assert (ratios["zero"] > 100).all()
    assert np.isinf(ratios["failing"]).all()
    files = render_league(found, command="dpcost league --seed 0", finished="2026-01-01", version="1")
    text = files["report.md"].decode()
    first = text.index("Somebody else’s method is better than ours in 5 of 5 settings")
    assert first < text.index("## Rules")
    assert "least\\_squares violates its claim" in text or "least_squares violates its claim" in text
    assert b"<svg" in files["report.html"]
    assert "(figures/league-linear.png)" in text
    assert files["figures/league-linear.png"]


def test_results_of_several_machines_are_one_and_what_is_known_counts_once():
    def results(machine, *rows):
        told = [{"table": t, "method": m, "epsilon": e, "value": v} for t, m, e, v in rows]
        audits = [{"method": m, "proved": v} for _, m, _, v in rows]
        tables, methods = ({row[i]: {"from": machine} for row in rows} for i in (0, 1))
        return {"rows": told, "audits": audits, "tables": tables, "methods": methods, "machines": [machine]}

    whole = merged(
        [results("a", ("t", "m", 1.0, 0.1)), results("b", ("t", "m", 1.0, 0.2), ("u", "k", 1.0, 0.3))]
    )
    assert [row["value"] for row in whole["rows"]] == [0.1, 0.3]
    assert [audit["proved"] for audit in whole["audits"]] == [0.1, 0.3]
    assert whole["tables"] == {"t": {"from": "a"}, "u": {"from": "b"}}
    assert whole["machines"] == ["a", "b"]


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
        "linear", "logistic", "counts"
    }  # fmt: skip


@pytest.mark.parametrize("name", ["progression", "politics", "insured_visits", "tumors"])
def test_rows_are_within_their_public_bounds(name, tmp_path):
    table = load(name, tmp_path)
    assert (table.lower <= table.X).all()
    assert (table.upper >= table.X).all()
    assert table.y_lower <= table.y.min()
    assert table.y.max() <= table.y_upper
    assert table.X.shape[1] == len(table.lower) == len(table.upper)
