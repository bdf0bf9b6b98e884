"""The charts of a study: errors against size or ε, one for each metric, with menus for all else."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from data.results.table import LIMIT, TRUE_POSITIVE_RATES
from reports import palette
from reports.cells import (
    Setting,
    is_private,
    nearest_value,
    panels_of,
    rows_at,
    size_at,
)
from reports.charts.drawing import Chart, Picture, banner, draw_chart
from reports.charts.lines import Axes, focus_chart
from reports.page import StudyPage
from reports.palette import Look, guide_look
from reports.ranking import PageHeadline, rank
from reports.writing import render_sentence, rule_text, setting

_LOWER, _HIGHER = "lower is better", "higher is better"
_METRICS = {
    "l2_error": ("ℓ2 error", _LOWER, "log"),
    "rms_error": ("root mean square error of a coordinate", _LOWER, "log"),
    "sup_error": ("largest error of a coordinate", _LOWER, "log"),
    "excess_risk": ("excess risk", _LOWER, "log"),
    "excess_loss": ("excess loss", _LOWER, "log"),
    "log_squared_error": ("logarithm of the squared error", _LOWER, "linear"),
    "misclassification": ("share misclassified", _LOWER, "linear"),
    "signs_right": ("coefficients with the right sign", _HIGHER, "linear"),
    "support_recall": ("share of the support found", _HIGHER, "linear"),
    "coverage": ("share of coordinates covered", "0.95 is promised", "linear"),
    "coverage_without_noise": ("share covered by intervals that ignore the noise", "", "linear"),
    "flagged": ("share of coordinates without an interval", "", "linear"),
    "signs_known": ("share of coordinates whose sign the interval knows", "", "linear"),
    "squared_error_over_half_width": ("squared error over squared half-width", "", "log"),
    "auc": ("area under the ROC curve", _HIGHER, "linear"),
    "pooled_auc": ("AUC of pooled scores", "", "linear"),
    "attack_sum_ratio": ("sum of scores over what an unbiased estimate gives", "", "linear"),
    "outsider_mean": ("mean score of outsiders", "", "linear"),
}
MOST_ROWS = 12_000  # of a page, which are then about a megabyte
SIZES = ("n", "d", "s", "steps")
_SIZE_WORDS = {"n": "rows n", "d": "columns d", "s": "sparsity s", "steps": "steps T", "epsilon": "ε"}
HARDLY_NOISY, THEORY = "Same method, no noise", "Theory"
_ALIKE = ["metric", "panel", "estimator", "form", "calibration", "epsilon", "delta_rule"]
_TOOLTIP = (
    "merge({'title': datum.line, 'n': format(datum.n, ','), 'mean ± standard error': "
    "format(datum.mean, '.3~g') + (isValid(datum.se) ? ' ± ' + format(datum.se, '.2~g') : ''), "
    "'deciles': format(datum.low, '.3~g') + ' to ' + format(datum.high, '.3~g'), "
    "'repetitions': datum.n_ok + (datum.n_failed > 0 ? ', ' + datum.n_failed + ' failed' : '')}, "
    "isValid(datum.certified) ? {'certified ε': format(datum.certified, '.3~g')} : {}, "
    "isValid(datum.audited) ? {'audited ε at least': format(datum.audited, '.3~g')} : {}, "
    "datum.message ? {'note': datum.message} : {})"
)
# Flat lines end where the others do.
_WITHIN: list[Chart] = [
    {"calculate": "isValid(datum[axis]) ? datum.x : null", "as": "own"},
    {"joinaggregate": [{"op": op, "field": "own", "as": op} for op in ("min", "max")]},
    {"filter": "!isValid(datum.min) || (datum.x >= datum.min && datum.x <= datum.max)"},
]
_NUMBERS = ["mean", "se", "low", "high", "certified", "audited"]
_COUNTS = ["n_ok", "n_failed", *SIZES]
_BEST, _LIMIT, _WITHOUT, _ZERO = "best private method", "the same, no noise", "without privacy", "zero"
_LOOKS = {
    _BEST: Look(palette.HUES[0], palette.SOLID, "", palette.HUES[0]),
    _LIMIT: Look(palette.HUES[0], palette.PRINTED_DASH, "", palette.HUES[0]),
    _WITHOUT: Look(palette.NON_PRIVATE, palette.SOLID, "", palette.NON_PRIVATE),
    _ZERO: Look(palette.ZERO_LINE, palette.ZERO_DOTS, "", palette.ZERO_LINE),
}


@dataclass(frozen=True)
class Pictures:
    """The figures of a study, None where nothing is to be drawn; ``live`` has a chart for each metric."""

    main: Picture | None = None
    live: Mapping[str, Chart] | None = None
    left_out: int = 0

    def files(self) -> tuple[Picture, ...]:
        return (self.main,) if self.main else ()


def metric_words(name: str, page: StudyPage) -> tuple[str, str]:
    """Return a metric's label with its direction, and its scale: "log" or "linear"."""
    label, direction, scale = _METRICS.get(name, (name.replace("_", " "), "", "log"))
    if name in TRUE_POSITIVE_RATES:
        at = TRUE_POSITIVE_RATES[name]
        label, direction, scale = f"true positive rate at false positive rate {at:g}", _HIGHER, "linear"
    if page.layout == "attack_page":
        direction = "lower is more private" if direction == _HIGHER else ""
    elif name == page.metric and page.metric_label:
        label = page.metric_label
    return f"{label} ({direction})" if direction else label, scale


