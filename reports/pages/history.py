"""The page of a study's headline over time: its value at each run, and where it moved beyond its error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from reports.charts.line_chart import NARROW, Frame, Line, line_chart
from reports.charts.picture import picture
from reports.pages.text import render_html
from reports.palette import look
from reports.writing import error_bar, num, when

_COLUMNS = ("Run", "value", "", "headline", "profile, repetitions", "commit", "data")
_CLEAR = 3.0  # standard errors of a difference
MOST = 500  # entries that are kept


@dataclass(frozen=True)
class Entry:
    """A run: when it ended, what it measured with which code and data, and its headline."""

    finished: str
    profile: str
    replicates: int | None
    commit: str
    data: tuple[str, ...]  # digests of the raw files
    results: str  # digest of the results table
    value: float
    error: float  # NaN where unknown
    headline: str

    def to_plain(self) -> dict[str, Any]:
        return asdict(self) | {"error": None if math.isnan(self.error) else self.error}

    @classmethod
    def from_plain(cls, fields: dict[str, Any]) -> Entry:
        error = math.nan if fields["error"] is None else float(fields["error"])
        return cls(**{**fields, "data": tuple(fields["data"]), "error": error})


def moved(entries: Sequence[Entry]) -> list[bool]:
    """Return for each entry whether its value lies beyond the error of the one before of its profile."""
    last: dict[str, Entry] = {}
    found = []
    for entry in entries:
        before = last.get(entry.profile)
        gap = 0.0 if before is None else abs(entry.value - before.value)
        errors = [0.0] if before is None else [e for e in (entry.error, before.error) if math.isfinite(e)]
        found.append(gap > _CLEAR * math.hypot(*errors) + 1e-12 * abs(entry.value))
        last[entry.profile] = entry
    return found


def render_history(title: str, metric: str, entries: Sequence[Entry]) -> bytes:
    """Return the page; ``entries`` are at least one, the oldest first."""
    beyond = moved(entries)
    rows = [
        (
            when(entry.finished),
            f"{num(entry.value)} ± {error_bar(entry.error, entry.value)}"
            if entry.error > 0
            else num(entry.value),
            "moved beyond its error" if has_moved else "",
            entry.headline,
            f"{entry.profile}, {entry.replicates}" if entry.replicates else entry.profile,
            entry.commit[:12],
            ", ".join(each[:8] for each in entry.data) or "simulated",
        )
        for entry, has_moved in zip(entries, beyond, strict=True)
    ]
    return render_html(
        "history.html.jinja",
        f"{title}: over time",
        f"The headline of {title} at each run",
        study=title,
        columns=_COLUMNS,
        rows=[list(zip(_COLUMNS, row, strict=True)) for row in rows[::-1]],
        n_moved=sum(beyond),
        chart=_chart(metric, entries, beyond),
        narrow=_chart("", entries, beyond, width=NARROW),
        metric=metric,
    )


def _chart(metric: str, entries: Sequence[Entry], beyond: Sequence[bool], width: int = 640) -> Any:
    """Draw the values of the profile that ran last, by day, with bars of two standard errors."""
    profile = entries[-1].profile
    shown = [(e, b) for e, b in zip(entries, beyond, strict=True) if e.profile == profile]
    begin = datetime.fromisoformat(shown[0][0].finished)
    days = [(datetime.fromisoformat(e.finished) - begin).total_seconds() / 86_400 for e, _ in shown]
    margins = [2 * e.error if math.isfinite(e.error) else 0.0 for e, _ in shown]
    ends = [
        v for (e, _), margin in zip(shown, margins, strict=True) for v in (e.value - margin, e.value + margin)
    ]
    room = 0.1 * (max(ends) - min(ends) or abs(ends[0]) or 1.0)
    points = [(day, entry.value) for day, (entry, _) in zip(days, shown, strict=True)]
    band = [(y - margin, y + margin) for (_, y), margin in zip(points, margins, strict=True)]
    frame = Frame(
        x_title=f"days since {when(shown[0][0].finished)}",
        y_title=metric,
        x=(-0.02 * (days[-1] or 1.0), 1.02 * (days[-1] or 1.0)),
        y=(min(ends) - room, max(ends) + room),
        x_log=False,
        y_log=False,
        x_ticks=(days[0], days[-1]) if width == NARROW else (),
        width=width,
        height=300,
        marks={
            "failed": [
                {"x": x, "y": y, "c": "#b45309"} for (x, y), (_, b) in zip(points, shown, strict=True) if b
            ]
        },
    )
    chart = line_chart([Line("", points, look("private", 1), band)], frame, bars=True)
    text = f"{len(shown)} runs at profile {profile}; the last value is {num(shown[-1][0].value)}."
    return picture(chart, "history", text, "", png=False)
