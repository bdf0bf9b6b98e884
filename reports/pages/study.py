"""A study's report: table and page in, files out. Nothing is written here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from data.store.folders import sha256_file
from dpalgos.catalog import Estimator
from dpalgos.params import describe_keywords
from dpalgos.plugins import outside_plugins
from reports.analysis.results import summarize
from reports.analysis.series import View
from reports.charts.explorer import packed_library
from reports.charts.picture import banner
from reports.page import BudgetPart, StudyPage
from reports.pages import attack_page, error_page
from reports.pages.index import Card
from reports.pages.text import manifest_rows, render_html, render_markdown, template_text
from reports.words.headline import noise_comparisons
from reports.words.tables import (
    certified_table,
    comparison_table,
    error_table,
    failure_table,
    setting_title,
    summary_csv,
)
from reports.writing import count_of, duration, repaired, setting, when, with_form

# Links to the sections of every page.
_CONTENTS = (
    ("trust", "Can I trust it?"),
    ("from", "Where from?"),
    ("failed", "What failed?"),
    ("again", "How do I run it again?"),
)
LAYOUTS = {"error_page": error_page.content, "attack_page": attack_page.content}


def render_study(results: pd.DataFrame, page: StudyPage) -> dict[str, bytes]:
    """Return a report's files by relative path, from a valid results table, possibly without rows.

    They are `report.html`, `report.md`, `data-NAME.html` per dataset, `summary.csv`, `card.json`, and
    `figures/*.svg` and `*.png`. The same input gives the same bytes.
    """
    summary = summarize(results)
    view = View.build(summary, page)
    layout = LAYOUTS[page.layout](view, summary)
    context = _context(results, view) | {"headline": layout.headline, "pictures": layout.pictures}
    context |= layout.context | {"contents": (*layout.context["contents"], *_CONTENTS)}
    context["left_out"] = layout.explorer["left_out"] if layout.explorer else 0
    drawn = [*layout.pictures.files(), *(section.picture for section in context.get("sections", ()))]
    files: dict[str, bytes] = {}
    for picture in drawn:
        if picture is not None:
            files[f"figures/{picture.name}.svg"] = picture.svg
            if picture.png is not None:
                files[f"figures/{picture.name}.png"] = picture.png
    files["summary.csv"] = summary_csv(summary).encode("utf-8")
    scripts = [template_text("filter.js")]
    if layout.explorer is not None:
        data = json.dumps(layout.explorer, ensure_ascii=False, separators=(",", ":"))
        scripts += [data, packed_library(), template_text("explorer.js")]
    files["report.html"] = render_html(
        "study.jinja", _title(page), layout.headline.sentence, scripts=scripts, **context
    )
    for card in page.data_cards:
        files[card.file] = render_html(
            "data_card.html.jinja",
            f"{card.dataset.title}: data card",
            card.dataset.description,
            card=card,
            banner=banner(card.read["data_source"]) or page.warning,
        )
    files["report.md"] = render_markdown("study.jinja", **context)
    files["card.json"] = Card.of(page, layout.headline, layout.pictures.card, view).to_json().encode("utf-8")
    return files


def _context(results: pd.DataFrame, view: View) -> dict[str, Any]:
    page, head, size = view.page, view.headline, view.headline_size
    manifest = page.manifest
    comparisons = noise_comparisons(view.series(head), size) if head and size else ()
    run_facts = {
        "Started": when(manifest.get("started", "")),
        "Finished": when(manifest.get("finished", ""))
        + (f" (after {duration(page.seconds)})" if page.seconds else ""),
        "Profile": manifest.get("profile", ""),
        "Machine": manifest.get("machine", ""),
    }
    return {
        "page": page,
        "data": page.dataset,
        "banner": banner(page.dataset.data_source) or page.warning or few_repetitions(view),
        "run": _run_line(view),
        "table": error_table(view, head) if head else None,
        "setting_title": setting_title(view, head) if head else "",
        "headline_size": setting(size) if size else "",
        "certified": certified_table(view),
        "comparisons": comparison_table(comparisons),
        "failures": failure_table(results, view),
        "n_answers": count_of(int((results["metric"] == page.metric).sum()), "repetition"),
        "guarantees": guarantees(page),
        "lineage": lineage(view),
        "budgets": [budget_bar(page, part) for part in page.budgets if len(part.parts) > 1],
        "whole": [
            f"{budget_bar(page, part)['name']}: all of it on one kind of release ({part.parts[0][0]})."
            for part in page.budgets
            if len(part.parts) == 1
        ],
        "assumptions": [(each.what, each.value, each.source) for each in page.assumptions],
        "estimators": [_about(page, each) for each in in_order(page)],
        "earlier": [(sha256, when(finished)) for sha256, finished in page.dataset.earlier],
        "run_facts": [*((k, v) for k, v in run_facts.items() if v), *manifest_rows(manifest)],
        "mixed_promises": len({info.privacy_model for info in page.estimators} - {"none", ""}) > 1,
        "has_printed": bool((view.private["calibration"] == "paper").any()),
    }


_FEW = 4  # repetitions, up to which a page says that they are few


def few_repetitions(view: View) -> str:
    """Return the warning of a page whose means are of few repetitions; empty for others."""
    most = view.repetitions[1]
    return f"Only {count_of(most, 'repetition')}: a trial run, whose numbers move" if 0 < most <= _FEW else ""


def in_order(page: StudyPage) -> list[Estimator]:
    """Return the page's estimators in the order of the catalog."""
    return sorted(page.estimators, key=lambda entry: (entry.order, entry.name))


