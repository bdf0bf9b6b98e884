"""What the server's pages show of a run: headline, table and link, and how the budget was spent."""

from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

import pandas as pd

from tasks.report.manifest import budget_split
from tasks.study.spec import StudySpec
from tasks.work_units import Cell


def summary_markdown(report: Path, headline: str, address: str = "") -> str:
    """Return a report's headline, its first table and where the whole of it is.

    That is at ``address``, of the report's folder on a server, or in a file: no browser follows a link from a
    server's page to one.
    """
    lines = report.with_name("report.md").read_text(encoding="utf-8").splitlines()
    after = dropwhile(lambda line: not line.startswith("|"), lines)
    table = "\n".join(takewhile(lambda line: line.startswith("|"), after))
    whole = f"[The whole report]({address}/{report.name})" if address else f"The whole report: `{report}`"
    return f"{headline}\n\n{whole}\n\n{table}\n"


def spent_budget(spec: StudySpec, results: pd.DataFrame, cells: list[Cell]) -> list[dict[str, str]]:
    """Return a row of plain words for each of some private cells, those at the headline's setting."""
    split, by_cell = budget_split(spec), results.drop_duplicates("cell").set_index("cell")
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
