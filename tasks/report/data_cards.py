"""What is public about the datasets of a study, for their cards."""

from collections.abc import Iterator
from typing import Any

from data.dataset import Column, Dataset
from reports.page import DataCard
from tasks.study.spec import StudySpec


def data_cards(spec: StudySpec, manifest: dict[str, Any]) -> tuple[DataCard, ...]:
    return tuple(_card(spec, spec.about(one["name"]), one) for one in manifest["data"])


def _card(spec: StudySpec, dataset: Dataset, one: dict[str, Any]) -> DataCard:
    stand_in = one["data_source"] == "stand-in"
    return DataCard(
        name=dataset.name,
        title=dataset.title,
        description=dataset.description,
        privacy_unit=dataset.privacy_unit,
        data_source=one["data_source"],
        license=dataset.license,
        citation=dataset.citation,
        source_url=one["source_url"],
        origin=one["origin"],
        sha256=one["source_sha256"],
        table_sha256=one["sha256"],
        rows_read=one["rows_read"],
        n_rows=one["n_rows"],
        repairs=tuple((repair["reason"], repair["count"]) for repair in one["repairs"]),
        columns=tuple(map(_column, dataset.columns)),
        checks=() if stand_in or spec.analyst_table else tuple(_checks(dataset, one)),
        notes=(*one.get("notes", ()), *one["reasons"]),
    )


def _column(column: Column) -> tuple[str, str, str, str, str]:
    known = column.center is not None
    scaled = f"(value − {column.center:,.10g}) / {column.scale:,.10g}" if known else ""
    return (
        column.name,
        column.unit,
        f"{column.lower:,.10g} to {column.upper:,.10g}".replace("-", "−"),
        scaled,
        column.bounds_source,
    )


def _checks(dataset: Dataset, one: dict[str, Any]) -> Iterator[str]:
    """Yield what ingestion refuses a file for: a table that lies in the store has passed."""
    known = next((s for s in dataset.sources if s.layout == one["layout"]), None)
    if known is not None and not known.checksum_is_unknown:
        yield f"the file’s SHA-256 is the published one, {known.expected_checksum}"
    if dataset.table_sha256:
        yield "the table’s digest, the same for every layout of the file, is the known one"
    if dataset.columns:
        yield "columns and their types are the declared ones, and every value lies within its public bounds"
    yield "no more rows were dropped than the registry allows"
