"""The measured evidence behind the table of estimators, ``evidence.csv``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

import dpalgos
from data.results.table import LIMIT
from flows.studies.find_study import find_study, readable_studies
from generate.measured import DOCS, evidence, facts
from reports.pages.scorecard import FIGURE_COLUMNS
from reports.writing import commit_text, words
from tasks.scorecard.judging import printed_figures

_NOT_MEASURED = "Not measured yet.\n"
_STRONGEST_FIRST = ("local", "user", "central")  # privacy models
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


def pages() -> dict[str, str]:
    rows = evidence()
    questions = {
        question: rows[(rows.study == study) & ((rows.panel == panel) | (panel is None))]
        for question, (study, panel) in QUESTIONS.items()
    }
    questions = {question: part for question, part in questions.items() if len(part)}
    decisions = [_decision(question, part) for question, part in questions.items()]
    columns = ("you want", "take", "intervals", "its error over that of zero", "measured on")
    texts = [_errors(question, part) for question, part in questions.items()]
    for (question, part), text in zip(questions.items(), texts, strict=True):
        check_complete(question, part, text)
    intervals = pd.read_csv(DOCS / "intervals.csv", dtype=str, keep_default_na=False)
    return {
        "evidence/intervals.txt": table(intervals.columns, intervals.to_numpy().tolist()),
        "evidence/decisions.txt": table(columns, decisions),
        "evidence/errors.txt": "\n".join(texts),
        "evidence/compared.txt": _compared(),
        "evidence/unseen.txt": unseen(facts()),
        "evidence/unseen_people.txt": unseen_people(facts()),
        "studies.txt": _studies(),
        "printed_figures.txt": _printed_figures(),
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
    tables = _tables_in(values, "unseen")
    if not tables:
        return _NOT_MEASURED
    others = [key.split("/")[2] for key in values if key.startswith("unseen/against/")]

    def row(name: str, title: str, epsilon: str) -> list[str]:
        errors = [values.get(f"unseen/{name}/{method}/{epsilon}", "") for method in ("dpcost", *others)]
        return [title if epsilon == "0.3" else "", epsilon, values[f"unseen/{name}/no privacy/inf"], *errors]

    rows = [row(*each, epsilon) for each in tables.items() for epsilon in ("0.3", "1", "3", "10")]
    counts = [f"- dpcost against {other}: {values[f'unseen/against/{other}']} settings" for other in others]
    return "\n".join([table(("table", "ε", "no privacy", "dpcost", *others), rows), *counts, ""])


def unseen_people(values: Mapping[str, str]) -> str:
    """Return the table of errors on tables of persons that were not used in development."""

    def row(name: str, title: str, epsilon: str) -> list[str]:
        numbers = (
            values[f"unseen_people/{name}/{epsilon}/{part}"]
            for part in ("error", "known", "half-width", "contains")
        )
        return [title if epsilon == "1" else "", epsilon, *numbers]

    tables = _tables_in(values, "unseen_people")
    columns = ("table", "ε", "error", "slopes with an interval", "half-width", "contains the other estimate")
    rows = [row(*each, epsilon) for each in tables.items() for epsilon in ("1", "3")]
    return table(columns, rows) if rows else _NOT_MEASURED


def _tables_in(values: Mapping[str, str], benchmark: str) -> dict[str, str]:
    """Return the title of each table of a benchmark."""
    parts = {tuple(key.split("/")): text for key, text in values.items()}
    return {key[1]: text for key, text in parts.items() if key[0] == benchmark and key[-1] == "table"}


def _studies() -> str:
    """Return a table of the studies and their titles."""
    files = sorted((DOCS.parent / "flows" / "studies").glob("*.toml"))
    titles = {file.stem: tomllib.loads(file.read_text(encoding="utf-8"))["title"] for file in files}
    return table(("study", "title"), [(f"`{name}`", title) for name, title in titles.items()])


def _printed_figures() -> str:
    """Return the table of the figures that papers print, with the shapes of the last measured scorecard."""
    path = DOCS / "measured" / "printed_figures.csv"
    stored = pd.read_csv(path, keep_default_na=False).to_dict("records") if path.exists() else []
    shapes = {(row["study"], row["name"]): row for row in stored}
    rows = []
    for figure in printed_figures(readable_studies(), {}):
        measured = shapes.get((figure.study, figure.name), {"shape": "not measured", "why": ""})
        rows.append(replace(figure, shape=measured["shape"], why=measured["why"]).cells)
    return table(FIGURE_COLUMNS, rows)


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = tuple(columns)
    return "\n".join(f"| {' | '.join(row)} |" for row in (columns, ("---",) * len(columns), *rows)) + "\n"


def comparisons(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the errors of a question, a table per set of panels that have the same estimators at each ε.

    A row is an estimator with its form, of the strongest privacy model, or zero, at a panel and an ε;
    ``ratio`` is its error over the smallest one there, and ``spread`` the standard error of its logarithm.
    """
    private = rows[rows.epsilon.notna() & (rows.epsilon != LIMIT)].assign(label=_labels)
    models = _privacy_models(private)
    strongest = next(model for model in _STRONGEST_FIRST if (models == model).any())
    private = private[models == strongest]
    settings = private[["panel", "epsilon"]].drop_duplicates()
    zero = rows[rows.estimator == "zero"].drop_duplicates("panel").drop(columns="epsilon")
    both = pd.concat([private, zero.assign(label="zero").merge(settings, on="panel")], ignore_index=True)
    both["ratio"] = both["mean"] / both.groupby(["panel", "epsilon"])["mean"].transform("min")
    both["spread"] = both["se"].fillna(0) / both["mean"]
    pairs = {
        panel: frozenset(zip(part.label, part.epsilon, strict=True)) for panel, part in both.groupby("panel")
    }
    same = both.panel.map(pairs)
    return [both[same == each] for each in dict.fromkeys(same)]


