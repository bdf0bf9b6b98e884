"""Copy finished reports into a folder or to an fsspec address; never a page of an analyst's own table."""

from pathlib import Path
from typing import Any

import fsspec

from data.store.folders import read_json, read_small
from reports.pages.index import Entry, render_index
from reports.render import SCRIPT, page_script
from tasks.errors import SpecError
from tasks.report.manifest import MANIFEST

INDEX_TITLE = b"<title>What privacy costs: all studies</title>"  # of every index page
_LARGEST = 500_000_000  # bytes of a file
_HEAD = 100_000  # bytes of a page, in which its title stands


def publish(target: str, reports: Path, *, force: bool = False) -> tuple[str, list[str], list[str]]:
    """Copy the reports in a folder; return the index page, the studies on it, and those left out as private.

    Files that are there and not of a report stay. A place whose index page is another one is refused.
    """
    if "://" not in target and Path(target).resolve().is_relative_to(reports.resolve()):
        raise SpecError(f"{target} must be another folder than {reports}, which is read; name another")
    private, folders = list[Path](), list[Path]()
    for manifest in sorted(reports.glob(f"*/{MANIFEST}")):
        (private if _is_private(manifest) else folders).append(manifest.parent)
    if not folders:
        raise SpecError(f"no report to publish in {reports}; run e.g.: dpcost run housing")
    entries = [_entry(folder) for folder in folders]
    try:
        files, top = fsspec.core.url_to_fs(target)
        _check_place(files, top, target, force=force)
        for folder in folders:
            for path in _files_of(folder):
                _write(
                    files,
                    f"{top}/{folder.name}/{path.relative_to(folder).as_posix()}",
                    read_small(path, _LARGEST),
                )
        for name, content in {**render_index(entries), SCRIPT: page_script()}.items():
            _write(files, f"{top}/{name}", content)
    except SpecError:
        raise
    except Exception as error:  # each kind of file system has its own
        raise SpecError(f"{target} cannot be written ({error}); name a folder or an fsspec address") from None
    return f"{target.rstrip('/')}/index.html", [folder.name for folder in folders], [p.name for p in private]


def _is_private(manifest: Path) -> bool:
    """Whether a report is not for publication; one that does not say is none to publish either."""
    return "warning" in _entry(manifest.parent).manifest


def _entry(folder: Path) -> Entry:
    try:
        return Entry.of(
            folder.name, read_json(folder / MANIFEST), read_small(folder / "summary.csv", _LARGEST)
        )
    except (OSError, ValueError):
        raise SpecError(f"{folder / MANIFEST} is damaged; run: dpcost report {folder.name}") from None


def _files_of(folder: Path) -> list[Path]:
    """Return the report's files, the page last; neither links nor files that are being written."""
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and not p.is_symlink() and p.name[0] != "."]
    return sorted(files, key=lambda path: path.name == "report.html")


def is_index(files: Any, path: str) -> bool:
    """Whether a file of a file system of fsspec is an index page that this program wrote."""
    return bool(files.isfile(path)) and INDEX_TITLE in files.cat_file(path, end=_HEAD)


def _check_place(files: Any, top: str, target: str, *, force: bool) -> None:
    if force or not files.exists(top) or not files.ls(top):
        return
    if not is_index(files, f"{top}/index.html"):
        raise SpecError(
            f"{target} must be empty or hold published reports, and its index.html is missing or another "
            "page; name another folder, or add --force"
        )


def _write(files: Any, path: str, content: bytes) -> None:
    files.makedirs(path.rpartition("/")[0], exist_ok=True)
    files.pipe_file(path, content)
