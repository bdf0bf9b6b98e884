"""Copies reports to the shared store, for people who have no access to the machine that wrote them."""

import logging
import re
from pathlib import Path, PurePosixPath

from data.errors import StoreError
from data.store.folders import REPORTS, read_json
from data.store.shared import (
    VARIABLE,
    read_all_shared,
    remove_shared,
    share_as,
    shared_address,
    shared_files,
    write_shared,
)
from reports.pages.index import render_index
from tasks.report.write import card_of

FOLDER = "reports"  # of the shared store
MANIFEST = "manifest.json"

_log = logging.getLogger(__name__)


def share_report(folder: Path) -> None:
    """Copy a study's results and report to the shared store, if there is one, and write the index there.

    While there is no manifest, the files beside a page may be of two runs: the old one goes first, the new
    one comes last. A report that is not for publication stays. A store that cannot be used is a warning.
    """
    if not shared_address() or "warning" in read_json(folder / MANIFEST):
        return
    try:
        top = _place(folder.parent)
        _copy(folder, f"{top}/{folder.name}")
        _write_index(top)
    except StoreError as error:
        _log.warning(
            "the report of %s lies in %s alone: %s. To copy it to %s, run: dpcost report %s",
            *(folder.name, folder, error, VARIABLE, folder.name),
        )


def _place(out: Path) -> str:
    whole = out.resolve()
    below = whole.relative_to(REPORTS.resolve()) if whole.is_relative_to(REPORTS.resolve()) else whole.name
    return (PurePosixPath(FOLDER) / below).as_posix()


def _copy(folder: Path, place: str) -> None:
    found = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if _is_of_report(path)]
    names = [path.as_posix() for path in found]
    before = [file.name.removeprefix(f"{place}/") for file in shared_files(place)]
    remove_shared([f"{place}/{MANIFEST}"])
    for name in sorted(names, key=lambda name: (name == MANIFEST, name == "report.html")):
        if name == MANIFEST:
            remove_shared([f"{place}/{each}" for each in before if each not in names])
        share_as(folder / name, f"{place}/{name}")


def _is_of_report(path: Path) -> bool:
    """Whether it is a file, and neither a link nor one that is being written."""
    return path.is_file() and not path.is_symlink() and not path.name.startswith(".")


def _write_index(top: str) -> None:
    card = re.compile(rf"{re.escape(top)}/[^/]+/card\.json")
    cards = [file.name for file in shared_files(top) if card.fullmatch(file.name)]
    found = [card_of(content, name) for name, content in sorted(read_all_shared(cards).items())]
    for name, content in render_index([card for card in found if card]).items():
        write_shared(f"{top}/{name}", content)
