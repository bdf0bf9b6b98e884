"""The measured evidence behind the table of estimators, ``evidence.csv``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

import dpalgos
from flows.studies.find_study import find_study
from generate.measured import DOCS, evidence, facts

# The study that answers each, and the panel, if not all of them.
QUESTIONS = {
    "A linear regression": ("regressions", None),
    "A logistic regression": ("fair", None),
    "A regression of counts": ("rand_visits", None),
    "A mean of many columns": ("mean_comparison", "low-dimensional"),
    "A mean of which few entries differ from zero": ("mean_comparison", "high-dimensional"),
    "A difference between groups of which few columns differ": ("snp", "hapmap 2000 snps"),
    "The same, with public rows of other groups": ("snp", "hapmap public axes"),
    "A sparse regression": ("regression_comparison", None),
    "A regression whose people trust nobody": ("ldp_regression", None),
    "A regression that protects people with all their rows": ("user_regression", None),
}
_CELL = ["study", "panel", "epsilon"]


def pages() -> dict[str, str]:
    rows = evidence()
    questions = {
        question: rows[(rows.study == study) & ((rows.panel == panel) | (panel is None))]
        for question, (study, panel) in QUESTIONS.items()
    }
    questions = {question: part for question, part in questions.items() if len(part)}
    decisions = [_decision(question, part) for question, part in questions.items()]
    columns = ("you want", "take", "intervals", "its error over that of zero", "measured on")
    shown = [_errors(question, part) for question, part in questions.items()]
    intervals = pd.read_csv(DOCS / "intervals.csv", dtype=str, keep_default_na=False)
    intervals = intervals.drop(columns="code", errors="ignore")
    return {
        "evidence/intervals.txt": table(intervals.columns, intervals.to_numpy().tolist()),
        "evidence/decisions.txt": table(columns, decisions),
        "evidence/errors.txt": "\n".join(shown),
        "evidence/compared.txt": _compared(),
        "evidence/unseen.txt": unseen(facts()),
        "studies.txt": _studies(),
    }


def _compared() -> str:
    """Return the table of the page that compares dpcost with other libraries."""
    tasks = {
        "diffprivlib": ("regression", "diffprivlib"),
        "opendp": ("mean", "OpenDP"),
        "smartnoise": ("averages of groups", "SmartNoise SQL"),
        "dp_wizard": ("histogram", "DP Wizard"),
    }
    measures = ("lines", "seconds", "again", "error", "interval")
    values = facts()
    rows = [
        (task, library, *(values[f"compared/{name}/{side}/{measure}"] for measure in measures))
        for name, (task, other) in tasks.items()
        for side, library in (("theirs", other), ("ours", "dpcost"))
    ]
    return table(("task", "library", "lines", "seconds", "further call", "error", "interval"), rows)


def unseen(values: Mapping[str, str]) -> str:
    """Return the table of errors on tables that were not used in development."""
    tables = {key.split("/")[1]: text for key, text in values.items() if key.endswith("/table")}
    if not tables:
        return "Not measured yet.\n"
    columns, others = ("0.3", "1", "3", "10"), ("AdaSSP", "diffprivlib")
    rows = [
        (title, method, *(values[f"unseen/{name}/{method}/{each}"] for each in columns), exact)
        for name, title in tables.items()
        for exact in (values[f"unseen/{name}/no privacy/inf"],)
        for method in ("dpcost", *others)
        if f"unseen/{name}/{method}/1" in values
    ]
    head = ("table", "method", *(f"ε = {each}" for each in columns), "no privacy")
    counts = [f"- dpcost against {other}: {values[f'unseen/against/{other}']} settings" for other in others]
    return "\n".join([table(head, rows), *counts, ""])


def _studies() -> str:
    """Return a table of the studies and their titles."""
    files = sorted((DOCS.parent / "flows" / "studies").glob("*.toml"))
    titles = {file.stem: tomllib.loads(file.read_text(encoding="utf-8"))["title"] for file in files}
    return table(("study", "title"), [(f"`{name}`", title) for name, title in titles.items()])


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = tuple(columns)
    return "\n".join(f"| {' | '.join(row)} |" for row in (columns, ("---",) * len(columns), *rows)) + "\n"


def ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """Return each private error over the least one at that panel and ε, a row for each label."""
    private = rows[rows.epsilon.notna()].copy()
    private["label"] = _labels(private)
    private["ratio"] = private["mean"] / private.groupby(_CELL)["mean"].transform("min")
    return private


def _labels(rows: pd.DataFrame) -> pd.Series:
    return rows.estimator.where(rows.form == "", rows.estimator + ", " + rows.form)


def _geometric_mean(values: pd.Series) -> float:
    return float(np.exp(np.log(values).mean()))


def _decision(question: str, rows: pd.DataFrame) -> tuple[str, ...]:
    """Say which estimator has the least error over the panels, and how far that is below zero's."""
    private = ratios(rows)
    promises = private.estimator.map(lambda name: dpalgos.get_estimator(name).privacy_model)
    strongest = next(model for model in ("local", "user", "central") if (promises == model).any())
    private = private[promises == strongest]
    scores = private.groupby(["epsilon", "label"]).ratio.agg([_geometric_mean, "size"]).reset_index()
    most = scores.groupby("epsilon")["size"].transform("max")
    scores = scores[scores["size"] == most]  # measured on as many panels as any other
    best = scores.loc[scores.groupby("epsilon")._geometric_mean.idxmin()].set_index("epsilon").label
    winner = best.mode().iloc[0]
    name = winner.partition(",")[0]
    entry = dpalgos.get_estimator(name)
    others = [f"{label} at ε = {epsilon:g}" for epsilon, label in best.items() if label != winner]
    take = f"{{doc}}`{winner} </generated/api/{name}>`" + (f"; {', '.join(others)}" if others else "")
    interval = "yes" if entry.has_interval else "no"
    over_zero = _over_zero(rows, private, winner)
    errors = "<br>".join(
        f"ε = {epsilon:g}: {value:.2g}".replace(" ", "\u00a0") for epsilon, value in over_zero.items()
    )
    if min(over_zero.values()) > 1:
        take = f"none of them at these sizes: zero is nearer than {take}"
    return question, take, interval, errors, _tables(rows)


