"""Coefficients of one or several private releases as a table for publication, in six formats."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from dpalgos.formula.code import INTERCEPT
from reports.render import PageTable, render_table
from reports.visible import visible
from reports.writing import interval_text, num, num_in, spreadsheet_text, words

FORMATS = ("txt", "md", "csv", "tex", "html", "docx")
INTERCEPTS = (INTERCEPT, "at the centers")  # terms that are no effect, and have no ratio
_LIMITS = "ci_low", "ci_high"
_RATIOS = {"odds_ratio": "odds ratio", "rate_ratio": "rate ratio", "hazard_ratio": "hazard ratio"}
_ESCAPED = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
)
_TEX = str.maketrans(
    {
        "ε": r"$\varepsilon$",
        "δ": r"$\delta$",
        "−": "$-$",
        "×": r"$\times$",
        "<": "$<$",
        ">": "$>$",
        "|": r"\textbar{}",
        '"': "''",
    }
    | {raised: f"$^{{{plain}}}$" for raised, plain in zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+", strict=True)}
)
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # in XML


@dataclass(frozen=True, kw_only=True)
class ResultColumn:
    """A release as a column of a table.

    ``rows`` are dictionaries with term, estimate, std_error, ci_low, ci_high, p_value and note. Rows of
    logistic and Poisson regressions also have a ratio with its limits. A value is None where there is no
    number. ``footer`` is shown below the terms. ``notes`` say what was protected, and how the table is read.
    """

    title: str
    rows: Sequence[Mapping[str, Any]]
    level: float | None
    footer: Mapping[str, str]
    notes: Sequence[str]
    n_of_mean: str = ""  # the sample size, if the rows are means, which are not compared with zero
    of_responses: str = "mean"  # or what the rows are instead
    by_group: PageTable | None = None  # a table by group, which has a form of its own


def table_of(models: Sequence[ResultColumn]) -> PageTable:
    if (first := models[0]).by_group:
        notes = [*first.by_group.notes, " ".join(first.notes)]
        return replace(first.by_group, caption=first.title, notes=notes)
    if all(model.n_of_mean for model in models):
        return _means(models)
    return _one(models[0]) if len(models) == 1 else _side_by_side(models)


def _one(model: ResultColumn) -> PageTable:
    ratio, has_interval = _ratio(model), model.level is not None
    interval = [f"{100 * (model.level or 0):g}% interval"] * has_interval
    head = ["", "estimate", *["std. error"] * has_interval, *interval, *["p"] * has_interval]
    head += [_RATIOS[ratio], *interval] if ratio else []
    rows = []
    for row in model.rows:
        cells = [row["term"], _number(row, "estimate", *_LIMITS)]
        if has_interval:
            cells += [_number(row, "std_error"), _interval(row, *_LIMITS), _p_value(row)]
        if ratio:
            cells.append(_number(row, ratio, f"{ratio}_low", f"{ratio}_high"))
            cells += [_interval(row, f"{ratio}_low", f"{ratio}_high")] if has_interval else []
        rows.append(cells)
    footer = [[name, value, *[""] * (len(head) - 2)] for name, value in model.footer.items()]
    notes = [*_missing(model), *filter(None, [" ".join(model.notes)])]
    return PageTable(head, rows + footer, model.title, notes=notes)


def _means(models: Sequence[ResultColumn]) -> PageTable:
    """Return a row for each variable, with its mean or robust location, interval, sample size and ε."""
    levels = dict.fromkeys(f"{100 * model.level:g}% interval" for model in models if model.level)
    of_responses = words(dict.fromkeys(model.of_responses for model in models))
    head, rows = ["", of_responses, words(levels) or "interval", "n"], []
    has_budget = any("ε" in model.footer for model in models)
    for model in models:
        budget = [model.footer.get("ε", "")] * has_budget
        for row in model.rows:
            number, interval = _number(row, "estimate", *_LIMITS), _interval(row, *_LIMITS)
            rows.append([row["term"], number, interval, model.n_of_mean, *budget])
    notes = dict.fromkeys([*(note for each in models for note in _missing(each)), *_footnotes(models)])
    title = models[0].title if len(models) == 1 else ""
    return PageTable([*head, *["ε"] * has_budget], rows, title, notes=[*filter(None, notes)])


def _side_by_side(models: Sequence[ResultColumn]) -> PageTable:
    models = _numbered(models)
    terms = list(dict.fromkeys(row["term"] for model in models for row in model.rows))
    by_term = [{row["term"]: row for row in model.rows} for model in models]
    rows = []
    for term in terms:
        cells = [known.get(term) for known in by_term]
        rows.append([term, *("" if row is None else _number(row, *_keys(row)) for row in cells)])
        if any(model.level is not None for model in models):
            rows.append(["", *("" if row is None else _interval(row, *_keys(row)[1:]) for row in cells)])
    names = list(dict.fromkeys(name for model in models for name in model.footer))
    footer = [[name, *(model.footer.get(name, "") for model in models)] for name in names]
    notes = [*filter(None, map(_unit_note, models)), *_footnotes(models)]
    return PageTable(["", *(model.title for model in models)], rows + footer, notes=notes)


def _footnotes(models: Sequence[ResultColumn]) -> list[str]:
    """Return each note once; those that all models share first, others with the titles of their models."""
    titles: dict[str, list[str]] = {}
    for model in models:
        for note in model.notes:
            titles.setdefault(note, []).append(model.title)
    shared = " ".join(note for note, owners in titles.items() if len(owners) == len(models))
    others = [f"{words(owners)}: {note}" for note, owners in titles.items() if len(owners) < len(models)]
    return [*filter(None, [shared]), *others]


def _unit_note(model: ResultColumn) -> str:
    """Say for which terms the column has ratios, and for which logarithms."""
    name = _ratio(model)
    logs = [row["term"] for row in model.rows if row.get(name) is None]
    logarithms = f", except {words(logs)} (logarithms)" if logs else ""
    return f"{model.title}: {_RATIOS[name]}s{logarithms}." if name else ""


def _ratio(model: ResultColumn) -> str:
    return next((name for name in _RATIOS if any(name in row for row in model.rows)), "")


def _numbered(models: Sequence[ResultColumn]) -> Sequence[ResultColumn]:
    """Return the models, with numbers in front of their titles if two have the same title."""
    if len({model.title for model in models}) == len(models):
        return models
    return [replace(model, title=f"({i}) {model.title}") for i, model in enumerate(models, 1)]


def _keys(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the keys of the number that a narrow column shows of a row, and of its limits."""
    ratio = next((name for name in _RATIOS if row.get(name) is not None), "")
    return (ratio, f"{ratio}_low", f"{ratio}_high") if ratio else ("estimate", *_LIMITS)


