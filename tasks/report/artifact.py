"""What the server's pages show of a run: its report as one Markdown text, and how the budget was spent."""

import base64
import re
from pathlib import Path
from typing import Any

import pandas as pd

from tasks.report.manifest import budget_split
from tasks.study.spec import StudySpec
from tasks.work_units import Cell

_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]*)\)")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?://|#)([^)]*)\)")
MAX_BYTES = 1_000_000  # of all figures together


def standalone_markdown(report: Path, address: str = "") -> str:
    """Return a report's ``report.md`` with its figures embedded, up to `MAX_BYTES`.

    Links lead to ``address``, of the report's folder on a server, or become plain text: no browser follows a
    link from a server's page to a file.
    """
    folder, left = report.parent, MAX_BYTES

    def embedded(match: re.Match[str]) -> str:
        nonlocal left
        alt, name = match.groups()
        picture = (folder / name).read_bytes()
        if len(picture) > left:
            return f"*{alt}*"
        left -= len(picture)
        return f"![{alt}](data:image/png;base64,{base64.b64encode(picture).decode()})"

    text = (folder / "report.md").read_text(encoding="utf-8")
    if address:
        text = _LINK.sub(rf"[\1]({address}/\2)", text)
        whole = f"[The whole report]({address}/{report.name})"
    else:
        text = _LINK.sub(r"\1", text)
        whole = f"The whole report, to be opened in a browser: `{report}`"
    return f"{whole}\n\n{_IMAGE.sub(embedded, text)}"


def spent_budget(spec: StudySpec, results: pd.DataFrame, cells: list[Cell]) -> list[dict[str, str]]:
    """Return a row of plain words for each of some private cells, those at the headline's setting."""
    split, found = budget_split(spec), results.drop_duplicates("cell").set_index("cell")
    rows = []
    for cell in cells:
        if cell.key not in found.index:
            continue
        row, shares = found.loc[cell.key], split.get((cell.estimator, cell.form), {})
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