def draw_study(page: StudyPage, cells: pd.DataFrame, head: PageHeadline) -> Pictures:
    alt = render_sentence("figure_of_errors", page=page, head=head)
    best = head.ranking.best
    return pictures_of(StudyChart.build(page, cells, head), head, best.line if best else "", alt)


def pictures_of(chart: StudyChart, head: PageHeadline, focus: str, alt: str, title: str = "") -> Pictures:
    """Return a chart's pictures, still and live, with one line in color."""
    page, source = chart.page, chart.page.source_of(head.where.panel)
    return Pictures(
        draw_chart(chart.of_lines(list(chart.looks), focus=focus), "main", alt, source, title=title),
        live={metric_words(name, page)[0]: chart.with_menus(name, focus) for name in chart.values("metric")},
        left_out=chart.left_out,
    )


@dataclass(frozen=True)
class StudyChart:
    """The rows of all cells and guides, the looks of their lines, and what is chosen at the beginning.

    ``axes`` are the quantities that can be the horizontal axis; ``choice`` has a value for each menu.
    """

    page: StudyPage
    rows: pd.DataFrame
    looks: Mapping[str, Look]
    axes: tuple[str, ...]
    choice: Mapping[str, Any]
    left_out: int = 0
    panels: tuple[str, ...] = ()

    @classmethod
    def build(cls, page: StudyPage, cells: pd.DataFrame, head: PageHeadline) -> StudyChart:
        where, panels = head.where, panels_of(cells, page)
        guides = pd.DataFrame(_guides(page))
        cells = cells[cells["metric"].isin(cells.loc[cells["privacy_model"] != "none", "metric"])]
        cells = cells.sort_values("metric", key=lambda names: names != page.metric, kind="stable")
        private = cells[is_private(cells) & (cells["epsilon"] < LIMIT)]
        axes = _axes(private, page.axis.column)
        here = private[(private["panel"] == where.panel) & (private["metric"] == page.metric)]
        has_one_size = len({row.x for row in head.rows}) == 1 and here["epsilon"].nunique() > 1
        defaults = {"n": float(page.headline["n"]), page.axis.column: head.x}
        of_size = [name for name in axes if name in SIZES]
        sizes = {name: nearest_value(here[name].dropna(), defaults.get(name, 1.0)) for name in of_size}
        looks: dict[str, Look] = dict(
            cells.sort_values("rank").drop_duplicates("line")[["line", "look"]].itertuples(index=False)
        )
        rows = cells.head(MOST_ROWS).drop(columns="look")
        rows[["low", "high"]] = rows[["low", "high"]].mask(rows["role"] == "zero")
        rows["of"] = rows["line"].where(rows["epsilon"] == LIMIT)
        if len(silent := rows[rows["of"].notna()]):  # at every ε, while its method is in color
            silent = silent.assign(line=HARDLY_NOISY, epsilon=math.nan, delta_rule="")
            rows = pd.concat([rows[rows["of"].isna()], silent])
            looks[HARDLY_NOISY] = guide_look(palette.PRINTED_DASH)
        if len(guides):
            looks |= dict(zip(guides["line"], guides["look"], strict=True))
            rows = pd.concat([rows, guides.drop(columns="look")])
        choice = {"metric": page.metric, "panel": where.panel, "epsilon": where.epsilon,
                  "delta_rule": where.delta_rule, **sizes,
                  "axis": "epsilon" if "epsilon" in axes and has_one_size else page.axis.column}  # fmt: skip
        return cls(page, rows, looks, axes, choice, max(0, len(cells) - MOST_ROWS), tuple(panels))

    def values(self, key: str) -> list[Any]:
        """Return the values of a quantity that private estimates have."""
        values = self.rows.loc[self.rows["epsilon"].notna() & self.rows["estimator"].notna(), key].dropna()
        listed = values.drop_duplicates().tolist()
        return sorted(listed) if key in (*SIZES, "epsilon") else listed

    def is_log(self, metric: str) -> bool:
        """Return whether a metric has a log axis, where an error of 0 has no place."""
        means = self.rows.loc[self.rows["metric"] == metric, "mean"].dropna()
        return metric_words(metric, self.page)[1] == "log" and bool((means > 0).all())

    def of_lines(
        self,
        lines: Sequence[str],
        *,
        focus: str = "",
        width: float = 620,
        height: int = 360,
        labeled: bool = True,
    ) -> Chart:
        """Return the chart of some lines at the choice, one of them in color, without menus."""
        rows, metric = self.chosen([*lines, HARDLY_NOISY]), self.choice["metric"]
        rows = rows[rows["of"].isna() | (rows["of"] == focus)]
        label = metric_words(metric, self.page)[0] if labeled else ""
        axes = Axes(_axis_words(self.page, self.choice["axis"]), label, sorted(rows["x"].unique()),
                    y_log=self.is_log(metric), width=width, height=height)  # fmt: skip
        looks = {name: look for name, look in self.looks.items() if (rows["line"] == name).any()}
        columns = ["line", "of", "role", "x", "mean", "low", "high", "n_failed"]
        listed = rows.loc[rows["line"].isin(looks), columns].astype(object)
        values = [{str(k): v for k, v in row.items()}
                  for row in listed.where(listed.notna(), None).to_dict("records")]  # fmt: skip
        return focus_chart(values, looks, axes, focus)

    def chosen(self, lines: Sequence[str]) -> pd.DataFrame:
        """Return the rows of some lines at the choice, with their place ``x`` on the axis."""
        rows: pd.DataFrame = self.rows[self.rows["line"].isin(lines)]
        axis = str(self.choice["axis"])
        for key in ["metric", *self._menus()]:
            if key != axis:
                rows = rows[(rows[key] == self.choice[key]) | rows[key].isna() | (rows[key] == "")]
        places = pd.DataFrame({"x": sorted(rows[axis].dropna().astype(float).unique())})
        flat = rows[rows[axis].isna()].merge(places, how="cross")
        on_axis = rows[rows[axis].notna()]
        return pd.concat([on_axis.assign(x=on_axis[axis].astype(float)), flat]).sort_values(["line", "x"])

    def _menus(self) -> list[str]:
        """Return what a menu chooses: all that is fixed where something else is on the axis."""
        sizes = [name for name in self.axes if name in SIZES] if len(self.axes) > 1 else []
        return ["panel", "epsilon", "delta_rule", *sizes]

    def with_menus(self, metric: str, focus: str) -> Chart:
        """Return the live chart of a metric, with a menu for each thing that varies and one line in color."""
        page, menus = self.page, self._menus()
        words: dict[str, Any] = {
            "delta_rule": {
                rule: rule_text(rule, page.axis.rows_symbol) for rule in self.values("delta_rule")
            },
            "panel": {name: page.panel_title(name) for name in self.panels},
            "axis": {name: _axis_words(page, name) for name in self.axes},
        }
        titles = {"panel": page.panel_word.capitalize(), "epsilon": "ε", "delta_rule": "δ"}
        titles |= {"axis": "Axis", **words["axis"], "epsilon": "ε"}
        options = {key: self.values(key) for key in menus} | {"axis": list(self.axes)}
        params: list[Chart] = [
            _menu(key, titles[key], values,
                  [words.get(key, {}).get(value) or (value if isinstance(value, str) else setting(value))
                   for value in values], self.choice[key])
            for key, values in options.items()
        ]  # fmt: skip
        unreal = [name for name in self.panels if page.source_of(name) == "stand-in"]
        params += [{"name": "places", "value": {name: self.values(name) for name in self.axes}},
                   {"name": "home", "value": {**self.choice, "symbol": page.axis.rows_symbol}},
                   {"name": "unreal", "value": unreal},
                   {"name": "axis_labels", "value": words["axis"]}]  # fmt: skip
        fixed = "axis == '{0}' || !datum.{0} || datum.{0} == at_{0}"
        chosen = [fixed.format(key) for key in menus]
        chosen.append(f"!datum.of || datum.of == focus || datum.of == '{THEORY}' && theory")
        if (self.rows["of"] == THEORY).any():
            params.append({"name": "theory", "value": False, "bind": {"input": "checkbox", "name": THEORY}})
        else:
            params.append({"name": "theory", "value": False})
        transform: list[Chart] = [{"filter": each} for each in chosen]
        on_axis = "isValid(datum[axis]) ? [datum[axis]] : places[axis]"
        transform += [{"calculate": on_axis, "as": "x"}, {"flatten": ["x"]}, *_WITHIN]
        log = self.is_log(metric)
        title = {"expr": f"indexof(unreal, at_panel) < 0 ? '' : '{banner('stand-in')}'"}
        axes = Axes({"signal": "axis_labels[axis]"}, title, {"expr": "places[axis]"}, y_log=log,
                    width="container", height=295)  # fmt: skip
        rows = self.rows[self.rows["metric"] == metric]
        table = rows[
            list(dict.fromkeys(["line", "of", "role", *menus, *_NUMBERS, *_COUNTS, "message"]))
        ].copy()
        if log:
            table["low"] = table["low"].mask(table["low"] <= 0, table["mean"])
        table[_NUMBERS] = table[_NUMBERS].map(lambda value: float(f"{value:.5g}"))
        parse = dict.fromkeys([*_NUMBERS, *_COUNTS, "epsilon"], "number")
        looks = {name: look for name, look in self.looks.items() if name in set(rows["line"])}
        chart = focus_chart((), looks, axes, focus, tooltip=_TOOLTIP)
        return {
            **chart,
            "data": {"values": table.to_csv(index=False), "format": {"type": "csv", "parse": parse}},
            "params": [*chart["params"], *params],
            "transform": [*transform, *chart["transform"]],
        }


