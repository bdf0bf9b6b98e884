"""Artifacts of a run on the server's pages; the report contains the same content."""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any, ParamSpec

import pandas as pd
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.events import emit_event

from data.store.folders import REPORTS, read_json
from flows.local_server import from_server
from flows.progress import say
from reports.results import compare_results
from tasks.cells import Cell
from tasks.errors import SpecError
from tasks.run.collect import read_results
from tasks.study.spec import StudySpec

REPORTS_URL = "DPCOST_REPORTS_URL"  # tells runs where the reports are shown
MAX_ROWS = 200
MAX_CELLS = 20

P = ParamSpec("P")


def _best_effort(function: Callable[P, None]) -> Callable[P, None]:
    """Decorator: log errors of a function that calls the server instead of raising them."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except Exception as error:  # whatever the client raises when the server is away
            say(f"note: the server did not accept an artifact of this run ({type(error).__name__})")

    return call


@_best_effort
def attach_report(spec: StudySpec, report: Path, headline: str) -> None:
    """Attach the report's headline, unless it is about the user's own table: a team may share the server."""
    if spec.analyst_table is not None:
        return
    address = os.environ.get(REPORTS_URL) if from_server() else None
    folder = report.parent.relative_to(REPORTS.resolve()) if address else ""
    create_markdown_artifact(
        key=_key("report", spec.name),
        markdown=summary_markdown(report, headline, f"{address}/{folder}" if address else ""),
        description=spec.title,
    )


def summary_markdown(report: Path, headline: str, address: str = "") -> str:
    """Return a report's headline, its first table and the location of the report.

    ``address`` is the address of its folder on a server. Without an address, the file is named but not
    linked, because browsers follow no link from a server's page to a file.
    """
    lines = report.with_name("report.md").read_text(encoding="utf-8").splitlines()
    after = dropwhile(lambda line: not line.startswith("|"), lines)
    table = "\n".join(takewhile(lambda line: line.startswith("|"), after))
    link = f"[The whole report]({address}/{report.name})" if address else f"The whole report: `{report}`"
    return f"{headline}\n\n{link}\n\n{table}\n"


@_best_effort
def attach_budget(spec: StudySpec, report: Path, results: Path, cells: list[Cell]) -> None:
    """Attach the budget that each private estimator spent at the headline's setting, with its shares."""
    budgets = read_json(report.with_name("manifest.json"))["budgets"]
    split = {(each["estimator"], each["form"]): each["shares"] for each in budgets}
    rows = spent_budget(split, pd.read_parquet(results), cells)
    if rows:
        create_table_artifact(
            key=_key("budget", spec.name),
            table=rows,
            description="Privacy spent at the headline's setting. Research runs charge no ledger.",
        )


def spent_budget(
    split: Mapping[tuple[str, str], Mapping[str, float]], results: pd.DataFrame, cells: list[Cell]
) -> list[dict[str, str]]:
    """Return a table row for each private cell at the headline's setting.

    ``split`` maps estimator and form to the budget shares of their releases.
    """
    by_cell = results.drop_duplicates("cell").set_index("cell")
    rows = []
    for cell in cells:
        if cell.key not in by_cell.index:
            continue
        row, shares = by_cell.loc[cell.key], split.get((cell.estimator, cell.form), {})
        rows.append(
            {
                "estimator": cell.estimator,
                "panel": cell.panel,
                "form": cell.form,
                "noise": cell.calibration,
                "ε asked": f"{cell.epsilon:g}",
                "δ": f"{cell.delta:.3g}",
                "ε certified": _number(row["certified_epsilon"]),
                "ε of the estimator alone": _number(row["estimator_epsilon"]),
                "spent on": ", ".join(f"{label} {share:.0%}" for label, share in shares.items()),
            }
        )
    return rows


def _number(value: Any) -> str:
    return "no answer" if pd.isna(value) else f"{value:.4g}"


def last_results(folder: Path, settings: dict[str, Any]) -> pd.DataFrame | None:
    """Return the results of the last run in a study's folder, if its profile and replicates are the same."""
    with suppress(SpecError, OSError, ValueError):  # there are none, or they are damaged
        if settings.items() <= read_json(folder / "manifest.json").items():
            return read_results(folder)
    return None


def show_drift(spec: StudySpec, folder: Path, before: pd.DataFrame | None) -> None:
    """Report cells that changed by more than their error bars: in a note, an artifact and an event."""
    now = read_results(folder)
    if before is None or before.equals(now):
        return
    different = compare_results(before, now)["different"]
    if not different:
        return
    cells = list(dict.fromkeys(row["cell"] for row in different))
    say(f"note: cells of {spec.name} outside the error bars of the last run: {len(cells)}")
    if spec.analyst_table is None:
        _attach_drift(spec, cells, different)


@_best_effort
def _attach_drift(spec: StudySpec, cells: list[str], different: list[dict[str, Any]]) -> None:
    """Attach the differences, and emit an event without results for automations."""
    create_table_artifact(
        key=_key("drift", spec.name),
        table=[{**row, "reasons": "; ".join(row["reasons"])} for row in different[:MAX_ROWS]],
        description=f"{len(different)} results differ from the last run by more than their error bars",
    )
    emit_event(
        "dpcost.drift",
        resource={"prefect.resource.id": f"dpcost.study.{spec.name}"},
        payload={"n_cells": len(cells), "cells": cells[:MAX_CELLS]},
    )


def _key(kind: str, study: str) -> str:
    return f"{kind}-{re.sub('[^a-z0-9]+', '-', study.lower())}"
