"""Measure this project's estimators on the league's tables, and store the results for the documentation.

``python -m tests.bench.league.ours "what changed"`` runs the study ``league.toml`` and adds the results of
other libraries. It writes ``docs/league.json`` and adds a line to ``docs/league_history.csv``. If
``--folder`` names the report of a run, nothing is run.
"""

import argparse
import csv
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import dpalgos
from data.collections.league import GROUPS, declarations, developed_on
from data.datasets import get_dataset
from data.store.folders import PROJECT_ROOT, REPORTS, read_json
from reports.page import ZERO
from tests.bench.league.judging import (
    OURS,
    OURSELVES,
    comparisons,
    lengthened,
    measured_by,
    rows_of,
    shortened,
    with_others,
)
from tests.bench.league.whole_table import MISSED

STUDY = Path(__file__).with_name("league.toml")
SETTINGS = tomllib.loads(STUDY.read_text(encoding="utf-8"))
FILE = PROJECT_ROOT / "docs" / "league.json"
HISTORY = FILE.with_name("league_history.csv")
RUN = ["run", str(STUDY), "--with", str(Path(__file__).with_name("whole_table.py"))]
_COUNTS = ("better", "worse", "undecided")


def league_of(results: pd.DataFrame, manifest: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    """Return the rows, audits, methods and tables of a run, with the stored ones of other libraries."""
    results = results[results["metric"] == MISSED]
    private = [name for name in results["estimator"].unique() if dpalgos.get_estimator(name).private]
    panels = {str(panel): _table_of(rows) for panel, rows in results.groupby("panel", sort=False)}
    facts = {
        "rows": rows_of(results, panels, {name: name for name in private}),
        "audits": list(_audits(results, private)),
        "methods": {
            name: {"ours": name in OURS, "library": OURSELVES, "file": _file_of(name), "versions": []}
            for name in private
        },
        "tables": {
            table: _about(results[results["panel"] == panel], family, results)
            for panel, (table, family) in panels.items()
        },
        "machines": {
            "own estimators": f"{manifest['machine']}, Python {manifest['python']}, "
            f"commit {manifest['commit'][:12]}"
        },
        "complete": manifest["profile"] != "smoke" and not manifest["not_run"],
    }
    return with_others(facts, stored)


def _table_of(rows: pd.DataFrame) -> tuple[str, str]:
    """Return the table and the family of a panel; the means of a table are a table of their own."""
    name = str(rows["dataset"].iloc[0]).removeprefix("league_")
    if str(rows["panel"].iloc[0]).endswith(" means"):
        return f"{name} (means)", "means"
    return name, GROUPS[declarations()[name].get("family", "")]


def _about(rows: pd.DataFrame, family: str, results: pd.DataFrame) -> dict[str, Any]:
    """Return facts of a table; the constant of means is the declared centers, whose error ``zero`` has."""
    dataset = str(rows["dataset"].iloc[0])
    of_zero = results[(results["dataset"] == dataset) & (results["estimator"] == ZERO)]
    return {
        "family": family,
        "source": get_dataset(dataset).citation.removesuffix("."),
        "n": int(rows["n"].iloc[0]),
        "d": int(rows["d"].iloc[0]) - (family != "means"),
        "developed": family != "means" and developed_on(dataset),
        "constant": 1.0 if family != "means" or of_zero.empty else float(of_zero["value"].mean()),
    }


def _audits(results: pd.DataFrame, names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield at the headline's ε what attacks and the accountant prove."""
    epsilon = SETTINGS["headline"]["epsilon"]
    at_headline = results[results["epsilon"] == epsilon]
    for name in names:
        rows = at_headline[at_headline["estimator"] == name]
        proved, certified = rows["audited_epsilon"].max(), rows["estimator_epsilon"].max()
        yield {
            "method": name,
            "violated": bool(proved > epsilon),
            **({} if pd.isna(proved) else {"proved": float(proved)}),
            **({} if pd.isna(certified) else {"replayed": float(certified)}),
        }


def _file_of(name: str) -> str:
    return f"{dpalgos.get_estimator(name).module.replace('.', '/')}.py"


def history_line(results: dict[str, Any], about: dict[str, Any], changed: str) -> list[str]:
    """Return a run's line: when, which code, how our methods did, and what changed in them since the last."""
    found = comparisons(results)
    counts = []
    for means, developed in ((False, False), (False, True), (True, False)):
        own = [
            each.verdict
            for each in found
            if (each.family == "means") is means and results["tables"][each.table]["developed"] is developed
        ]
        listed = " / ".join(str(own.count(verdict)) for verdict in _COUNTS)
        counts.append(f"{listed} of {len(own)}" if own else "–")
    return [about["finished"][:10], measured_by(results), *counts, changed]


def store(folder: Path, changed: str, file: Path = FILE, history: Path = HISTORY) -> None:
    """Write the short form of a run's results, and its line of the history."""
    manifest, stored = read_json(folder / "manifest.json"), lengthened(read_json(file))
    results = league_of(pd.read_parquet(folder / "results.parquet"), manifest, stored)
    results = lengthened(shortened(results))  # of these digits: verdicts of others may differ
    # The command names files of the clone, wherever it lies.
    about = {"command": manifest["command"].replace(f"{PROJECT_ROOT}/", ""), "finished": manifest["finished"]}
    about["version"] = f"dpcost {manifest['dpcost']}"
    content = json.dumps(shortened(results) | about, ensure_ascii=False, separators=(",", ":"))
    file.write_text(content + "\n", encoding="utf-8")
    with history.open("a", encoding="utf-8") as lines:
        csv.writer(lines, lineterminator="\n").writerow(history_line(results, about, changed))


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.league.ours", description=__doc__)
    parser.add_argument("changed", help="what changed in our methods since the last published run")
    parser.add_argument("--folder", type=Path, help="the report of a run; default: run the study first")
    options = parser.parse_args(words)
    if options.folder is None:
        dpcost = str(Path(sys.executable).with_name("dpcost"))
        subprocess.run([dpcost, *RUN, "--profile", "paper", "--reps", "30"], check=True)
    store(options.folder or REPORTS / STUDY.stem, options.changed)


if __name__ == "__main__":
    main(sys.argv[1:])
