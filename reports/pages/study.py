"""A study's report: table and page in, files out. Nothing is written here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from data.store.folders import sha256_file
from dpalgos.catalog import Estimator
from dpalgos.params import describe_keywords
from dpalgos.plugins import outside_plugins
from reports.cells import cells_of, errors_of, panels_of, repetitions
from reports.charts.drawing import Picture, banner
from reports.page import StudyPage
from reports.pages import attack_page, error_page, league
from reports.pages.data_card import render_data_card
from reports.ranking import Headline, headline_of
from reports.render import SCRIPT, PageTable, Section, facts, render_page
from reports.results import summarize
from reports.table import failure_table, summary_csv
from reports.writing import (
    count_of,
    duration,
    percent,
    render_sentence,
    repaired,
    when,
    with_form,
)

LAYOUTS = {
    "error_page": error_page.content,
    "attack_page": attack_page.content,
    "league_page": league.content,
}
_FILES = ("report.html", "report.md", "summary.csv", "results.parquet", "manifest.json")
_FEW = 4  # repetitions, up to which a page says that they are few


@dataclass(frozen=True)
class Report:
    """A report's files by relative path, and its entry in the index: a part of the manifest."""

    files: Mapping[str, bytes]
    about: Mapping[str, Any]


def render_study(results: pd.DataFrame, page: StudyPage) -> Report:
    """Return a report from a valid results table, possibly without rows.

    Its files are `report.html`, `report.md`, `data-NAME.html` per dataset, `summary.csv`, and
    `figures/*.svg` and `*.png`. The same input gives the same bytes.
    """
    summary = summarize(results)
    cells = cells_of(summary, page)
    errors, head = errors_of(cells, page), headline_of(cells, page)
    layout = LAYOUTS[page.layout](page, cells, head)
    pictures, (low, most) = layout.pictures, repetitions(errors)
    run = render_sentence("run", page=page, low=low, high=most)
    sections = [
        *layout.sections,
        _trust(page, head, pictures.certified),
        _origin(page, errors, run),
        _failures(results, page),
        _again(page),
    ]
    files: dict[str, bytes] = {}
    for picture in (*pictures.files(), *(each for section in sections for each in section.pictures)):
        files[f"figures/{picture.name}.svg"] = picture.svg
        if picture.png is not None:
            files[f"figures/{picture.name}.png"] = picture.png
    few = render_sentence("few_repetitions", n=most) if 0 < most <= _FEW else ""
    html, markdown = render_page(
        page.title if "what privacy costs" in page.title else f"{page.title}: what privacy costs",
        layout.sentence,
        sections,
        heading=page.title,
        links_on_top=[("All studies", "../index.html")],
        banner=banner(page.data_source) or page.warning or few,
        sentence=layout.sentence,
        number=layout.number,
        main=pictures.main,
        charts=pictures.live,
        caption=layout.caption,
        lead=[page.question, *layout.answers, run],
        script=f"../{SCRIPT}",
    )
    files |= {"report.html": html, "report.md": markdown, "summary.csv": summary_csv(summary).encode("utf-8")}
    for card in page.data_cards:
        files[card.file] = render_data_card(card, banner(card.read["data_source"]) or page.warning)
    about = {
        "title": page.title,
        "headline": layout.sentence,
        "data_source": page.source_of(str(page.headline["panel"])),
        "kind": page.kind.replace("_", " "),
        "datasets": [card.dataset.name for card in page.data_cards],
        "estimators": [info.title for info in page.estimators],
        "errors": layout.errors,
        "figure": pictures.card is not None,
    }
    return Report(files, about)


def _trust(page: StudyPage, head: Headline | None, certified: Picture | None) -> Section:
    parts = [Section("What ε means as a risk", page.risk)] if page.risk else []
    if certified is not None:
        audited = head is not None and any(row.audited == row.audited for row in head.rows)
        text = render_sentence("certified", audited=audited)
        parts.append(Section("Certified and audited ε", text, certified, id="certified"))
    if split := budget_split(page):
        title = "Budget shares"
        parts.append(Section(title, table=PageTable(("Estimator", "Parts"), split, title, 2), folded=True))
    if page.assumptions:
        rows = [(each.what, each.value, each.source) for each in page.assumptions]
        table = PageTable(("What", "Value", "Source"), rows, "Public facts", 3, stacked=True)
        parts.append(Section("What was assumed public", table=table, folded=True))
    if page.panels_and_forms:
        bare = page.unprotected_panels
        named = [
            ((name or "plain") + (" (not private)" if name in bare else ""), about)
            for name, about in page.panels_and_forms.items()
        ]
        parts.append(facts(f"{page.panel_word.capitalize()}s and variants", named))
    names = ("Estimator", "What it does", "Source", "What must be public", "Settings here")
    about = PageTable(names, [_about(page, each) for each in in_order(page)], "Estimators", 5, stacked=True)
    parts.append(Section("The estimators", table=about, folded=True))
    measured = [page.measured] if page.measured else []
    bullets = [*(render_sentence("guarantee", **each) for each in guarantees(page)), *page.notes]
    return Section("Can I trust it?", measured, bullets=bullets, parts=parts, id="trust")


