"""The page of a dataset: its public record, and what was read of it."""

from __future__ import annotations

from reports.page import DataCard
from reports.render import PageTable, Section, render_page
from reports.writing import repaired


def render_data_card(card: DataCard, warning: str) -> bytes:
    """Return the page of a dataset."""
    dataset, read = card.dataset, card.read
    facts = [
        ("Name", dataset.name),
        ("A row is", dataset.privacy_unit),
        ("License", dataset.license),
        ("Citation", dataset.citation),
        ("Official address", read["source_url"]),
        ("Read from", read["origin"]),
        ("SHA-256 of the file", read["source_sha256"]),
        ("SHA-256 of the table", read["sha256"]),
    ]
    known = PageTable(("What", "Value"), [pair for pair in facts if pair[1]], "The dataset", 2, stacked=True)
    mended = [f"{repaired([each])}: {each['reason']}" for each in card.repairs]
    rows = f"{read['rows_read']:,} read, {read['n_rows']:,} used."
    sections = [
        Section("What it is", table=known),
        Section(
            "Rows",
            [rows if mended else f"{rows} Nothing was left out or changed.", *read["reasons"]],
            bullets=mended,
        ),
    ]
    if card.checks:
        sections.append(Section("Checks passed", bullets=card.checks))
    if card.columns:
        names = ("Column", "Unit", "Public bounds", "Public scale", "Where bounds and scale come from")
        heading = "Columns and what is public about them"
        sections.append(Section(heading, table=PageTable(names, card.columns, "Columns", 5, stacked=True)))
    return render_page(
        f"{dataset.title}: data card",
        dataset.description,
        sections,
        heading=dataset.title,
        links_on_top=[("Back to the report", "report.html"), ("All studies", "../index.html")],
        banner=warning,
        lead=[dataset.description],
    )[0]
