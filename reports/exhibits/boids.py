"""Exhibits of a flock: selected features, frames of a simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from reports import palette
from reports.charts.drawing import Chart, draw_chart, field, marks
from reports.page import Section, StudyPage
from reports.ranking import PageHeadline
from reports.writing import render_sentence

_MOST_PANELS = 5
_EXTENT = (1500.0, 1100.0)  # half-widths of a film's frame, in pixels of the data


def draw(
    page: StudyPage, cells: pd.DataFrame, head: PageHeadline, content: Mapping[str, Any]
) -> Sequence[Section | None]:
    """Return what ``content`` has: how often a cell ``selected`` a column, and the frames of a ``film``."""
    return _selection(head, content["selected"]), _film(page, content["film"])


def _selection(head: PageHeadline, selected: Mapping[str, Mapping[str, int]]) -> Section | None:
    found = []
    for row in [row for row in head.at_x if selected.get(row.cell) and row.n_ok][:_MOST_PANELS]:
        counts = pd.Series(selected[row.cell])
        features = counts.index.str.replace(r"\d+$", "", regex=True)
        shares = counts.groupby(features, sort=False).sum().nlargest(3) / counts.sum()
        found.append((row.label, list(shares.items()), int((counts == row.n_ok).sum())))
    return Section("selected", {"found": found}) if found else None


def _film(page: StudyPage, film: Sequence[Mapping[str, Any]]) -> Section | None:
    if not film:
        return None
    text = render_sentence("film")
    picture = draw_chart(_film_figure(film), "film", text, page.data_source)
    return Section("film", {"text": text, "picture": picture})


def _film_figure(film: Sequence[Mapping[str, Any]]) -> Chart:
    """Draw a strip of frames per label."""
    labels = list(dict.fromkeys(frame["label"] for frame in film))
    strips = [[frame for frame in film if frame["label"] == label] for label in labels]
    wide = 900 / max(map(len, strips)) - 20
    return {"vconcat": [{"hconcat": [_frame(frame, wide) for frame in strip]} for strip in strips]}


def _frame(frame: Mapping[str, Any], wide: float) -> Chart:
    names = ("x", "y", "x_velocity", "y_velocity")
    moves = zip(*(frame[name][::2] for name in names), strict=True)
    rows = [
        {"x": x - 5 * u, "y": y - 5 * v, "x2": x, "y2": y}
        for x, y, u, v in moves
        if all(abs(at) <= half for at, half in zip((x, y, x - 5 * u, y - 5 * v), 2 * _EXTENT, strict=True))
    ]
    place = {
        name: field(f"{name}:Q", scale={"domain": (-half, half), "nice": False}, axis=None)
        for name, half in zip("xy", _EXTENT, strict=True)
    }
    place |= {name: field(name) for name in ("x2", "y2")}
    caption = f"{'' if frame['label'] else 'not '}labeled as a flock, frame {frame['frame']}"
    small = {"orient": "bottom", "fontSize": 10, "fontWeight": "normal", "color": palette.MUTED}
    looks: dict[str, Any] = {"color": palette.SERIES[1], "strokeCap": "round", "strokeWidth": 1.1}
    return {
        **marks(rows, "rule", place, **looks),
        "width": wide,
        "height": wide * _EXTENT[1] / _EXTENT[0],
        "view": {"stroke": palette.GRID},
        "title": {"text": caption, **small},
    }
