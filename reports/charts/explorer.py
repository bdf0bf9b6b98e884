"""The chart that a reader explores: its specification, its data, and what can be chosen.

The chart is `line_chart`'s, compiled to Vega with empty layers. The page fills them from the summary of all
cells as its reader chooses, see `reports/templates/explorer.js`.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import re
import shlex
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import PurePath
from typing import Any

import pandas as pd
import vl_convert
from platformdirs import user_cache_path

from dpalgos.plugins import named_files
from reports import palette
from reports.analysis.ranking import first_lines, rank
from reports.analysis.series import CALIBRATION_WORDS, Series, View, with_roles
from reports.charts.line_chart import LAYERS, chart_layers
from reports.charts.picture import can_draw, specification, themed
from reports.charts.study_charts import has_one_size, limit_references
from reports.page import StudyPage
from reports.words.headline import NOISE_LIMITS
from reports.words.tables import REMARKS
from reports.writing import rule_text, setting

_LOWER, _HIGHER = "lower is better", "higher is better"
_KNOWN = {
    "l2_error": ("ℓ2 error", _LOWER, "log"),
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
_RATE = re.compile(r"tpr_at_fpr_(\d+)")
_ROUNDING = 1e-12  # relative; a standard error below it is that of rounding, as in `View`
MOST_CELLS = 12_000  # on a page, which are then about a megabyte
_SIZES = ("n", "d", "s", "steps")
_WORDS = ("metric", "panel", "delta_rule", "message", "status")
_NUMBERS = ("epsilon", *_SIZES, "mean", "se", "q10", "q90", "n_ok", "n_failed", "delta")
_FREE = ["metric", "panel", "estimator", "form", "calibration", "epsilon", "delta_rule"]
_EPSILONS = {"certified": "estimator_epsilon", "audited": "audited_epsilon"}
_PARAMS: dict[str, Any] = {"x_low": 1, "x_high": 10, "y_low": 1, "y_high": 10, "x_ticks": []}


def metric_words(name: str, page: StudyPage) -> dict[str, str]:
    """Return a metric's label, direction ("lower is better") and scale ("log" or "linear")."""
    label, direction, scale = _KNOWN.get(name, (name.replace("_", " "), "", "log"))
    rates = page.layout_facts.rates if page.layout_facts is not None else {}
    found = _RATE.fullmatch(name)
    if found is not None:
        at = rates.get(name, int(found[1]) / 100)
        label, direction, scale = f"true positive rate at false positive rate {at:g}", _HIGHER, "linear"
    if page.layout_facts is not None:
        direction = "lower is more private" if direction == _HIGHER else ""
    if name == page.metric and page.layout_facts is None:
        label = page.metric_label
    return {"label": label, "direction": direction, "scale": scale}


def explorer_data(summary: pd.DataFrame, view: View) -> dict[str, Any] | None:
    """Return all that the explorer shows, as plain data; None where nothing is to be drawn."""
    page, where, size = view.page, view.headline, view.headline_size
    shown = set(summary.loc[summary["privacy_model"] != "none", "metric"])
    if where is None or size is None or not can_draw():
        return None
    cells = with_roles(summary[summary["metric"].isin(shown)])
    cells = cells.sort_values("metric", key=lambda names: names != page.metric, kind="stable")
    cells = cells.assign(se=cells["se"].mask(cells["se"] < _ROUNDING * cells["mean"].abs(), 0.0))
    left_out, cells = max(0, len(cells) - MOST_CELLS), cells.head(MOST_CELLS)
    axes = _axes(cells, page.axis.column)
    keys = list(cells[["estimator", "calibration", "form", "role"]].itertuples(index=False, name=None))
    series = sorted((_series(view, *line) for line in dict.fromkeys(keys)), key=lambda s: s.rank)
    places = {(s.info.name, s.calibration, s.form, s.role): i for i, s in enumerate(series)}
    names = {key: list(dict.fromkeys(cells[key])) for key in _WORDS}
    columns: dict[str, list[Any]] = {"series": [places[key] for key in keys]}
    columns |= {key: [names[key].index(value) for value in cells[key]] for key in _WORDS}
    columns |= {key: _numbers(cells[key]) for key in _NUMBERS}
    columns |= {name: _numbers(cells[column]) for name, column in _EPSILONS.items()}
    rules = {rule: rule_text(rule, page.axis.rows_symbol) for rule in names["delta_rule"]}
    metrics = {name: metric_words(name, page) for name in names["metric"]}
    return {
        "study": page.name,
        "options": "".join(f" --with {shlex.quote(PurePath(file).name)}" for file in named_files()),
        "specs": {scale: _compiled(scale) for scale in sorted({m["scale"] for m in metrics.values()})},
        "series": [_look(s) for s in series],
        "names": names,
        "cells": columns,
        "rules": rules,
        "metrics": metrics,
        "axes": {axis: _axis_words(view, axis) for axis in axes},
        "words": {"panel": page.panel_word, "rows": page.axis.rows_symbol},
        "guides": _guides(view),
        "settings": _settings(view, places),
        "remarks": REMARKS,
        "noise_limits": NOISE_LIMITS,
        "unprotected_panels": list(page.unprotected_panels),
        "left_out": left_out,
        "stand_in": [name for name in names["panel"] if page.dataset.source_of(name) == "stand-in"],
        "start": {
            "metric": page.metric,
            "panel": where.panel,
            "epsilon": where.epsilon,
            "delta_rule": where.delta_rule,
            "calibration": "",
            "axis": "epsilon" if has_one_size(view) and "epsilon" in axes else page.axis.column,
            **({page.axis.column: size} if page.axis.column in _SIZES else {"n": float(page.headline["n"])}),
        },
    }


