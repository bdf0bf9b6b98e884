"""The printable page of one release, from its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpalgos.coefficients import CENTERED, SHRUNK, CoefficientTable
from reports.charts.drawing import draw_chart
from reports.charts.lines import Axes, Line, guide, line_chart
from reports.pages.coefficient_table import INTERCEPTS, Model, table_of
from reports.palette import look
from reports.render import PageTable, Section, facts, render_page
from reports.writing import num, num_in


def render_release(record: Mapping[str, Any]) -> bytes:
    deployment, release = record["deployment"], record["release"]
    product = deployment["product"]
    question = _question(deployment, release)
    sections = [_answer(release), *_calibration(release.get("binned_fit", {})), _risk(release["risk"])]
    if release.get("methods"):
        sections.append(Section("For a methods section", release["methods"]))
    drawn = [
        (
            each["label"],
            each["mechanism"],
            str(each["count"]),
            _short(each.get("noise_multiplier")),
            _short(each.get("epsilon")),
        )
        for each in release["events"]
    ]
    public = [(each["what"], str(each["value"]), each["source"]) for each in release["public"]]
    names = ("What", "mechanism", "times", "noise over sensitivity", "ε")
    sections += [
        _folded("What was drawn with noise", PageTable(names, drawn, "Releases of the run", 2)),
        _folded("What was taken as public", PageTable(_PUBLIC, public, "Public facts", 3, stacked=True)),
        *(facts(part, rows) for part, rows in _fields(deployment)),
        facts("Ledger and software", [
            *((name.replace("_", " "), str(value)) for name, value in release["ledger"].items()),
            ("noise", str(release["hardened_noise"])),
            *(list(release["software"].items()) or [("software", _UNKNOWN)]),
        ]),
    ]  # fmt: skip
    return render_page(
        f"Release from {product['name']}",
        f"What was released from {product['name']}, and what it cost",
        sections,
        sentence=question,
        lead=[product.get("description", "")],
    )[0]


_PUBLIC = ("What", "value", "source")
_UNKNOWN = "of an earlier version, which did not record it"


def _short(value: float | None) -> str:
    return f"{value:.4g}" if value else ""


def _folded(heading: str, table: PageTable) -> Section:
    return Section(heading, table=table, folded=True)


def _answer(release: Mapping[str, Any]) -> Section:
    """Return the release as a table for publication, and what its intervals cover."""
    answer, level = release["answer"] or (), release["level"]
    table = None
    if answer:
        names = [each["name"] for each in answer]
        ends = [[each[side] for each in answer] for side in ("lower", "upper")]
        coefficients = CoefficientTable(
            terms=names,
            estimate=np.array([each["estimate"] for each in answer], dtype=float),
            interval=None if level is None else np.array(ends, dtype=float),
            level=level,
            family=release.get("model", {}).get("family", ""),
            intercept=next((name for name in INTERCEPTS if name in names), ""),
        )
        title = "Coefficients, with intervals where there are any"
        printed = table_of([Model(title=title, rows=coefficients.rows(), level=level, facts={}, footnote="")])
        table = replace(printed, columns=("Term", *printed.columns[1:]), notes=(), stacked=True)
    shown = CENTERED if any(each["lower"] is not None for each in answer) else SHRUNK
    text = [f"{release['covers']} {shown}."] if release.get("covers") else []
    if level:
        note = release["interval_note"].strip(".")
        text.append(
            f"Intervals at a confidence level of {level}. {note[:1].upper()}{note[1:]}{'.' * bool(note)}"
        )
    if fit := _fit(release.get("fit", {})):
        text.append(
            f"R² is {fit['r_squared']}, from {fit['r_squared_low']} to {fit['r_squared_high']}, and the "
            f"residual standard deviation {fit['residual_std']}, from {fit['residual_std_low']} to "
            f"{fit['residual_std_high']}: both follow from released numbers."
        )
    elif release.get("fit_note"):
        text.append(f"There is {release['fit_note']}.")
    text += release.get("cautions", ())
    return Section("The answer", table=table, parts=[Section("", text)])


def _risk(risk: Mapping[str, Any]) -> Section:
    """Return what an attacker believes at most after the release, by the belief before."""
    beliefs = [
        (f"{100 * float(before):g} %", f"{100 * after:.3g} %") for before, after in risk["posterior"].items()
    ]
    table = PageTable(("Belief before", "largest belief after"), beliefs, "What an attacker believes", 0)
    heading, sentence = f"What it means for one {risk['unit']}", risk["sentence"]
    return Section(heading, f"{sentence[0].upper()}{sentence[1:]}.", table=table)


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
    asked += [f"{model['n']:,} {model.get('counted', f'{unit}s')}"] if "n" in model else []
    asked += [f"ε = {budget['epsilon']:g}, δ = {budget['delta']:g}"] if budget else []
    return " · ".join(filter(None, asked))


def _calibration(bins: Mapping[str, Sequence[float | None]]) -> list[Section]:
    """Draw mean responses by tenths of the predictions, if released."""
    if not bins:
        return []
    columns = zip(*(bins[name] for name in ("predicted", "observed", "std_error", "rows")), strict=True)
    known = sorted((p, o, se, n) for p, o, se, n in columns if p is not None and o is not None and se and n)
    if len(known) < 2:
        return []
    ends = [value for p, o, se, _ in known for value in (p, o - 2 * se, o + 2 * se)]
    room = 0.05 * (max(ends) - min(ends))
    both = min(0.0, min(ends) - room), max(0.0, max(ends) + room)
    axes = Axes("mean prediction", "mean response", (), False, False, both, both, bars=True, width=400)
    band = [(o - 2 * se, o + 2 * se) for _, o, se, _ in known]
    line = Line("tenths of the predictions", [(p, o) for p, o, *_ in known], look("private", 1), band)
    chart = line_chart([line, guide("right on average", [(end, end) for end in both])], axes)
    text = (
        "Mean responses by tenths of the predictions, with bars of two standard errors of noise and sampling."
    )
    told = "The line is where predictions are right on average. A tenth with next to no rows is left out."
    return [Section("How well it fits", told, draw_chart(chart, "calibration", text, "", png=False))]


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