def _about(page: StudyPage, entry: Estimator) -> tuple[str, ...]:
    required = [item["name"] for item in describe_keywords(entry.parameters) if item["required"]]
    public = [name for name in required if name not in ("epsilon", "delta")]
    return (
        f"{entry.title} ({entry.name})",
        entry.summary,
        origin_of(entry) or entry.reference,
        ", ".join(filter(None, (*public, entry.public))) or "nothing",
        "; ".join(page.settings.get(entry.name, ())) or "none",
    )


def origin_of(entry: Estimator) -> str:
    """Say which file an estimator from outside is in; empty for one of the project."""
    module = outside_plugins().modules.get(entry.function.__module__)
    if module is None:
        return ""
    file = Path(str(module.__file__))
    return f"from outside of dpcost: {file.name}, sha256 {sha256_file(file)[:12]}"


def _title(page: StudyPage) -> str:
    return page.title if "what privacy costs" in page.title else f"{page.title}: what privacy costs"


def lineage(view: View) -> list[tuple[str, list[str]]]:
    """Return the steps from the raw file to the page, with what is known of each."""
    page, manifest, steps = view.page, view.page.manifest, []
    for card in page.data_cards:
        read, dataset = card.read, card.dataset
        mended = repaired(card.repairs)
        digest = f"SHA-256 {read['source_sha256'][:12]}…" if read["source_sha256"] else ""
        steps.append(("Raw file", [dataset.title, f"read from {read['origin']}", digest, dataset.license]))
        rows = f"{count_of(read['rows_read'], 'row')} read, {read['n_rows']:,} used"
        checks = f"{count_of(len(card.checks), 'check')} passed" if card.checks else ""
        steps.append(("Table", [rows, mended, checks]))
    if not page.data_cards:
        steps.append(("Simulated rows", [page.dataset.title, "anew in every repetition"]))
    panels = [f"{name}: {page.panels_and_forms.get(name, '')}".rstrip(": .") for name in view.panels if name]
    if panels:
        steps.append(("Designs", panels[:4]))
    cells = count_of(view.table["cell"].nunique(), "cell")
    seed = f"seed {manifest['seed']}" if "seed" in manifest else ""
    made = manifest.get("blocks")
    blocks = (
        f"{count_of(made['computed'], 'block')} computed, {made['stored']} from the cache" if made else ""
    )
    steps.append(("Blocks of cells", [cells, blocks, _run_line(view), seed]))
    commit = f"commit {str(manifest['commit'])[:12]}" if manifest.get("commit") else ""
    return [*steps, ("This page", [when(manifest.get("finished", "")), commit])]


_MODELS = {
    "central": "central: a trusted curator sees the data and releases the noisy answer",
    "local": "local: every person adds noise before anyone sees their data",
    "user": "user-level, central: a trusted curator, and all rows of a person count as one",
}


def guarantees(page: StudyPage) -> list[dict[str, Any]]:
    """Group the private estimators by the promise they make: whom it protects, and against which change."""
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for entry in in_order(page):
        if entry.private:
            promise = entry.privacy_model, entry.unit_of_privacy, entry.neighboring_relation
            grouped.setdefault(promise, []).append(entry.title)
    data = page.dataset
    of_row = f" ({data.privacy_unit})" if data.data_source != "simulated" and data.privacy_unit else ""
    return [
        {
            "estimators": names,
            "model": _MODELS.get(model, model),
            "unit": unit if unit == "user" else unit + of_row,
            "neighbors": neighbors,
        }
        for (model, unit, neighbors), names in grouped.items()
    ]


def budget_bar(page: StudyPage, part: BudgetPart) -> dict[str, Any]:
    """Return the bar of an estimator's budget: (label, share, opacity) of its parts, ever lighter."""
    info, steps = page.estimator(part.estimator), max(1, len(part.parts) - 1)
    total = sum(share for _, share in part.parts) or 1.0
    parts = [
        (label, share / total, round(1 - 0.72 * i / steps, 3)) for i, (label, share) in enumerate(part.parts)
    ]
    name = with_form(info.title, part.form)
    return {"name": name, "slot": info.order, "parts": parts}


def _run_line(view: View) -> str:
    low, high = view.repetitions
    times = f"{low} to {high} repetitions" if low != high else count_of(low, "repetition")
    manifest = view.page.manifest
    profile = f"Profile {manifest['profile']}, " if manifest.get("profile") else ""
    finished = when(manifest.get("finished", ""))
    return f"{profile}{times} per cell{f', finished {finished}' if finished else ''}"
