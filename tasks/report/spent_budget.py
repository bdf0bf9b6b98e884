"""How private estimators split their budget at the headline's setting."""

from typing import Any

import pandas as pd

from tasks.report.budget_split import budget_split
from tasks.study.spec import StudySpec
from tasks.work_units import Cell


def spent_budget(spec: StudySpec, results: pd.DataFrame, cells: list[Cell]) -> list[dict[str, str]]:
    """Return a row of plain words per private cell.

    Parameters
    ----------
    spec : StudySpec
    results : DataFrame
        The study's results table.
    cells : list of Cell
        Those at the headline's setting.
    """
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