def _settings(view: View, places: Mapping[tuple[str, str, str, str], int]) -> dict[str, dict[str, Any]]:
    """Return of each setting, by its key, what its chart begins with and whom its table ranks.

    The key "" stands for the headline's. Ranked are the private estimators that keep the strongest promise.
    """
    found: dict[str, dict[str, Any]] = {}
    for each in view.settings:
        x, series = view.size_at(each), view.series(each)
        shown = [] if x is None else first_lines(view, each, x)
        lines = [
            places[key] for s in shown if (key := (s.info.name, s.calibration, s.form, s.role)) in places
        ]
        ranked = (
            s
            for size in sorted({p.x for s in series for p in s.points})
            for s, _ in rank(series, size).private
        )
        promise = next((s.info.privacy_model for s in ranked), "")
        name = "|".join((each.panel, setting(each.epsilon).replace(",", ""), each.delta_rule))
        found[name] = {"lines": lines, "promise": promise}
    return {"": next(iter(found.values()), {"lines": [], "promise": ""}), **found}


def _axes(cells: pd.DataFrame, first: str) -> list[str]:
    """Return the sizes that vary by themselves, the page's own first, and ε where it varies."""
    private = cells[cells["role"] != "nonprivate"]
    free, fixed = [first], [*_FREE, first]
    for size in _SIZES:
        if size not in fixed and (private.groupby(fixed, dropna=False)[size].nunique() > 1).any():
            free.append(size)
            fixed.append(size)
    return [*free, "epsilon"] if "epsilon" not in free and private["epsilon"].nunique() > 1 else free


def _series(view: View, name: str, calibration: str, form: str, role: str) -> Series:
    index = view.forms.get(name, (form,))
    info = view.page.estimator(name)
    return Series(info, calibration, form, role, index.index(form) if form in index else 0, ())


def _look(series: Series) -> dict[str, Any]:
    look = series.look
    return {
        "name": series.name,
        "brief": series.brief,
        "noise": CALIBRATION_WORDS.get(series.calibration, ""),
        "calibration": series.calibration,
        "role": series.role,
        "promise": series.info.privacy_model,
        "c": themed(look.color),
        "ink": themed(look.ink),
        "fill": themed(look.fill),
        "dash": look.dash,
        "shape": look.shape,
        "symbol": look.symbol,
    }


def _numbers(values: pd.Series) -> list[float | str | None]:
    """Return numbers with seven digits, of which three are shown; None where there is none, or "inf"."""
    return [
        None if pd.isna(value) else "inf" if math.isinf(value) else _seven_digits(float(value))
        for value in values
    ]


def _seven_digits(value: float) -> float:
    return int(value) if value == int(value) else float(f"{value:.7g}")


def _axis_words(view: View, axis: str) -> str:
    if axis == view.page.axis.column:
        return view.page.axis.label
    return {"n": "rows n", "d": "columns d", "s": "sparsity s", "steps": "steps T", "epsilon": "ε"}[axis]


def _guides(view: View) -> list[dict[str, Any]]:
    """Return the gray lines with where they belong; "" and 0 stand for everywhere."""
    found: list[tuple[Any, ...]] = [
        (g.label, list(zip(g.n, g.value, strict=True)), g.panel, g.epsilon, g.delta_rule, palette.SOLID)
        for g in view.page.guides
        if len(g.n) > 1
    ]
    found += [(line.label, line.points, view.panels[0], 0, "", line.dash) for line in limit_references(view)]
    names = ("label", "points", "panel", "epsilon", "delta_rule", "dash")
    return [dict(zip(names, each, strict=True)) for each in found]


@cache
def _compiled(scale: str) -> Any:
    """Return the chart's Vega specification, its error axis "log" or "linear", in the page's colors."""

    def between(axis: str, kind: str) -> dict[str, Any]:
        low, high = ({"expr": f"{axis}_{end}"} for end in ("low", "high"))
        return {"type": kind, "domainMin": low, "domainMax": high, "nice": False, "zero": False}

    layers = chart_layers(
        {name: [] for name in LAYERS},
        {"scale": between("x", "log"), "axis": {"title": None, "values": {"expr": "x_ticks"}}},
        {"scale": between("y", scale), "axis": {"title": None}},
    )
    params = [{"name": name, "value": value} for name, value in _PARAMS.items()]
    chart = {**layers, "width": 600, "height": 400, "params": params}
    return json.loads(themed(json.dumps(vl_convert.vegalite_to_vega(specification(chart)))))


@cache
def packed_library() -> str:
    """Return Vega as one script, packed; what was packed in another way is not used."""
    way = hashlib.sha256(packed("a" * 99).encode()).hexdigest()[:8]
    return _kept(f"{way}.txt", lambda: packed(vega_library()))


def packed(text: str) -> str:
    """Return a text as gzip in base 64, which the page unpacks: about a third of its size."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


@cache
def vega_library() -> str:
    """Return Vega as one script, which takes seconds to bundle."""
    return _kept("js", lambda: vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;"))


def _kept(form: str, make: Callable[[], str]) -> str:
    """Return Vega in a form, which is made once and kept in the user's cache folder."""
    kept = user_cache_path("dpcost") / f"vega-{version('vl-convert-python')}.{form}"
    try:
        return kept.read_text(encoding="utf-8")
    except OSError:
        text = make()
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{id(text)}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(kept)
    except OSError:  # a folder that can't be written to costs time, nothing else
        pass
    return text