def _menu(name: str, title: str, values: Sequence[Any], labels: Sequence[str], chosen: Any) -> Chart:
    """Return a parameter; with one value only it has no menu."""
    param = {"name": name if name == "axis" else f"at_{name}", "value": chosen}
    if len(values) < 2:
        return param
    return {
        **param,
        "bind": {"input": "select", "options": list(values), "labels": list(labels), "name": title},
    }


def _axes(private: pd.DataFrame, first: str) -> tuple[str, ...]:
    """Return the sizes that vary by themselves, the page's own first, and ε where it varies."""
    free, fixed = [first], [*_ALIKE, first]
    for size in SIZES:
        if size not in fixed and (private.groupby(fixed, dropna=False)[size].nunique() > 1).any():
            free.append(size)
            fixed.append(size)
    return (*free, "epsilon") if "epsilon" not in free and private["epsilon"].nunique() > 1 else tuple(free)


def _axis_words(page: StudyPage, axis: str) -> str:
    return page.axis.label if axis == page.axis.column else _SIZE_WORDS[axis]


def _guides(page: StudyPage) -> Iterator[dict[str, Any]]:
    """Yield rows of theory, and of the limits of the data."""
    axis = page.axis.column
    labels = dict.fromkeys(guide.label for guide in page.guides)
    dashes = dict(zip(labels, itertools.cycle(palette.GUIDE_DASHES), strict=False))
    for guide in page.guides:
        panel, _, n = guide.panel.partition(":")
        more: dict[str, float] = {"n": int(n)} if n else {}
        more |= {"epsilon": guide.epsilon} if guide.epsilon else {}
        here = {
            "line": guide.label,
            "metric": page.metric,
            "look": guide_look(dashes[guide.label]),
            "panel": panel,
            "of": None if guide.shown or page.layout == "attack_page" else THEORY,
        }
        for x, value in zip(guide.n or [math.nan], guide.value, strict=True):
            yield {**here, "delta_rule": guide.delta_rule, **more, axis: x, "mean": value}


