"""The measured figures of the documentation: which code made them, and how a new measurement differs.

``docs/evidence.csv`` has the errors of studies, a row for each estimator, panel, form and ε at the largest
size; ``docs/measured.toml`` names what else was measured, by which command and with which code.
"""

import json
import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from data.store.code_digest import code_digest
from data.store.folders import PROJECT_ROOT
from flows.studies.find_study import find_study
from reports.results import compare_summaries
from tasks.problems.kinds import modules_of
from tasks.problems.problem import RowSource
from tasks.report.manifest import commit

DOCS = PROJECT_ROOT / "docs"
EVIDENCE, MEASURED = DOCS / "evidence.csv", DOCS / "measured.toml"
_ROW = "study panel dataset data_source estimator form epsilon delta_rule n d s mean se n_ok n_failed"
_RUN = ["profile", "replicates", "commit", "started"]
COLUMNS = [*_ROW.split(), *_RUN, "code"]
_SETTING = ["panel", "estimator", "form", "epsilon", "delta_rule", "n", "s"]
_NUMBERS = dict.fromkeys(["epsilon", "n", "s"], float)
_DIGITS = 16  # of a digest
STORED = "%.6g"  # how means and errors are written


@dataclass(frozen=True)
class Figure:
    """Something that the documentation shows: a measurement with a command of its own."""

    name: str
    shown: str  # where: a file below docs, and what in it
    command: str  # with {out} in place of the file that it writes
    file: str  # below docs, which the command makes; empty where its output is read
    minutes: float
    modules: tuple[str, ...]
    code: str  # the digest of the code that measured what is shown
    study: str = ""  # whose stored results the command reads

    @property
    def stale(self) -> bool:
        return self.code != digest(self.modules)


def digest(modules: tuple[str, ...]) -> str:
    """Return the first digits of a digest of the code that begins in some modules."""
    return code_digest(modules, of_page=any(name.startswith("reports") for name in modules))[:_DIGITS]


def figures() -> list[Figure]:
    """Return what the documentation shows besides its evidence."""
    content = tomllib.loads(MEASURED.read_text(encoding="utf-8"))
    return [
        Figure(name=name, **{**told, "modules": tuple(told["modules"])}) for name, told in content.items()
    ]


def facts() -> dict[str, str]:
    """Return what the prose quotes by the role ``{evidence}``, by name: the stored results of benchmarks."""
    found: dict[str, str] = {}
    for path in sorted((DOCS / "measured").glob("*.json")):
        found |= json.loads(path.read_text(encoding="utf-8"))
    return found


def evidence() -> pd.DataFrame:
    return pd.read_csv(EVIDENCE, dtype={"form": str, "delta_rule": str, "code": str}).fillna(
        {"form": "", "delta_rule": "", "code": ""}
    )


def code_of(study: str, panel: str, estimator: str) -> str:
    """Return the digest of the code that a row of a study depends on; empty where there is none such."""
    panels = _problems(study)
    if panel not in panels:
        return ""
    try:
        return digest(tuple(sorted(modules_of(panels[panel], {estimator}))))
    except (LookupError, ValueError):  # the estimator has gone
        return ""


def _codes(study: str, rows: pd.DataFrame) -> list[str]:
    """Return `code_of` for each row of a study."""
    pairs = list(zip(rows.panel, rows.estimator, strict=True))
    code = {pair: code_of(study, *pair) for pair in set(pairs)}
    return [code[pair] for pair in pairs]


@cache
def _problems(study: str) -> dict[str, RowSource]:
    return {panel.name: panel.problem for panel in find_study(study).panels}


def measured(reports: Path, study: str) -> pd.DataFrame:
    """Return the evidence in the report of a study that has just run, with this checkout's code."""
    manifest = json.loads((reports / study / "manifest.json").read_text(encoding="utf-8"))
    manifest["commit"] = commit()
    rows = pd.read_csv(reports / study / "summary.csv", dtype={"form": str, "delta_rule": str})
    rows = _headline(rows).assign(**{key: manifest[key] for key in _RUN})
    rows["code"] = _codes(study, rows)
    rows[["mean", "se"]] = rows[["mean", "se"]].map(lambda value: float(STORED % value))
    return rows[COLUMNS]


def with_measured(shown: pd.DataFrame, again: pd.DataFrame) -> pd.DataFrame:
    """Return evidence with all rows of the studies that were measured again in place of those shown."""
    kept = shown[~shown.study.isin(set(again.study))]
    return pd.concat([kept, again])[COLUMNS].sort_values(COLUMNS[:9])


def _headline(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the least noise, δ below 1/n, and the largest n of every panel."""
    wanted = (rows.metric == "l2_error") & (rows.calibration != "paper") & (rows.status == "ok")
    rows = rows.fillna({"form": "", "delta_rule": ""})
    rows = rows[wanted & (rows.delta_rule != "10/n^1.1")]
    most = rows[rows.epsilon.notna()].groupby("panel").n.max()
    return rows[rows.n == rows.panel.map(most)]


def differences(shown: pd.DataFrame, again: pd.DataFrame) -> dict[str, Any]:
    """Compare what is shown of a study with what was measured again, as two runs are compared."""
    one, other = (
        rows.assign(
            # Numbers as floats: a column is read as one of integers unless a study leaves it empty.
            cell=[":".join(map(str, each)) for each in rows.astype(_NUMBERS)[_SETTING].to_numpy()],
            metric="l2_error",
            status="ok",
            certified_epsilon=math.nan,
        ).sort_values("cell", ignore_index=True)
        for rows in (shown, again)
    )
    compared = ["cell", "mean", "se"]
    return {"identical": one[compared].equals(other[compared]), **compare_summaries(one, other)}


def stale() -> Iterator[tuple[str, str]]:
    """Yield what other code has measured, and the command that measures it again."""
    rows = evidence()
    for study, of_study in rows.groupby("study"):
        codes = zip(_codes(str(study), of_study), of_study.code, strict=True)
        if old := sum(now != code for now, code in codes):
            yield f"{old} of {len(of_study)} rows of {study} in evidence.csv", f"dpcost reproduce {study}"
    for figure in figures():
        if figure.stale:
            yield figure.shown, f"dpcost reproduce {figure.name}"