def _tables(rows: pd.DataFrame) -> str:
    tables = rows[["panel", "data_source"]].drop_duplicates()
    kinds = ", ".join(f"{count} {kind}" for kind, count in tables.data_source.value_counts().items())
    sizes = sorted({int(n) for n in rows.n})
    span = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    studies = rows.study.unique()
    return f"{kinds}; {find_study(studies[0]).size_label}: {span}; `dpcost run {' '.join(studies)}`"


def _over_zero(rows: pd.DataFrame, private: pd.DataFrame, winner: str) -> dict[float, float]:
    """Return, for each ε, the error over that of the vector of zeros, geometric mean over the panels."""
    zero = rows[rows.estimator == "zero"].groupby("panel")["mean"].first()
    chosen = private[private.label == winner]
    over = (chosen["mean"] / chosen.panel.map(zero)).groupby(chosen.epsilon).apply(_geometric_mean)
    return {float(epsilon): float(value) for epsilon, value in over.items()}


def _errors(question: str, rows: pd.DataFrame) -> str:
    """Return a table: error over the least private one, geometric mean over the panels, worst in brackets."""
    private = ratios(rows)
    epsilons = sorted(private.epsilon.unique())
    means = private.pivot_table(index="label", columns="epsilon", values="ratio", aggfunc=_geometric_mean)
    worst = private.pivot_table(index="label", columns="epsilon", values="ratio", aggfunc="max")
    lines = []
    for label in means.mean(axis=1).sort_values().index:
        cells = [
            "–" if np.isnan(mean) else f"{mean:.3g} ({worst.at[label, epsilon]:.3g})"
            for epsilon, mean in means.loc[label].items()
        ]
        name = label.partition(", ")[0]
        lines.append((f"{{doc}}`{label} </generated/api/{name}>`", *cells))
    ran = rows[["study", "profile", "replicates", "commit", "started"]].drop_duplicates().astype(str)
    source = "; ".join(
        f"`{run.study}`, profile {run.profile}, {run.replicates} repetitions, {run.started[:10]}, "
        f"commit {run.commit[:8]}"
        for run in ran.itertuples()
    )
    error = (100 * (private.se / private["mean"])).median()
    return "\n".join(
        [
            f"### {question}\n",
            table(("estimator", *(f"ε = {epsilon:g}" for epsilon in epsilons)), lines),
            "",
            f"Measured by {source}. The median standard error of an error is {error:.2g} %.",
            "",
        ]
    )