def draw_panels(
    page: StudyPage, errors: pd.DataFrame, settings: list[Setting], *, y_log: bool
) -> Picture | None:
    """Return a chart for each panel, at the first of some settings; None where there is one panel."""
    of_panel: dict[str, Setting] = {}
    for where in settings:
        of_panel.setdefault(where.panel, where)
    rows = [row for where in of_panel.values() for row in _rows_of(page, errors, where)]
    if len(panels := list(dict.fromkeys(row["panel"] for row in rows))) < 2:
        return None
    axes = Axes(page.axis.label, "", y_log=y_log, width=250, height=150)
    chart = focus_chart(rows, _LOOKS, axes, _BEST, labeled=False)
    top = {key: chart.pop(key) for key in ("data", "params", "transform")}
    facet = {
        "field": "panel",
        "type": "nominal",
        "sort": panels,
        "header": {"title": None, "labelLimit": 250},
    }
    scale = {"scale": {"x": "independent", "y": "independent"}}
    del chart["title"]
    drawn = {**top, "facet": facet, "columns": 3, "spec": chart, "resolve": scale}
    alt = render_sentence("figure_of_panels", page=page)
    return draw_chart(drawn, "panels", alt, page.data_source)


def _rows_of(page: StudyPage, errors: pd.DataFrame, where: Setting) -> Iterator[dict[str, Any]]:
    rows = rows_at(errors, where)
    ranking = rank(rows, size_at(rows, page) or 0.0)
    if (best := ranking.best) is None:
        return
    limit = [row for row in rows_at(errors, where._replace(epsilon=LIMIT)) if row.line == best.line]
    free = ranking.non_private.line if ranking.non_private else ""
    lines = {
        _BEST: [row for row in rows if row.line == best.line],
        _LIMIT: limit,
        _WITHOUT: [row for row in rows if row.line == free],
        _ZERO: [row for row in rows if row.role == "zero"],
    }
    title = f"{page.panel_title(where.panel)}: {best.name}"
    for line, known in lines.items():
        same: dict[str, Any] = {"panel": title, "line": line, "of": _BEST if line == _LIMIT else None}
        for row in known:
            band = {"low": row.low, "high": row.high} if line == _BEST else {"low": None, "high": None}
            if row.answered:
                yield {
                    **same,
                    **band,
                    **{key: getattr(row, key) for key in ("x", "mean", "role", "n_failed")},
                }