def _missing(model: ResultColumn) -> list[str]:
    """List the terms of which nothing, or no sign, is known."""
    terms_by_reason: dict[str, list[str]] = {}
    for row in model.rows:
        if row["note"] and model.level is not None:
            terms_by_reason.setdefault(row["note"], []).append(row["term"])
    return [f"{note[0].upper()}{note[1:]}: {', '.join(terms)}." for note, terms in terms_by_reason.items()]


def _number(row: Mapping[str, Any], name: str, low: str = "", high: str = "") -> str:
    """Write a number of a row with the digits that its interval needs."""
    if row.get(name) is None:
        return ""
    return num(row[name]) if row.get(low) is None else num_in(row[name], row[low], row[high])


def _interval(row: Mapping[str, Any], low: str, high: str) -> str:
    if row.get(low) is None:
        return ""
    return interval_text(row[low], row[high])


def _p_value(row: Mapping[str, Any]) -> str:
    return "" if row["p_value"] is None else p_text(row["p_value"])


def p_text(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def render_coefficients(models: Sequence[ResultColumn], ending: str) -> bytes:
    """Return the table in one of `FORMATS`."""
    table = _with_texts(table_of(models), visible)  # names may come from somebody else
    if ending == "docx":
        return _docx(table)
    if ending == "csv":
        return _csv(models)
    if ending in ("html", "md"):
        return render_table(table, "html" if ending == "html" else "markdown").encode()
    return (_latex(table) if ending == "tex" else text_of_table(table)).encode()


def _with_texts(table: PageTable, change: Callable[[str], str]) -> PageTable:
    """Return a table with each of its texts changed."""
    rows = [[replace(cell, text=change(cell.text)) for cell in row] for row in table.cells]
    columns, notes = ([*map(change, each)] for each in (table.columns, table.notes))
    return replace(table, rows=rows, columns=columns, notes=notes, caption=change(table.caption))


def _frame(table: PageTable) -> pd.DataFrame:
    names = [row[0] for row in table.texts]
    return pd.DataFrame(
        [row[1:] for row in table.texts], index=names, columns=list(table.columns[1:]), dtype=str
    )


def text_of_table(table: PageTable) -> str:
    """Return a table as plain text."""
    lines = [line.rstrip() for line in _frame(table).to_string().splitlines()]
    return "\n".join([*filter(None, [table.caption]), *lines, *table.notes]) + "\n"


def _csv(models: Sequence[ResultColumn]) -> bytes:
    """Return all numbers, unrounded, a row for each term; of several models, the first column says which."""
    named = [{"release": model.title, **row} for model in _numbered(models) for row in model.rows]
    table = pd.DataFrame(named, dtype=object).drop(columns=["release"] * (len(models) == 1))
    if all(model.n_of_mean for model in models):
        sizes = [model.n_of_mean.replace(",", "") for model in models for _ in model.rows]
        table = table.drop(columns="p_value", errors="ignore").assign(n=sizes)
    return table.map(spreadsheet_text).to_csv(index=False, lineterminator="\r\n").encode()


def _latex(table: PageTable) -> str:
    table = _with_texts(table, lambda text: text.translate(_ESCAPED))
    text = _frame(table).to_latex(
        escape=False,
        column_format="l" + "r" * (len(table.columns) - 1),
        caption=table.caption or None,
        position="htbp",
    )
    text = re.sub(r"(?m)^(?=[\[*])", "{}", text)  # or the line above would take it for its option
    notes = [rf"\\{{\footnotesize {each}\par}}" for each in table.notes]
    text = text.replace(r"\end{table}", "\n".join([*notes, r"\end{table}"]))
    return f"% needs \\usepackage{{booktabs}}\n{text}".translate(_TEX)


def _docx(table: PageTable) -> bytes:
    from docx import Document

    document = Document()
    if table.caption:
        document.add_paragraph(_FORBIDDEN.sub("\ufffd", table.caption), style="Caption")
    grid = document.add_table(rows=0, cols=len(table.columns))
    for row in [table.columns, *table.texts]:
        for cell, text in zip(grid.add_row().cells, row, strict=True):
            cell.text = _FORBIDDEN.sub("\ufffd", text)
    for each in table.notes:
        document.add_paragraph(_FORBIDDEN.sub("\ufffd", each))
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()
