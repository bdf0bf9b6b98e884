"""A study's report: table and page in, files out. Nothing is written here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from data.store.folders import sha256_file
from dpalgos.catalog import Estimator
from dpalgos.params import describe_keywords
from dpalgos.plugins import outside_plugins
from reports.charts.drawing import banner, packed_chart, packed_library
from reports.charts.study import Pictures
from reports.headline import noise_comparisons
from reports.page import StudyPage
from reports.pages import attack_page, error_page, league
from reports.pages.data_card import render_data_card
from reports.pages.index import Card
from reports.pages.text import manifest_rows, render_page
from reports.results import summarize
from reports.series import View
from reports.table import (
    PageTable,
    Section,
    certified_table,
    comparison_table,
    facts,
    failure_table,
    setting_title,
    summary_csv,
)
from reports.writing import count_of, duration, percent, repaired, setting, when, with_form, words

LAYOUTS = {
    "error_page": error_page.content,
    "attack_page": attack_page.content,
    "league_page": league.content,
}
_FILES = ("report.html", "report.md", "summary.csv", "results.parquet", "manifest.json")


def render_study(results: pd.DataFrame, page: StudyPage) -> dict[str, bytes]:
    """Return a report's files by relative path, from a valid results table, possibly without rows.

    They are `report.html`, `report.md`, `data-NAME.html` per dataset, `summary.csv`, `card.json`, and
    `figures/*.svg` and `*.png`. The same input gives the same bytes.
    """
    summary = summarize(results)
    view = View.build(summary, page)
    layout = LAYOUTS[page.layout](view, summary)
    headline, pictures = layout.headline, layout.pictures
    sections = [
        *layout.sections,
        _trust(results, view, pictures),
        _origin(view),
        _failures(results, view),
        _again(page),
    ]
    files: dict[str, bytes] = {}
    for picture in (*pictures.files(), *_pictures_of(sections)):
        files[f"figures/{picture.name}.svg"] = picture.svg
        if picture.png is not None:
            files[f"figures/{picture.name}.png"] = picture.png
    live = pictures.live
    html, markdown = render_page(
        page.title if "what privacy costs" in page.title else f"{page.title}: what privacy costs",
        headline.sentence,
        sections,
        heading=page.title,
        links_on_top=[("All studies", "../index.html")],
        banner=banner(page.data_source) or page.warning or few_repetitions(view),
        sentence=headline.sentence,
        number=headline.number,
        pictures=pictures,
        caption=layout.caption,
        lead=[page.question, *layout.answers, f"{_run_line(view)}."],
        scripts=["filter.js", *(["chart.js"] if live else [])],
        data={"chart-data": packed_chart(live), "vega-library": packed_library()} if live else {},
    )
    files |= {"report.html": html, "report.md": markdown, "summary.csv": summary_csv(summary).encode("utf-8")}
    for card in page.data_cards:
        files[card.file] = render_data_card(card, banner(card.read["data_source"]) or page.warning)
    files["card.json"] = Card.of(page, headline, pictures.card, view).to_json().encode("utf-8")
    return files


def _pictures_of(sections: Sequence[Section]) -> list[Any]:
    found = [part.picture for part in sections if part.picture is not None]
    return found + [each for part in sections for each in _pictures_of(part.parts)]


def _trust(results: pd.DataFrame, view: View, pictures: Pictures) -> Section:
    page, head, size = view.page, view.headline, view.headline_size
    comparisons = noise_comparisons(view.series(head), size) if head and size else ()
    promises = [
        f"{words(promise['estimators'])}. Protected: {promise['unit']}. Neighboring data sets: "
        f"{promise['neighbors']}. Model: {promise['model']}."
        for promise in guarantees(page)
    ]
    parts = [Section("What ε means as a risk", page.risk)] if page.risk else []
    if pictures.certified is not None:
        audited = any(p.audited == p.audited for s in view.series(head) for p in s.points)
        told = _AUDITED if audited else "No empirical audit was run in this study, so no audited ε is drawn."
        parts.append(Section("What the noise proves", f"{_CERTIFIED} {told}", table=certified_table(view)))
    if comparisons and head is not None and size is not None:
        caption = f"Mean error at {page.axis.symbol} = {setting(size)}, {setting_title(view, head)}"
        title = "Printed noise against the least noise that can be proved enough"
        parts.append(Section(title, table=comparison_table(comparisons, caption), folded=True))
    if split := budget_split(page):
        title = "How the privacy budget is split"
        parts.append(Section(title, table=PageTable(("Estimator", "Parts"), split, title, 2), folded=True))
    if page.assumptions:
        rows = [(each.what, each.value, each.source) for each in page.assumptions]
        table = PageTable(("What", "Value", "Where it comes from"), rows, "Assumptions", 3, stacked=True)
        parts.append(Section("What was assumed public", table=table, folded=True))
    if page.panels_and_forms:
        bare = page.unprotected_panels
        named = [
            ((name or "plain") + (" (not private)" if name in bare else ""), about)
            for name, about in page.panels_and_forms.items()
        ]
        parts.append(facts(f"{page.panel_word.capitalize()}s and forms", named))
    about = PageTable(
        ("Estimator", "What it does", "Source", "What must be public", "Settings here"),
        [_about(page, each) for each in in_order(page)],
        "Estimators",
        5,
        stacked=True,
    )
    parts.append(Section("The estimators", table=about, folded=True))
    measured = [page.measured] if page.measured else []
    bullets = [*promises, *page.notes]
    return Section("Can I trust it?", measured, pictures.certified, bullets=bullets, parts=parts, id="trust")


_CERTIFIED = (
    "Every release is recorded as an event and composed by an accountant; the result is the certified ε at "
    "the requested δ. In the picture a bar spans the sizes."
)
_AUDITED = (
    "A triangle is an empirical audit: an attack on worst-case data showed, with 99.9 % confidence, that ε "
    "is at least this large. It must lie left of the certified ε; how near it comes depends on the number "
    "of trials."
)


def _origin(view: View) -> Section:
    page = view.page
    steps = [(name, "; ".join(filter(None, known))) for name, known in lineage(view)]
    table = PageTable(("Step", "What is known of it"), steps, "From the data to this page", 2, stacked=True)
    cards = [(f"Data card: {card.dataset.title}", card.file) for card in page.data_cards]
    earlier = [
        f"In runs until {when(one['finished'])} the file had another content: SHA-256 {one['source_sha256']}."
        for one in page.manifest.get("earlier_contents", [])
    ]
    return Section("Where did this come from?", table=table, bullets=earlier, links=cards, id="from")


def _failures(results: pd.DataFrame, view: View) -> Section:
    table = failure_table(results, view)
    n_answers = count_of(int((results["metric"] == view.page.metric).sum()), "repetition")
    heading = "What failed or was refused, and why"
    if not table.rows:
        return Section(heading, f"Nothing: all {n_answers} gave an answer.", id="failed")
    text = f"Of {n_answers}, these gave no answer. They are left out of the means and marked in the figures."
    return Section(heading, text, table=table, id="failed")


def _again(page: StudyPage) -> Section:
    manifest = page.manifest
    took = f" (after {duration(page.seconds)})" if page.seconds else ""
    ran = [
        ("Started", when(manifest.get("started", ""))),
        ("Finished", when(manifest.get("finished", "")) + took),
        ("Profile", manifest.get("profile", "")),
        ("Machine", manifest.get("machine", "")),
        *manifest_rows(manifest),
    ]
    commands = [manifest["command"]] if manifest.get("command") else []
    rerun = Section(
        "One part of it, everything else from the cache", commands=manifest.get("rerun_commands", ())
    )
    text = "The same seed gives the same numbers; results.parquet has every repetition."
    parts = [*([rerun] if rerun.commands else []), facts("About this run", ran)]
    files = [(name, name) for name in _FILES]
    return Section("How do I run it again?", text, commands=commands, links=files, parts=parts, id="again")


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
        steps.append(("Simulated rows", [page.simulated, "anew in every repetition"]))
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
    rows = dict.fromkeys(card.dataset.privacy_unit for card in page.data_cards)
    of_row = f" ({'; '.join(rows)})" if rows else ""
    return [
        {
            "estimators": names,
            "model": _MODELS.get(model, model),
            "unit": unit if unit == "user" else unit + of_row,
            "neighbors": neighbors,
        }
        for (model, unit, neighbors), names in grouped.items()
    ]


def budget_split(page: StudyPage) -> list[tuple[str, str]]:
    """Return how each estimator splits its budget: its name, and the parts with their shares."""
    found = []
    for one in page.manifest.get("budgets", ()):
        name, shares = with_form(page.estimator(one["estimator"]).title, one["form"]), one["shares"]
        total = sum(shares.values()) or 1.0
        parts = [f"{label} {percent(share / total)}" for label, share in shares.items()]
        found.append((name, ", ".join(parts)))
    return found


def _run_line(view: View) -> str:
    low, high = view.repetitions
    times = f"{low} to {high} repetitions" if low != high else count_of(low, "repetition")
    manifest = view.page.manifest
    profile = f"Profile {manifest['profile']}, " if manifest.get("profile") else ""
    finished = when(manifest.get("finished", ""))
    return f"{profile}{times} per cell{f', finished {finished}' if finished else ''}"