def _privacy_models(rows: pd.DataFrame) -> pd.Series:
    """Return the privacy models of measured estimators, as their panels protect rows or people."""
    specs = {study: find_study(study) for study in rows.study.unique()}
    people = {(name, each.name) for name, spec in specs.items() for each in spec.panels
              if each.problem.traits.of_people}  # fmt: skip
    keys = zip(rows.study, rows.panel, rows.estimator, strict=True)
    units = [
        dpalgos.get_estimator(name).for_unit(people=(study, panel) in people) for study, panel, name in keys
    ]
    return pd.Series([each.privacy_model for each in units], rows.index)


def check_complete(question: str, rows: pd.DataFrame, text: str) -> None:
    """Refuse a table that lacks an estimator which was measured with the strongest privacy model."""
    private = rows[rows.epsilon.notna()]
    models = _privacy_models(private)
    strongest = next(model for model in _STRONGEST_FIRST if (models == model).any())
    names = private.estimator[models == strongest].unique()
    if missing := [name for name in names if f"/{name}>`" not in text]:
        raise LookupError(f"{question}: {words(missing)} was measured and is missing from the table")


def _labels(rows: pd.DataFrame) -> pd.Series:
    return rows.estimator.where(rows.form.isin(("",)) | rows.form.isna(), rows.estimator + ", " + rows.form)


def _geometric_mean(values: pd.Series) -> float:
    return float(np.exp(np.log(values).mean()))


def best(group: pd.DataFrame) -> dict[float, list[str]]:
    """Return, for each ε, the labels of the smallest errors, within two standard errors of the difference."""
    labels = {}
    for epsilon, part in group.groupby("epsilon"):
        by_label = part.groupby("label")
        scores = by_label.ratio.apply(lambda ratio: float(np.log(ratio).mean())).sort_values()
        errors = by_label.spread.apply(lambda spread: float(np.sqrt((spread**2).sum()) / len(spread)))
        first = scores.index[0]
        margins = 2 * np.hypot(errors[scores.index], errors[first])
        labels[float(epsilon)] = [str(label) for label in scores.index[scores - scores[first] <= margins]]
    return labels


