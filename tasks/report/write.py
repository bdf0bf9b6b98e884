"""Write a study's report, of a run or again from its stored results, and the index over all studies."""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import pandas as pd

from data.store.folders import atomic_write, read_json, read_small
from data.store.references import DatasetRef
from reports.analysis.results import EXHIBITS
from reports.pages.index import Card, render_index
from tasks.cache.keys import UNCACHED, CacheKey, cache_key
from tasks.cache.records import Record, located, written
from tasks.faults import guarded
from tasks.report.build_page import build_page
from tasks.report.manifest import build_manifest
from tasks.study.spec import StudySpec

_log = logging.getLogger(__name__)


@guarded
def render(
    key: CacheKey, spec: StudySpec, tables: list[DatasetRef], results: Record, context: dict[str, Any]
) -> Record:
    """Write the report of a run next to its results table; return the manifest's record with the headline."""
    return write_report(spec, located(results), build_manifest(spec, tables, results, context), key)


def write_report(
    spec: StudySpec, results_path: Path, manifest: dict[str, Any], key: CacheKey = UNCACHED
) -> Record:
    """Write all files of a report except the results table, the manifest last."""
    out = results_path.parent
    results = pd.read_parquet(results_path)
    run = {panel.name for panel in spec.panels_at(manifest["profile"])} - set(manifest.get("not_run", {}))
    spec = spec.without_panels({panel.name for panel in spec.panels} - run)
    page = build_page(spec, results, manifest, load_exhibits(out))
    from reports.pages.study import render_study  # what draws is loaded where something is drawn

    files = render_study(results, page)
    return written(
        key,
        out / "manifest.json",
        json.dumps(manifest, indent=1, ensure_ascii=False).encode(),
        files,
        headline=Card.from_json(files["card.json"]).headline,
        report=str(out / "report.html"),
    )


def load_exhibits(folder: Path) -> dict[str, Any]:
    """Return the content of each exhibit that `tasks.run.exhibit` wrote, by name."""
    try:
        return dict(read_json(folder / EXHIBITS))
    except FileNotFoundError:
        return {}


def write_index(out: Path) -> Path:
    """Write the index page unless it is of these cards; its owner's alone while a study's folder is."""
    paths, index = sorted(out.glob("*/card.json")), out / "index.html"
    private = any(not path.parent.stat().st_mode & 0o077 for path in paths)
    contents = {str(path): _content(path) for path in paths}
    made_of = [private, *(hashlib.sha256(content).hexdigest() for content in contents.values())]
    mark = f"<!-- {cache_key('index', [render_index.__module__], made_of, of_page=True)} -->\n".encode()
    if index.exists() and _content(index).endswith(mark):
        return index
    cards = [card for path, content in contents.items() if (card := card_of(content, path))]
    whole = len(cards) == len(paths)  # a damaged card is told of each time
    atomic_write(index, render_index(cards)["index.html"] + (mark if whole else b""), private=private)
    return index


def card_of(content: bytes, path: str) -> Card | None:
    """Read a study's card; None, and a warning, if it is damaged."""
    try:
        return Card.from_json(content)
    except (ValueError, TypeError, RecursionError):
        study = Path(path).parent.name
        _log.warning("%s is damaged and left out of the index; run: dpcost report %s", path, study)
        return None


def _content(path: Path) -> bytes:
    try:
        return read_small(path, limit=10**8)
    except OSError:
        return b""
