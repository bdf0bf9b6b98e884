"""Facts for the league's page: what its methods, tables and audits are, and its errors by setting."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

import dpalgos
from data.collections.league import GROUPS, developed_on
from data.store.folders import PROJECT_ROOT, read_json
from reports.league import OURS, OURSELVES, lengthened, rows_of, with_others
from reports.page import ZERO
from tasks.problems.kinds import measure_of
from tasks.problems.problem import DatasetSource
from tasks.study.spec import Panel, StudySpec

STORED = PROJECT_ROOT / "docs" / "league.json"  # in a checkout; ``tests/bench/league`` measures it


def league_facts(spec: StudySpec, results: pd.DataFrame, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the league's rows, audits, methods and tables, with the stored ones of other libraries."""
    measured = {panel.name: measure_of(panel.problem).metric(panel.problem.traits) for panel in spec.panels}
    results = results[results["metric"] == results["panel"].map(measured)]
    panels = {}
    for panel in spec.panels:  # means are a table of their own
        traits, name = panel.problem.traits, panel.problem.source.removeprefix("league_")
        is_mean = traits.task == "mean"
        panels[panel.name] = (f"{name} (means)", "means") if is_mean else (name, GROUPS[traits.family])
    names = dict.fromkeys(item.name for panel in spec.panels for item in spec.estimators_of(panel))
    private = [name for name in names if dpalgos.get_estimator(name).private]
    facts = {
        "rows": rows_of(results, panels, {name: name for name in private}),
        "audits": list(_audits(spec, results, private)),
        "methods": {
            name: {"ours": name in OURS, "library": OURSELVES, "file": _file_of(name), "versions": []}
            for name in private
        },
        "tables": {
            table: _about(spec.panel(name), family, results)
            for name, (table, family) in panels.items()
            if name in set(results["panel"])
        },
        "machines": {
            "own estimators": f"{manifest['machine']}, Python {manifest['python']}, "
            f"commit {manifest['commit'][:12]}"
        },
        "complete": manifest["profile"] != "smoke" and not manifest["not_run"],
    }
    return with_others(facts, lengthened(read_json(STORED))) if STORED.exists() else facts


def _about(panel: Panel, family: str, results: pd.DataFrame) -> dict[str, Any]:
    """Return facts of a table; the constant of means is the declared centers, whose error ``zero`` has."""
    problem = panel.problem
    assert isinstance(problem, DatasetSource)
    of_zero = results[(results["dataset"] == problem.source) & (results["estimator"] == ZERO)]
    rows = results[results["panel"] == panel.name]
    return {
        "family": family,
        "source": problem.about.citation.removesuffix("."),
        "n": int(rows["n"].iloc[0]),
        "d": int(rows["d"].iloc[0]) - problem.traits.has_intercept,
        "developed": family != "means" and developed_on(problem.source),
        "constant": 1.0 if family != "means" or of_zero.empty else float(of_zero["value"].mean()),
    }


def _audits(spec: StudySpec, results: pd.DataFrame, names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield at the headline's ε what attacks and the accountant prove."""
    at_headline = results[results["epsilon"] == spec.headline.epsilon]
    for name in names:
        rows = at_headline[at_headline["estimator"] == name]
        proved, certified = rows["audited_epsilon"].max(), rows["estimator_epsilon"].max()
        yield {
            "method": name,
            "violated": bool(proved > spec.headline.epsilon),
            **({} if pd.isna(proved) else {"proved": float(proved)}),
            **({} if pd.isna(certified) else {"replayed": float(certified)}),
        }


def _file_of(name: str) -> str:
    return f"{dpalgos.get_estimator(name).function.__module__.replace('.', '/')}.py"
