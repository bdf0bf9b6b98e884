"""The index page: what privacy costs in every study, side by side, and a card for each."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, cast

import pandas as pd

import dpalgos
from reports import palette
from reports.charts.drawing import Chart, Picture, draw_chart, field, marks
from reports.page import seconds_of
from reports.render import SCRIPT, render_page
from reports.writing import render_sentence, times

_SOURCES = {"real": "real data", "stand-in": "stand-in, not the real data", "simulated": "simulated data"}
_KINDS = {
    "without": ("non-private", palette.NON_PRIVATE, "circle"),
    "private": ("best private", palette.SERIES[0], "diamond"),
    "zero": ("zero baseline", palette.ZERO_LINE, "stroke"),
}
_COLUMNS = ["panel", "data_source", "estimator"]


@dataclass(frozen=True, eq=False)
class Entry:
    """A study on the index page, from its manifest and its summary."""

    name: str
    manifest: Mapping[str, Any]
    summary: pd.DataFrame  # its `_COLUMNS`

    @classmethod
    def of(cls, name: str, manifest: Mapping[str, Any], summary: bytes) -> Entry:
        """Return the entry of a run's manifest and summary; raise `ValueError` if the summary is damaged."""
        table = pd.read_csv(io.BytesIO(summary), usecols=_COLUMNS, dtype=str, keep_default_na=False)
        return cls(name, manifest, table.drop_duplicates())

    @property
    def page(self) -> Mapping[str, Any]:
        """The part of the manifest that `render_study` wrote."""
        return cast("Mapping[str, Any]", self.manifest["page"])

    @cached_property
    def source(self) -> str:
        """The data source of the headline's panel, or of all panels if that one did not run."""
        at_headline = self.summary[self.summary["panel"] == self.page.get("panel", "")]
        rows = self.summary if at_headline.empty else at_headline
        return " and ".join(sorted(rows["data_source"].unique()))

    @property
    def datasets(self) -> list[str]:
        return [one["name"] for one in self.manifest.get("data", ())]

    @cached_property
    def estimators(self) -> list[str]:
        """The titles of the estimators that ran."""
        titles = _titles()
        return [titles.get(name, name) for name in sorted(self.summary["estimator"].unique())]

    @property
    def words(self) -> str:
        """The text that the search on the page looks at."""
        texts = (self.page["title"], self.page["headline"], self.name, *self.datasets, *self.estimators)
        return " ".join(texts).lower()

    @property
    def is_compared(self) -> bool:
        return {"private", "zero"} <= set(self.page["errors"] or ()) and "warning" not in self.manifest

    @property
    def why_not_compared(self) -> str:
        """Why the chart lacks the study."""
        if "warning" in self.manifest:
            return "its data are not public"
        return str(self.page.get("not_compared") or "it does not measure errors")

    @property
    def cost(self) -> float:
        """The best private error over the one without privacy; infinite where that is not known."""
        errors = self.page["errors"]
        return float(errors["private"][0] / errors["without"][0]) if "without" in errors else math.inf

    @property
    def marked_name(self) -> str:
        """The name, with what the run is not."""
        marks = ["stand-in"] * (self.source == "stand-in") + ["trial"] * bool(self.page.get("trial"))
        return f"{self.name} ({', '.join(marks)})" if marks else self.name


def overview(entries: Iterable[Entry]) -> Picture | None:
    """Draw the errors of all studies over those of the zero baseline, by what privacy costs."""
    compared = [each for each in entries if each.is_compared]
    if not compared:
        return None
    known = sorted((each for each in compared if math.isfinite(each.cost)), key=_place)
    description = "; ".join(f"{each.marked_name} {times(each.cost)}" for each in known) or "not known"
    alt = render_sentence("overview", told=description)
    return draw_chart(overview_chart(compared), "overview", alt, "", png=False)


def overview_chart(entries: Iterable[Entry]) -> Chart:
    """Return a dot plot with a row per study: the cheapest privacy first, trial runs last."""
    rows = []
    for entry in sorted(entries, key=_place):
        source, zero = entry.source, entry.page["errors"]["zero"][0]
        for kind, (value, error) in entry.page["errors"].items():
            at, bar = value / zero, 2 * error / zero
            low, high = max(at - bar, at / 10), at + bar
            row = {"study": entry.marked_name, "kind": _KINDS[kind][0], "real": source == "real"}
            rows.append({**row, "x": at, "low": low, "high": high})
    names, colors, shapes = zip(*_KINDS.values(), strict=True)
    axis = {"title": "error over that of ignoring the data", "format": "~g", "grid": True, "tickCount": 4}
    x = field("x:Q", scale={"type": "log", "nice": False, "padding": 10}, axis=axis)
    labels = {"title": None, "labelLimit": 135, "minExtent": 135, "labelColor": palette.INK}
    y = field("study:N", sort=None, axis=labels)
    legend = {"orient": "top", "labelOffset": 4, "columnPadding": 10}
    color = {"stroke": field("kind:N", scale={"domain": names, "range": colors}, legend=legend)}
    shape = field("kind:N", scale={"domain": names, "range": shapes}, legend=legend)
    limits = {"x": field("low:Q"), "x2": field("high"), "y": y, **color}
    dots: dict[str, Any] = {"size": 64, "opacity": 1, "strokeWidth": 1.6}
    hollow = {"test": "!datum.real", "value": palette.PAPER}
    fill = {
        "fill": field("kind:N", scale={"domain": names, "range": colors}, legend=legend, condition=hollow)
    }
    layers = [
        marks(rows, "rule", limits, strokeWidth=1.5),
        marks(rows, "point", {"x": x, "y": y, **color, "shape": shape, **fill}, **dots),
    ]
    return {"layer": layers, "width": 270, "height": {"step": 20}}


def _place(entry: Entry) -> tuple[bool, float, str]:
    return bool(entry.page.get("trial")), entry.cost, entry.name


def render_index(entries: Iterable[Entry]) -> dict[str, bytes]:
    """Return ``index.html``, cards by title."""
    ordered = sorted(entries, key=lambda each: (each.page["title"], each.name))
    filters = {
        "dataset": ("Dataset", _same(name for each in ordered for name in each.datasets)),
        "estimator": ("Estimator", _same(name for each in ordered for name in each.estimators)),
        "source": ("Data", {each.source: source_words(each.source) for each in ordered}),
    }
    drawn = overview(ordered)
    page, _ = render_page(
        "pages/index.jinja",
        script=SCRIPT,
        entries=ordered,
        source_words=source_words,
        seconds_of=seconds_of,
        filters=filters,
        overview=drawn,
        others=[each for each in ordered if drawn and not each.is_compared],
    )
    return {"index.html": page}


@cache
def _titles() -> dict[str, str]:
    return {entry.name: entry.title for entry in dpalgos.catalog()}


def _same(values: Iterable[str]) -> dict[str, str]:
    return {value: value for value in sorted(set(values))}


def source_words(source: str) -> str:
    return _SOURCES.get(source, f"{source} data")