def _decision(question: str, rows: pd.DataFrame) -> tuple[str, ...]:
    """Say which estimator has the smallest error on each set of panels, and how far that is below zero's."""
    groups, takes, errors, intervals = comparisons(rows), [], [], []
    for group in groups:
        winners = best(group)
        chosen = pd.Series([label for labels in winners.values() for label in labels]).mode()
        winner = next(label for labels in winners.values() for label in labels if label in set(chosen))
        others = [
            f"{' or '.join(labels[:2])} at ε = {e:g}" for e, labels in winners.items() if winner not in labels
        ]
        others += [
            f"no better than zero at ε = {e:g}"
            for e, labels in winners.items()
            if "zero" in labels and winner in labels and winner != "zero"
        ]
        where = f"{words(sorted(group.panel.unique()))}: " if len(groups) > 1 else ""
        takes.append(where + "; ".join([_link(winner), *others]))
        errors += [where + _over_zero(group, winner)] if "zero" in set(group.label) else []
        entry = dpalgos.get_estimator(winner.partition(",")[0])
        intervals.append("yes" if entry.has_interval else "no")
    return (
        question,
        "<br>".join(takes),
        ", ".join(dict.fromkeys(intervals)),
        "<br>".join(errors),
        _tables(rows),
    )


def _link(label: str) -> str:
    if label == "zero":
        return "none of them: `zero` is nearer"
    return f"{{doc}}`{label} </generated/api/{label.partition(',')[0]}>`"


def _tables(rows: pd.DataFrame) -> str:
    tables = rows[["panel", "data_source"]].drop_duplicates()
    kinds = ", ".join(f"{count} {kind}" for kind, count in tables.data_source.value_counts().items())
    sizes = sorted({int(n) for n in rows.n})
    span = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    studies = rows.study.unique()
    return f"{kinds}; {find_study(studies[0]).size_label}: {span}; `dpcost run {' '.join(studies)}`"


def _over_zero(group: pd.DataFrame, winner: str) -> str:
    """Return, for each ε, the error over that of the vector of zeros, geometric mean over the panels."""
    errors = group.pivot_table(index=["panel", "epsilon"], columns="label", values="mean")
    over = (errors[winner] / errors["zero"]).groupby("epsilon").apply(_geometric_mean)
    return "<br>".join(f"ε = {e:g}: {value:.2g}".replace(" ", "\u00a0") for e, value in over.items())


def _errors(question: str, rows: pd.DataFrame) -> str:
    """Return tables: error over the smallest one, geometric mean over the panels, worst in brackets."""
    parts = [f"### {question}\n"]
    for group in comparisons(rows):
        means = group.pivot_table(index="label", columns="epsilon", values="ratio", aggfunc=_geometric_mean)
        worst = group.pivot_table(index="label", columns="epsilon", values="ratio", aggfunc="max")
        lines = [
            (
                "`zero`" if label == "zero" else _link(label),
                *(
                    "–" if np.isnan(mean) else f"{mean:.3g} ({worst.at[label, epsilon]:.3g})"
                    for epsilon, mean in means.loc[label].items()
                ),
            )
            for label in means.mean(axis=1).sort_values().index
        ]
        parts += [f"Panels: {words(sorted(group.panel.unique()))}.", ""]
        parts += [table(("estimator", *(f"ε = {epsilon:g}" for epsilon in means.columns)), lines), ""]
    ran = rows[["study", "profile", "replicates", "commit", "started"]].drop_duplicates().astype(str)
    source = "; ".join(
        f"`{run.study}`, profile {run.profile}, {run.replicates} repetitions, {run.started[:10]}, "
        f"commit {commit_text(str(run.commit))}"
        for run in ran.itertuples()
    )
    private = rows[rows.epsilon.notna()]
    error = (100 * (private.se / private["mean"])).median()
    return "\n".join(
        [*parts, f"Measured by {source}. The median standard error of an error is {error:.2g} %.", ""]
    )
