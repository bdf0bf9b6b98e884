"""The tables of a study's page."""

from __future__ import annotations

import math
from collections.abc import Collection

import pandas as pd

from reports import palette
from reports.headline import NOISE_LIMITS, condition
from reports.ranking import clearly_below, rank
from reports.render import PageTable, TableCell
from reports.series import CALIBRATION_WORDS, Series, Setting, View, place
from reports.writing import count_of, error_bar, num, setting, short, span, words

# What a mark next to a name or a number stands for, and a cell that was not run.
REMARKS = {
    "unprotected": "not private: one step adds no noise, so no finite ε is certified",
    "prepared": "prepared with all rows: that step is not private and not counted in ε",
    "too small": "too little noise: certified ε above the target",
    "too large": "more noise than the guarantee needs: certified ε below the target",
    "some failed": "some repetitions failed or were refused; the mean is over the others",
    "not run": "not part of the profile that ran",
}
_CERTIFIED, _AUDITED = "certified ε", "audited ε ≥"
_LEGEND = (
    "Mean error ± standard error; lower is better.",
    "Bold: the best private estimate, and those within two standard errors, if clearly better than zero.",
    "Gray: worse than the zero baseline.",
)
_EXPOSED = (
    "δ·{}: the number of rows that the guarantee would allow to be published outright, marked from 1 on."
)


def setting_title(view: View, where: Setting) -> str:
    """Write a setting with its panel: "ε = 0.5, δ = 10/m¹·¹, preparation “public”"."""
    return condition(view, where) + (f", {view.page.panel_word} “{where.panel}”" if where.panel else "")


def error_table(view: View, where: Setting) -> PageTable:
    """Return mean errors by series and size at one setting, with δ times the size and the certified ε."""
    series, page = view.series(where), view.page
    xs = sorted({p.x for s in series for p in s.points})
    notes: dict[str, str] = {}
    best = {x: rank(series, x).best_or_tied for x in xs}
    zero = {x: _zero(series, x) for x in xs}
    audited = any(math.isfinite(p.audited) for s in series for p in s.points)
    exposed = [_exposed(series, x) for x in xs]
    rows: list[list[str | TableCell]] = []
    if any(cell.text for cell in exposed):
        blank = [TableCell("")] * (2 if audited else 1)
        rows.append([f"δ·{page.axis.rows_symbol}", *exposed, *blank])
    for item in series:
        name = TableCell(
            item.name,
            CALIBRATION_WORDS.get(item.calibration, ""),
            flags="".join(sorted(_mark(notes, remark) for remark in _remarks(view, where, item))),
            slot=palette.slot(item.info.order, item.form_index) if item.role == "private" else None,
            hollow=item.calibration == "paper",
        )
        proved = [_epsilon(item, [p.certified for p in item.points])]
        proved += [_epsilon(item, [p.audited for p in item.points])] if audited else []
        rows.append([name, *(_cell(item, x, best[x], zero[x], notes) for x in xs), *proved])
    exposure = [_EXPOSED.format(page.axis.rows_symbol)] if any(cell.text for cell in exposed) else []
    return PageTable(
        ("Estimator", *map(setting, xs), _CERTIFIED, *([_AUDITED] if audited else [])),
        rows,
        f"Error by {page.axis.label}; {setting_title(view, where)}",
        key=tuple((letter, text) for text, letter in notes.items()),
        notes=(*_LEGEND, *exposure),
        links={_CERTIFIED: "#certified", _AUDITED: "#certified"},
    )


def _mark(notes: dict[str, str], text: str) -> str:
    """Return the letter of a remark, in the order of first use."""
    return notes.setdefault(text, chr(ord("a") + min(len(notes), 25)))


def _zero(series: tuple[Series, ...], x: float) -> float:
    """Return the zero vector's error at a size, or at the nearest one where it was run."""
    points = [p for s in series if s.role == "zero" for p in s.points if p.answered]
    return min(points, key=lambda p: abs(math.log(p.x / x))).mean if points else math.nan