def _origin(page: StudyPage, errors: pd.DataFrame, run: str) -> Section:
    steps = [(name, "; ".join(filter(None, known))) for name, known in lineage(page, errors, run)]
    table = PageTable(("Step", "What is known"), steps, "From the data to this page", 2, stacked=True)
    cards = [(f"Data card: {card.dataset.title}", card.file) for card in page.data_cards]
    earlier = [
        render_sentence("earlier", finished=when(one["finished"]), sha256=one["source_sha256"])
        for one in page.manifest.get("earlier_contents", [])
    ]
    return Section("Where did this come from?", table=table, bullets=earlier, links=cards, id="from")


def _failures(results: pd.DataFrame, page: StudyPage) -> Section:
    table = failure_table(results, page)
    n_answers = int((results["metric"] == page.metric).sum())
    text = render_sentence("failures", n_answers=n_answers, any=bool(table.rows))
    return Section("Failures and refusals", text, table=table if table.rows else None, id="failed")


def _again(page: StudyPage) -> Section:
    manifest = page.manifest
    took = f" (after {duration(page.seconds)})" if page.seconds else ""
    ran = [
        ("Started", when(manifest.get("started", ""))),
        ("Finished", when(manifest.get("finished", "")) + took),
        ("Profile", manifest.get("profile", "")),
        ("Machine", manifest.get("machine", "")),
    ]
    commands = [manifest["command"]] if manifest.get("command") else []
    rerun = Section("One part of it, the rest from the cache", commands=manifest.get("rerun_commands", ()))
    whole = json.dumps(manifest, indent=1, ensure_ascii=False).splitlines()
    parts = [*([rerun] if rerun.commands else []), facts("About this run", ran)]
    parts.append(Section("Manifest", commands=whole, folded=True))
    files = [(name, name) for name in _FILES]
    text = render_sentence("again")
    return Section("How do I run it again?", text, commands=commands, links=files, parts=parts, id="again")


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
    return f"from outside dpcost: {file.name}, sha256 {sha256_file(file)[:12]}"


def lineage(page: StudyPage, errors: pd.DataFrame, run: str) -> list[tuple[str, list[str]]]:
    """Return the steps from the raw file to the page, with what is known of each."""
    manifest, steps = page.manifest, []
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
    panels = [
        f"{name}: {page.panels_and_forms.get(name, '')}".rstrip(": .")
        for name in panels_of(errors, page)
        if name
    ]
    if panels:
        steps.append(("Designs", panels[:4]))
    cells = count_of(errors["cell"].nunique(), "cell")
    seed = f"seed {manifest['seed']}" if "seed" in manifest else ""
    made = manifest.get("blocks")
    blocks = (
        f"{count_of(made['computed'], 'block')} computed, {made['stored']} from the cache" if made else ""
    )
    steps.append(("Blocks of cells", [cells, blocks, run.rstrip("."), seed]))
    commit = f"commit {str(manifest['commit'])[:12]}" if manifest.get("commit") else ""
    return [*steps, ("This page", [when(manifest.get("finished", "")), commit])]


_MODELS = {
    "central": "central: a trusted curator sees the data and releases the noisy answer",
    "local": "local: every person adds noise before anyone sees their data",
    "user": "user-level, central: a trusted curator, and all rows of a person count as one",
}


def guarantees(page: StudyPage) -> list[dict[str, Any]]:
    """Group the private estimators by their guarantee: the unit of privacy and the neighboring relation."""
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for entry in in_order(page):
        if entry.private:
            guarantee = entry.privacy_model, entry.unit_of_privacy, entry.neighboring_relation
            grouped.setdefault(guarantee, []).append(entry.title)
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
