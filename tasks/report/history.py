"""What a study's headline was at each run, kept next to its report."""

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from data.store.folders import read_json
from reports.page import StudyPage
from reports.pages.history import MOST, Entry, render_history
from reports.pages.index import Card

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
