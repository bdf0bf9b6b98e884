"""The measured figures of the documentation, the code that measured them, and their reproduction.

``docs/evidence.csv`` has the errors of studies: one row per estimator, panel, form and ε at the largest size.
``docs/measured.toml`` lists all other figures with their command and the digest of their code.
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

from data.results.comparison import compare_summaries
from data.store.code_digest import code_digest
from data.store.folders import PROJECT_ROOT
from flows.studies.find_study import find_study
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
AGAIN = "python -m generate.reproduce"  # from the folder docs
STORED = "%.6g"  # how means and errors are written


@dataclass(frozen=True)
class Figure:
    """A figure of the documentation that has its own command."""

    name: str
    place: str  # a file below docs, and a description
    command: str  # {out} stands for its output file
    file: str  # its output file below docs; empty if the printed output is compared
    minutes: float
    modules: tuple[str, ...]
    code: str  # the digest of the code that measured it
    study: str = ""  # the study whose stored results the command reads

    @property
    def stale(self) -> bool:
        return self.code != digest(self.modules)


def digest(modules: tuple[str, ...]) -> str:
    """Return the first digits of a digest of the code of some modules and their imports."""
    return code_digest(modules, of_page=any(name.startswith("reports") for name in modules))[:_DIGITS]


def figures() -> list[Figure]:
    """Return all figures except those of evidence.csv."""
    content = tomllib.loads(MEASURED.read_text(encoding="utf-8"))
    return [
        Figure(name=name, **{**settings, "modules": tuple(settings["modules"])})
        for name, settings in content.items()
    ]


def facts() -> dict[str, str]:
    """Return the benchmark results that the prose quotes by the role ``{evidence}``, by name."""
    values: dict[str, str] = {}
    for path in sorted((DOCS / "measured").glob("*.json")):
        values |= json.loads(path.read_text(encoding="utf-8"))
    return values


def evidence() -> pd.DataFrame:
    return pd.read_csv(EVIDENCE, dtype={"form": str, "delta_rule": str, "code": str}).fillna(
        {"form": "", "delta_rule": "", "code": ""}
    )


def code_of(study: str, panel: str, estimator: str) -> str:
    """Return the digest of the code that a row of a study depends on, or an empty string."""
    panels = _problems(study)
    if panel not in panels:
        return ""
    try:
        return digest(tuple(sorted(modules_of(panels[panel], {estimator}))))
    except (LookupError, ValueError):  # the estimator does not exist any more
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
    """Return the evidence in the report of a study that has just run with this checkout's code."""
    manifest = json.loads((reports / study / "manifest.json").read_text(encoding="utf-8"))
    manifest["commit"] = commit()
    rows = pd.read_csv(reports / study / "summary.csv", dtype={"form": str, "delta_rule": str})
    rows = _headline(rows).assign(**{key: manifest[key] for key in _RUN})
    rows["code"] = _codes(study, rows)
    rows[["mean", "se"]] = rows[["mean", "se"]].map(lambda value: float(STORED % value))
    return rows[COLUMNS]


def with_measured(shown: pd.DataFrame, again: pd.DataFrame) -> pd.DataFrame:
    """Return evidence in which new rows replace the rows of all studies that were measured again."""
    unchanged = shown[~shown.study.isin(set(again.study))]
    return pd.concat([unchanged, again])[COLUMNS].sort_values(COLUMNS[:9])


def _headline(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the tight calibration, δ below 1/n, and the largest n of every panel."""
    is_headline = (rows.metric == "l2_error") & (rows.calibration != "paper") & (rows.status == "ok")
    rows = rows.fillna({"form": "", "delta_rule": ""})
    rows = rows[is_headline & (rows.delta_rule != "10/n^1.1")]
    most = rows[rows.epsilon.notna()].groupby("panel").n.max()
    return rows[rows.n == rows.panel.map(most)]


def differences(shown: pd.DataFrame, again: pd.DataFrame) -> dict[str, Any]:
    """Compare the shown rows of a study with new rows, as two runs are compared."""
    one, other = (
        rows.assign(
            # Numbers as floats: a column is read as integers unless a study leaves it empty.
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
    """Yield figures that were measured with other code, and the command that measures them again."""
    rows = evidence()
    for study, of_study in rows.groupby("study"):
        codes = zip(_codes(str(study), of_study), of_study.code, strict=True)
        if old := sum(now != code for now, code in codes):
            yield f"{old} of {len(of_study)} rows of {study} in evidence.csv", f"{AGAIN} {study}"
    for figure in figures():
        if figure.stale:
            yield figure.place, f"{AGAIN} {figure.name}"
