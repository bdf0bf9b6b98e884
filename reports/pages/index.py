"""The index page: what privacy costs in every study, side by side, and a card for each."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reports import palette
from reports.charts.drawing import Chart, Picture, draw_chart, field, marks
from reports.page import seconds_of
from reports.render import SCRIPT, render_page
from reports.writing import duration, render_sentence, times

_SOURCES = {"real": "real data", "stand-in": "stand-in, not the real data", "simulated": "simulated data"}
_KINDS = {
    "without": ("non-private", palette.NON_PRIVATE, "circle"),
    "private": ("best private", palette.SERIES[0], "diamond"),
    "zero": ("zero baseline", palette.ZERO_LINE, "stroke"),
}
_NAME = re.compile(r"[a-z0-9_-]{1,200}")


@dataclass(frozen=True)
class Entry:
    """A study on the index page, from its manifest, which anybody may have written."""

    name: str
    about: Mapping[str, Any]  # the part of the manifest that `render_study` wrote
    manifest: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, manifest: Any) -> Entry:
        """Read a manifest; raise `ValueError` unless it is one of a report."""
        try:
            about, times = manifest["page"], [manifest.get(key, "") for key in ("started", "finished")]
            texts = [about[key] for key in ("title", "headline", "data_source", "kind")]
            texts += [*about["datasets"], *about["estimators"], *times]
            texts += [manifest.get(key, "") for key in ("profile", "warning")]
            is_valid = all(isinstance(text, str) and len(text) <= 10_000 for text in texts)
            is_valid &= all(datetime.fromisoformat(time) for time in times if time)
            seconds_of(manifest)  # raises where only one of both has a time zone
            if errors := about["errors"]:
                is_valid &= set(errors) == set(_KINDS) and all(value > 0 for value, _ in errors.values())
                is_valid &= all(math.isfinite(number) for pair in errors.values() for number in pair)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(str(error)) from None
        if not (_NAME.fullmatch(name) and is_valid):
            raise ValueError(f"the page of {name} is not what a run writes")
        return cls(name, about, manifest)

    @property
    def href(self) -> str:
        return f"{self.name}/report.html"

    @property
    def warning(self) -> str:
        return str(self.manifest.get("warning", ""))

    @property
    def elapsed(self) -> str:
        return duration(seconds_of(self.manifest))

    @property
    def words(self) -> str:
        """The text that the search on the page looks at."""
        about = self.about
        texts = (about["title"], about["headline"], self.name, *about["datasets"], *about["estimators"])
        return " ".join(texts).lower()

    @property
    def is_compared(self) -> bool:
        return bool(self.about["errors"]) and not self.warning

    @property
    def cost(self) -> float:
        """The best private error over the one without privacy."""
        errors = self.about["errors"]
        return float(errors["private"][0] / errors["without"][0])


def overview(entries: Iterable[Entry]) -> Picture | None:
    """Draw the errors of all studies over those of the zero baseline, by what privacy costs."""
    compared = sorted((each for each in entries if each.is_compared), key=lambda each: each.cost)
    if not compared:
        return None
    description = "; ".join(f"{each.name} {times(each.cost)}" for each in compared)
    alt = render_sentence("overview", told=description)
    return draw_chart(overview_chart(compared), "overview", alt, "", png=False)


def overview_chart(entries: Iterable[Entry]) -> Chart:
    """Return a dot plot with a row per study: the less privacy costs, the higher it stands."""
    rows = []
    for entry in sorted(entries, key=lambda each: (each.cost, each.name)):
        source, zero = entry.about["data_source"], entry.about["errors"]["zero"][0]
        for kind, (value, error) in entry.about["errors"].items():
            at, bar = value / zero, 2 * error / zero
            name = f"{entry.name} (stand-in)" if source == "stand-in" else entry.name
            rows.append({"study": name, "kind": _KINDS[kind][0], "x": at, "low": max(at - bar, at / 10),
                         "high": at + bar, "real": source == "real"})  # fmt: skip
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
    fill = {"fill": {"condition": [
        {"test": f"datum.real && datum.kind == '{name}'", "value": shade}
        for name, shade, _ in _KINDS.values()
    ], "value": palette.PAPER}}  # fmt: skip
    layers = [
        marks(rows, "rule", limits, strokeWidth=1.5),
        marks(rows, "point", {"x": x, "y": y, **color, "shape": shape, **fill}, **dots),
    ]
    return {"layer": layers, "width": 270, "height": {"step": 20}}


def render_index(entries: Iterable[Entry]) -> dict[str, bytes]:
    """Return ``index.html``, cards by title."""
    ordered = sorted(entries, key=lambda each: (each.about["title"], each.name))
    about = [each.about for each in ordered]
    filters = {
        "dataset": ("Dataset", {name: name for each in about for name in each["datasets"]}),
        "estimator": (
            "Estimator",
            dict(sorted((name, name) for each in about for name in each["estimators"])),
        ),
        "kind": ("What is estimated", {each["kind"]: each["kind"] for each in about if each["kind"]}),
        "source": ("Data", {each["data_source"]: _SOURCES.get(each["data_source"], "") for each in about}),
    }
    drawn = overview(ordered)
    page, _ = render_page(
        "pages/index.jinja",
        script=SCRIPT,
        entries=ordered,
        filters=filters,
        sources=_SOURCES,
        overview=drawn,
        others=[each for each in ordered if drawn and not each.is_compared],
    )
    return {"index.html": page}
