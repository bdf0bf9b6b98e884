"""The measured figures of the documentation, with the version and time of their measurement.

``docs/evidence.csv`` has the errors of studies: one row per estimator, panel, form and ε at the largest size.
``docs/measured.toml`` lists all other figures with their command. A figure is stale if estimates at
fixed seeds changed since (``tests/golden/estimates.csv``), or if its version is older than the last release.
"""

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from packaging.version import Version

from data.results.comparison import compare_summaries
from data.store.folders import PROJECT_ROOT
from tasks.report.manifest import commit

DOCS = PROJECT_ROOT / "docs"
EVIDENCE, MEASURED = DOCS / "evidence.csv", DOCS / "measured.toml"
CHANGELOG, ESTIMATES = PROJECT_ROOT / "CHANGELOG.md", PROJECT_ROOT / "tests" / "golden" / "estimates.csv"
_ROW = "study panel dataset data_source estimator form epsilon delta_rule n d s mean se n_ok n_failed"
_RUN = ["profile", "replicates", "commit", "started"]
COLUMNS = [*_ROW.split(), *_RUN, "version"]
_SETTING = ["panel", "estimator", "form", "epsilon", "delta_rule", "n", "s"]
_NUMBERS = dict.fromkeys(["epsilon", "n", "s"], float)
NEVER = "9999"  # the estimates of an estimator without a row are not known
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
    estimators: tuple[str, ...]
    version: str  # empty if unknown
    measured: str  # when, as in ISO 8601, in UTC
    study: str = ""  # the study whose stored results the command reads

    @property
    def fault(self) -> str:
        return fault_of(self.estimators, self.version, self.measured)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def last_release() -> Version:
    """Return the version of the first section of the changelog."""
    heading = re.search(r"^## (\S+) \(", CHANGELOG.read_text(encoding="utf-8"), re.MULTILINE)
    assert heading is not None
    return Version(heading[1])


@cache
def changes() -> dict[str, str]:
    """Return when the estimates of an estimator at fixed seeds changed last, by its name."""
    rows = pd.read_csv(ESTIMATES, dtype=str)
    return dict(rows.groupby("estimator")["changed"].max())


def fault_of(estimators: Iterable[str], version: str, measured: str) -> str:
    """Say why a figure must be measured again; empty if it need not be."""
    if not version:
        return "by an unknown version"
    if Version(Version(version).base_version) < last_release():
        return f"by version {version}, which is older than {last_release()}"
    others = [name for name in dict.fromkeys(estimators) if changes().get(name, NEVER) > measured]
    return f"before the estimates of {', '.join(others)} changed" if others else ""


def figures() -> list[Figure]:
    """Return all figures except those of evidence.csv."""
    content = tomllib.loads(MEASURED.read_text(encoding="utf-8"))
    return [
        Figure(name=name, **{**settings, "estimators": tuple(settings["estimators"])})
        for name, settings in content.items()
    ]


def facts() -> dict[str, str]:
    """Return the benchmark results that the prose quotes by the role ``{evidence}``, by name."""
    values: dict[str, str] = {}
    for path in sorted((DOCS / "measured").glob("*.json")):
        values |= json.loads(path.read_text(encoding="utf-8"))
    return values


def evidence() -> pd.DataFrame:
    texts = ("form", "delta_rule", "version")
    return pd.read_csv(EVIDENCE, dtype=dict.fromkeys(texts, str)).fillna(dict.fromkeys(texts, ""))


def measured(reports: Path, study: str) -> pd.DataFrame:
    """Return the evidence in the report of a study that has just run with this checkout's code."""
    manifest = json.loads((reports / study / "manifest.json").read_text(encoding="utf-8"))
    manifest["commit"] = commit()
    rows = pd.read_csv(reports / study / "summary.csv", dtype={"form": str, "delta_rule": str})
    rows = _headline(rows).assign(**{key: manifest[key] for key in _RUN})
    rows["version"] = manifest["dpcost"]
    rows[["mean", "se"]] = rows[["mean", "se"]].map(lambda value: float(STORED % value))
    return rows[COLUMNS]


def with_measured(stored: pd.DataFrame, again: pd.DataFrame) -> pd.DataFrame:
    """Return evidence in which new rows replace the rows of all studies that were measured again."""
    unchanged = stored[~stored.study.isin(set(again.study))]
    return pd.concat([unchanged, again])[COLUMNS].sort_values(COLUMNS[:9])


def _headline(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the tight calibration, δ below 1/n, and the largest n of every panel."""
    is_headline = (rows.metric == "l2_error") & (rows.calibration != "paper") & (rows.status == "ok")
    rows = rows.fillna({"form": "", "delta_rule": ""})
    rows = rows[is_headline & (rows.delta_rule != "10/n^1.1")]
    most = rows[rows.epsilon.notna()].groupby("panel").n.max()
    return rows[rows.n == rows.panel.map(most)]


def differences(stored: pd.DataFrame, again: pd.DataFrame) -> dict[str, Any]:
    """Compare the shown rows of a study with new rows, as two runs are compared."""
    one, other = (
        rows.assign(
            # Numbers as floats: a column is read as integers unless a study leaves it empty.
            cell=[":".join(map(str, each)) for each in rows.astype(_NUMBERS)[_SETTING].to_numpy()],
            metric="l2_error",
            status="ok",
            certified_epsilon=math.nan,
        ).sort_values("cell", ignore_index=True)
        for rows in (stored, again)
    )
    compared = ["cell", "mean", "se"]
    return {"identical": one[compared].equals(other[compared]), **compare_summaries(one, other)}


def stale() -> Iterator[tuple[str, str, str]]:
    """Yield each figure to measure again, the reason, and the command that does it."""
    for study, rows in evidence().groupby("study"):
        of_rows = zip(rows.estimator, rows.version, rows.started, strict=True)
        faults = Counter(fault_of([name], version, at) for name, version, at in of_rows)
        place = f"{faults.total() - faults.pop('', 0)} of {len(rows)} rows of {study} in evidence.csv"
        if faults:
            yield place, "; ".join(faults), f"{AGAIN} {study}"
    for figure in figures():
        if figure.fault:
            yield figure.place, figure.fault, f"{AGAIN} {figure.name}"
