"""Facts for the league's page: what its methods, tables and audits are, and its errors by setting."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

import dpalgos
from data.collections.league import GROUPS, developed_on
from reports.league import OURS, rows_of
from reports.page import ZERO
from tasks.external.environments import installed
from tasks.external.libraries import methods
from tasks.problems.kinds import measure_of
from tasks.problems.problem import DatasetSource
from tasks.study.panel import Panel
from tasks.study.spec import StudySpec


def league_facts(spec: StudySpec, results: pd.DataFrame, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the league's rows, audits, methods and tables; another library's methods by their titles."""
    measured = {panel.name: measure_of(panel.problem).metric(panel.problem.traits) for panel in spec.panels}
    results = results[results["metric"] == results["panel"].map(measured)]
    panels = {panel.name: _table_of(panel) for panel in spec.panels}
    names = dict.fromkeys(item.name for panel in spec.panels for item in spec.estimators_of(panel))
    entries = {name: dpalgos.get_estimator(name) for name in names}
    private = {
        name: entry.title if entry.foreign else name for name, entry in entries.items() if entry.private
    }
    return {
        "rows": rows_of(results, panels, private),
        "audits": list(_audits(spec, results, private)),
        "methods": {method: _method(name) for name, method in private.items()},
        "tables": {
            table: _about(spec.panel(name), family, results)
            for name, (table, family) in panels.items()
            if name in set(results["panel"])
        },
        "machines": [f"{manifest['machine']}, Python {manifest['python']}, commit {manifest['commit'][:12]}"],
        "complete": manifest["profile"] != "smoke" and not manifest["not_run"],
    }


def _table_of(panel: Panel) -> tuple[str, str]:
    """Return the name of a panel's table and its family; means are a table of their own."""
    traits = panel.problem.traits
    name = panel.problem.source.removeprefix("league_")
    return (f"{name} (means)", "means") if traits.task == "mean" else (name, GROUPS[traits.family])


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


def _audits(spec: StudySpec, results: pd.DataFrame, methods: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield at the headline's ε what attacks prove, and what the noise that a method shows proves."""
    at_headline = results[results["epsilon"] == spec.headline.epsilon]
    for name, method in methods.items():
        rows = at_headline[at_headline["estimator"] == name]
        proved, certified = rows["audited_epsilon"].max(), rows["estimator_epsilon"].max()
        yield {
            "method": method,
            "violated": bool(proved > spec.headline.epsilon),
            **({} if pd.isna(proved) else {"proved": float(proved)}),
            **({} if pd.isna(certified) else {"replayed": float(certified)}),
        }


def _method(name: str) -> dict[str, Any]:
    entry = dpalgos.get_estimator(name)
    if not entry.foreign:
        file = entry.function.__module__.replace(".", "/")
        return {"ours": name in OURS, "library": "this project", "file": f"{file}.py", "versions": []}
    method = methods[name]
    return {
        "ours": False,
        "library": ", ".join(method.requires),
        "file": f"tasks/external/methods/{method.file.name}",
        "versions": installed(method.requires),
    }