def _cell(
    series: Series, x: float, best: Collection[Series], zero: float, notes: dict[str, str]
) -> TableCell:
    point = series.at(x)
    if point is None:
        return TableCell("not run", kind="missing", title=REMARKS["not run"])
    if not point.answered:
        word = point.status if point.status in {"failed", "refused"} else "no value"
        return TableCell(word, kind="missing", title=point.message)
    kind = "worse" if series.role in {"private", "unprotected"} and point.mean > zero else ""
    if series.role == "private" and series in best and (math.isnan(zero) or clearly_below(point, zero)):
        kind = "best"
    se = f"± {error_bar(point.se, point.mean)}" if point.se > 0 else ""
    title = f"{count_of(point.n_ok, 'repetition')}; 10–90 %: {num(point.q10)} to {num(point.q90)}"
    marks = [_mark(notes, point.message)] if point.status == "ok" and point.message else []
    if point.n_failed:
        marks.append(_mark(notes, REMARKS["some failed"]))
    return TableCell(num(point.mean), se, kind, title, "".join(sorted(set(marks))))


def _epsilon(series: Series, values: list[float]) -> TableCell:
    if series.role != "private":
        return TableCell("sees no data" if series.role == "zero" else "not private", kind="missing")
    finite = [v for v in values if math.isfinite(v)]
    if not finite:
        return TableCell("none", kind="missing", title="no ε was certified for these cells")
    return TableCell(span(finite))


def _remarks(view: View, where: Setting, series: Series) -> list[str]:
    if series.role == "unprotected":
        return [REMARKS["unprotected"]]
    if series.role != "private":
        return []
    remarks = []
    if where.panel in view.page.unprotected_panels:
        remarks.append(REMARKS["prepared"])
    certified = [p.certified for p in series.points if math.isfinite(p.certified)]
    if certified and max(certified) > where.epsilon * NOISE_LIMITS["too small"]:
        remarks.append(REMARKS["too small"])
    if certified and max(certified) < where.epsilon * NOISE_LIMITS["too large"]:
        remarks.append(REMARKS["too large"])
    return remarks


def _exposed(series: tuple[Series, ...], x: float) -> TableCell:
    """Return δ times the rows: the number of people a mechanism at that δ may expose outright."""
    products = [p.delta * p.n for s in series for p in s.points if p.x == x and math.isfinite(p.delta)]
    if not products:
        return TableCell("")
    return TableCell(short(max(products)), kind="flagged" if max(products) >= 1 else "")


def summary_csv(summary: pd.DataFrame) -> str:
    return summary.to_csv(index=False, lineterminator="\n", float_format="%.10g")


def failure_table(results: pd.DataFrame, view: View) -> PageTable:
    """Group failures and refusals by estimator, noise, form and reason, most frequent first."""
    page = view.page
    bad = place(results[(results["status"] != "ok") & (results["metric"] == page.metric)], page)
    found = []
    keys = ["estimator", "calibration", "form", "status", "message"]
    for (name, calibration, form, status, message), group in bad.groupby(keys, sort=False):
        series = Series(page.estimator(str(name)), str(calibration), str(form), "private", 0, ())
        places = [f"{page.axis.symbol} = {words(setting(x) for x in sorted(set(group['x'])))}"]
        if epsilons := sorted({float(e) for e in group["epsilon"].dropna()}):
            places.append(f"ε = {words(setting(e) for e in epsilons)}")
        panels = [f"“{p}”" for p in dict.fromkeys(group["panel"]) if p]
        if panels:
            places.append(f"{page.panel_word} {words(panels)}")
        n = len(group.drop_duplicates(["cell", "replicate"]))
        found.append((n, (series.label, str(status), str(message), "; ".join(places), f"{n:,}")))
    found.sort(key=lambda pair: (-pair[0], pair[1][0]))
    columns = ("What", "Outcome", "Why", "Where", "Repetitions")
    return PageTable(columns, [row for _, row in found], "Failures and refusals", 4, stacked=True)
