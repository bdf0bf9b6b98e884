"""Write a study's report with its history, and the index over all studies; copy them to the shared store.

The shared store is for people who have no access to the machine that wrote the reports.
"""

import hashlib
import json
import logging
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from data.errors import StoreError
from data.store.folders import REPORTS, atomic_write, closed_folder, read_json, read_small, sha256_file
from data.store.shared import (
    VARIABLE,
    read_all_shared,
    remove_shared,
    share_as,
    shared_address,
    shared_files,
    write_shared,
)
from reports.analysis.results import EXHIBITS
from reports.page import StudyPage
from reports.pages.history import MOST, Entry, render_history
from reports.pages.index import Card, render_index
from tasks.cache import digest
from tasks.report.build_page import build_page
from tasks.report.manifest import MANIFEST
from tasks.study.spec import StudySpec

_SPARK = 60  # values on the index
FOLDER = "reports"  # of the shared store
_TABLES = ("results.parquet", "timings.parquet")

_log = logging.getLogger(__name__)


def write_report(
    spec: StudySpec, results_path: Path, manifest: dict[str, Any], exhibits: bytes | None = None
) -> Path:
    """Write all files of a report except the results table, the manifest last; return the page."""
    out = results_path.parent
    if spec.analyst_table is not None:
        closed_folder(out)
    if exhibits is not None:
        atomic_write(out / EXHIBITS, exhibits)
    page, results = page_of(spec, results_path, manifest)
    from reports.pages.study import render_study  # what draws is loaded where something is drawn

    files = render_study(results, page)
    card = Card.from_json(files["card.json"])
    entries = with_this_run(out, card, manifest)
    files |= history_files(page, entries)
    past = [entry.value for entry in entries if entry.profile == manifest["profile"]]
    files["card.json"] = replace(card, history=past[-_SPARK:]).to_json().encode()
    for name, content in files.items():
        atomic_write(out / name, content)
    names = [*files, EXHIBITS, *_TABLES]
    digests = {name: sha256_file(out / name) for name in names if (out / name).exists()}
    content = json.dumps({**manifest, "files": digests}, indent=1, ensure_ascii=False).encode()
    atomic_write(out / MANIFEST, content)
    return out / "report.html"


def page_of(spec: StudySpec, results_path: Path, manifest: dict[str, Any]) -> tuple[StudyPage, pd.DataFrame]:
    """Return the page and the results table of a run, with the panels that ran."""
    results = pd.read_parquet(results_path)
    run = {panel.name for panel in spec.panels_at(manifest["profile"])} - set(manifest.get("not_run", {}))
    spec = spec.without_panels({panel.name for panel in spec.panels} - run)
    return build_page(spec, results, manifest, load_exhibits(results_path.parent)), results


def load_exhibits(folder: Path) -> dict[str, Any]:
    """Return the content of each exhibit that `tasks.run.headline` wrote, by name."""
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
    mark = f"<!-- {digest([render_index.__module__], 'index', made_of, of_page=True)} -->\n".encode()
    if index.exists() and _content(index).endswith(mark):
        return index
    cards = [card for path, content in contents.items() if (card := card_of(content, path))]
    whole = len(cards) == len(paths)  # a damaged card is reported each time
    atomic_write(index, render_index(cards)["index.html"] + (mark if whole else b""), private=private)
    return index


def card_of(content: bytes, path: str) -> Card | None:
    """Read a study's card; None, and a warning, if it is damaged."""
    try:
        return Card.from_json(content)
    except ValueError:
        study = Path(path).parent.name
        _log.warning("%s is damaged and left out of the index; run: dpcost report %s", path, study)
        return None


def _content(path: Path) -> bytes:
    try:
        return read_small(path, limit=10**8)
    except OSError:
        return b""


def share_report(folder: Path) -> None:
    """Copy a study's results and report to the shared store, if there is one, and write the index there.

    While there is no manifest, the files next to a page may be of two runs: the old one goes first, the new
    one comes last. A report that is not for publication stays. A store that cannot be used is a warning.
    """
    if not shared_address() or "warning" in read_json(folder / MANIFEST):
        return
    try:
        top = _folder_in_store(folder.parent)
        _copy(folder, f"{top}/{folder.name}")
        _write_index(top)
    except StoreError as error:
        _log.warning(
            "the report of %s lies in %s alone: %s. To copy it to %s, run: dpcost report %s",
            *(folder.name, folder, error, VARIABLE, folder.name),
        )


def _folder_in_store(out: Path) -> str:
    whole = out.resolve()
    below = whole.relative_to(REPORTS.resolve()) if whole.is_relative_to(REPORTS.resolve()) else whole.name
    return (PurePosixPath(FOLDER) / below).as_posix()


def _copy(folder: Path, address: str) -> None:
    files = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if _is_of_report(path)]
    names = [path.as_posix() for path in files]
    before = [file.name.removeprefix(f"{address}/") for file in shared_files(address)]
    remove_shared([f"{address}/{MANIFEST}"])
    for name in sorted(names, key=lambda name: (name == MANIFEST, name == "report.html")):
        if name == MANIFEST:
            remove_shared([f"{address}/{each}" for each in before if each not in names])
        share_as(folder / name, f"{address}/{name}")


def _is_of_report(path: Path) -> bool:
    """Whether it is a file, and neither a link nor one that is being written."""
    return path.is_file() and not path.is_symlink() and not path.name.startswith(".")


def _write_index(top: str) -> None:
    card = re.compile(rf"{re.escape(top)}/[^/]+/card\.json")
    cards = [file.name for file in shared_files(top) if card.fullmatch(file.name)]
    cards_of_studies = [card_of(content, name) for name, content in sorted(read_all_shared(cards).items())]
    for name, content in render_index([card for card in cards_of_studies if card]).items():
        write_shared(f"{top}/{name}", content)


FILE, PAGE = "history.json", "history.html"


def entries_of(folder: Path) -> list[Entry]:
    """Return the runs that a folder remembers, the oldest first; a damaged file is begun anew."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return [Entry.from_plain(fields) for fields in read_json(folder / FILE)]
    return []


def with_this_run(folder: Path, card: Card, manifest: dict[str, Any]) -> list[Entry]:
    """Return a folder's entries and the one of a run, unless it has no value or is the last one again."""
    entries = entries_of(folder)
    if card.value is None:
        return entries
    if not entries or entries[-1].results != manifest["results_sha256"]:
        entries.append(
            Entry(
                finished=manifest["finished"],
                profile=manifest["profile"],
                replicates=manifest.get("replicates"),
                commit=manifest["commit"],
                data=tuple(one["source_sha256"] for one in manifest["data"]),
                results=manifest["results_sha256"],
                value=card.value,
                error=math.nan if card.value_error is None else card.value_error,
                headline=card.headline,
            )
        )
    return entries[-MOST:]


def history_files(page: StudyPage, entries: Sequence[Entry]) -> dict[str, bytes]:
    """Return the history and its page, by name; nothing without entries."""
    if not entries:
        return {}
    kept = json.dumps([entry.to_plain() for entry in entries], ensure_ascii=False, indent=1)
    return {FILE: kept.encode(), PAGE: render_history(page.title, page.metric_label, entries)}
