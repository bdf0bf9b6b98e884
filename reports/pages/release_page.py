"""The printable page of one release, from its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpalgos.coefficients import CENTERED, SHRUNK, CoefficientTable
from reports.charts.line_chart import Frame, Line, Reference, line_chart
from reports.charts.picture import Picture, picture
from reports.pages.coefficient_table import INTERCEPTS, Model, PrintedTable, table_of
from reports.pages.text import render_html
from reports.palette import look
from reports.writing import num, num_in


def render_release(record: Mapping[str, Any]) -> bytes:
    deployment, release = record["deployment"], record["release"]
    name = deployment["product"]["name"]
    return render_html(
        "release.html.jinja",
        title=f"Release from {name}",
        description=f"What was released from {name}, and what it cost",
        deployment=_fields(deployment),
        release=release,
        question=_question(deployment, release),
        answer=_answer(release),
        shown=CENTERED if any(each["lower"] is not None for each in release["answer"] or ()) else SHRUNK,
        beliefs=_beliefs(release["risk"]["posterior"]),
        calibration=_calibration(release.get("binned_fit", {})),
        fit=_fit(release.get("fit", {})),
    )


def _fit(fit: Mapping[str, float]) -> dict[str, str]:
    """Write numbers of the fit with the digits that their intervals need."""
    ends = {name: (fit[f"{name}_low"], fit[f"{name}_high"]) for name in ("r_squared", "residual_std") if fit}
    return {
        name + end: num_in(fit[name + end], *ends[name]) for name in ends for end in ("", "_low", "_high")
    }


def _question(deployment: Mapping[str, Any], release: Mapping[str, Any]) -> str:
    """Return what was asked, of how many rows and at which price, in a line."""
    model, loss = release.get("model", {}), deployment.get("privacy_loss", {})
    budget, unit = loss.get("privacy_parameters", {}), release["risk"]["unit"]
    asked = [model.get("formula") or model.get("response", "")]
    asked += [f"{model['n']:,} {unit}s"] if "n" in model else []
    asked += [f"ε = {budget['epsilon']:g}, δ = {budget['delta']:g}"] if budget else []
    return " · ".join(filter(None, asked))


def _answer(release: Mapping[str, Any]) -> PrintedTable | None:
    """Return the answer as the table for publication has it, without its footnotes."""
    answer, level = release["answer"] or (), release["level"]
    if not answer:
        return None
    names = [each["name"] for each in answer]
    ends = [[each[side] for each in answer] for side in ("lower", "upper")]
    table = CoefficientTable(
        terms=names,
        estimate=np.array([each["estimate"] for each in answer], dtype=float),
        interval=None if level is None else np.array(ends, dtype=float),
        level=level,
        family=release.get("model", {}).get("family", ""),
        intercept=next((name for name in INTERCEPTS if name in names), ""),
    )
    return table_of([Model(title="", rows=table.rows(), level=level, facts={}, footnote="")])


def _calibration(bins: Mapping[str, Sequence[float | None]]) -> tuple[Picture, str] | None:
    """Draw mean responses by tenths of the predictions, and say how many rows were clipped, if released."""
    if not bins:
        return None
    columns = zip(*(bins[name] for name in ("predicted", "observed", "std_error", "rows")), strict=True)
    known = sorted((p, o, se, n) for p, o, se, n in columns if p is not None and o is not None and se and n)
    if len(known) < 2:
        return None
    ends = [value for p, o, se, _ in known for value in (p, o - 2 * se, o + 2 * se)]
    room = 0.05 * (max(ends) - min(ends))
    both = min(0.0, min(ends) - room), max(0.0, max(ends) + room)
    frame = Frame(
        "mean prediction", "mean response", both, both, x_log=False, y_log=False, width=400, height=360
    )
    band = [(o - 2 * se, o + 2 * se) for _, o, se, _ in known]
    line = Line("", [(p, o) for p, o, *_ in known], look("private", 1), band)
    chart = line_chart([line], frame, [Reference("", [(end, end) for end in both])], bars=True)
    clipped = zip(bins["rows"], bins["clipped_share"], strict=True)
    share = sum((n or 0) * (c or 0) for n, c in clipped) / max(sum(n or 0 for n in bins["rows"]), 1)
    text = (
        "Mean responses by tenths of the predictions, with bars of two standard errors of noise and sampling."
    )
    return picture(chart, "calibration", text, "", png=False), f"{share:.1%}"


_PARTS = {"dp_flavor": "Kind of differential privacy"}  # headings of what the record calls otherwise


def _fields(deployment: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the parts of the deployment with the names and values of their fields."""
    found = []
    for part, fields in deployment.items():
        rows = []
        for name, value in fields.items():
            if isinstance(value, Mapping):
                value = ", ".join(f"{key} = {num(each)}" for key, each in value.items() if each is not None)
            rows.append((name.replace("_", " "), str(value)))
        found.append((_PARTS.get(part, part.replace("_", " ").capitalize()), rows))
    return found


def _beliefs(posterior: Mapping[str, float]) -> tuple[str, list[tuple[str, str]]]:
    """Return what an attacker believes at most after by the belief before: a curve, and points to mark."""
    prior, after = next(iter(posterior.items()))
    before, beyond = float(prior) / (1 - float(prior)), after / max(1 - after, 1e-300)
    odds = beyond / before
    points = [(p / 50, (p / 50) * odds / (1 - p / 50 + (p / 50) * odds)) for p in range(51)]

    def place(x: float, y: float) -> tuple[str, str]:
        return f"{40 + 260 * x:.1f}", f"{180 - 160 * y:.1f}"

    return " ".join(",".join(place(*point)) for point in points), [
        place(float(p), q) for p, q in posterior.items()
    ]
