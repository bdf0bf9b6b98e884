"""Collect finished reports into a static site; never a page of an analyst's own table."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from data.store.folders import atomic_write, exchange, read_small, sha256_file
from reports.pages.index import Card
from reports.pages.site import arranged, broken_links, render_site
from tasks.errors import SpecError
from tasks.file_schema import read_strictly

_COPIED = ("report.html", "report.md", "results.parquet", "summary.csv", "manifest.json", "card.json")
_ALSO = ("history.html", "history.json", "data-*.html", "figures/*")
MARK = "dpcost-site.txt"  # what a folder that this command wrote holds: its files and their checksums
_NAME = re.compile(r"[a-z0-9_-]+")
_FILE = re.compile(r"[\w-][\w.-]*", re.ASCII)
_LARGEST = 500_000_000  # bytes of a file


class PublishedManifest(BaseModel):
    """What a site needs of a manifest."""

    warning: str | None = None
    commit: Annotated[str, Field(pattern=r"^[\w-]{0,60}$")] = ""


@dataclass(frozen=True)
class FinishedReport:
    """A report that may be published, in its folder."""

    folder: Path
    card: Card
    commit: str
    source: str

    def files(self) -> Iterator[Path]:
        yield from (path for name in _COPIED if os.path.lexists(path := self.folder / name))
        yield from (path for pattern in _ALSO for path in sorted(self.folder.glob(pattern)))


def publish(
    target: Path, folders: Sequence[Path], *, force: bool = False
) -> tuple[Path, list[str], list[str]]:
    """Write the site; return its index, the studies on it, and those left out because they are private.

    ``folders`` hold reports, each in a folder of its study's name: ``reports/out``, or another site. Whoever
    wrote them decides neither where files are written nor which others are read.
    """
    target = Path(os.path.abspath(target))
    _check_target(target, folders, force=force)
    private: list[str] = []
    reports = [one for folder in folders for one in finished_reports(folder, private)]
    if not reports:
        raise SpecError(
            f"no report to publish in {', '.join(map(str, folders))}; run e.g.: dpcost run housing"
        )
    part = target.with_name(f".{target.name}.part")
    _remove(part)
    try:
        names = _write_site(part, reports)
        _put_in_place(part, target)
    finally:
        _remove(part)
    return target / "index.html", names, private


def _write_site(part: Path, reports: Sequence[FinishedReport]) -> list[str]:
    """Write a whole site into a new folder, and return the names of its studies' folders."""
    by_card = {id(one.card): one for one in reports}
    runs = arranged((one.card, one.commit, one.source) for one in reports)
    sums, pages = dict[str, str](), dict[str, bytes]()

    def add(name: str, content: bytes) -> None:
        atomic_write(part / name, content)
        sums[name] = hashlib.sha256(content).hexdigest()

    for run in runs:
        report = by_card[id(run.card)]
        for path in report.files():
            name = f"{run.folder}/{path.relative_to(report.folder).as_posix()}"
            content = _content(path, report.folder)
            add(name, content)
            if path.suffix == ".html":
                pages[name] = content
    for name, content in render_site(runs).items():
        add(name, content)
        pages[name] = content
    if faults := broken_links(pages, sums):
        raise SpecError(f"the site would have links to nothing: {'; '.join(faults[:3])}; run: dpcost report")
    lines = [f"{sha256}  {name}\n" for name, sha256 in sorted(sums.items())]
    atomic_write(part / MARK, "".join(["Written by dpcost publish, with these files:\n", *lines]).encode())
    return [run.folder for run in runs]


def _check_target(target: Path, folders: Sequence[Path], *, force: bool) -> None:
    """Refuse a folder that is read, and one with files that are not those of an earlier site."""
    place = target.resolve()
    if target.is_symlink() or not target.name:
        raise SpecError(f"{target} must be a folder and no link; name another")
    if read := next((each for each in folders if each.resolve().is_relative_to(place)), None):
        raise SpecError(f"{target} must be another folder than {read}, which is read; name another")
    if not target.exists() or force:
        return
    sums = dict[str, str]()
    with suppress(OSError, ValueError):
        lines = read_small(target / MARK, _LARGEST).decode().splitlines()[1:]
        sums = {name: sha256 for sha256, _, name in (line.partition("  ") for line in lines)}
    for path in sorted(target.rglob("*")):
        name = path.relative_to(target).as_posix()
        known = name == MARK or (sums.get(name) == sha256_file(path) if path.is_file() else path.is_dir())
        if path.is_symlink() or not known:
            raise SpecError(
                f"{target} must be empty or a site as dpcost published it, and holds other files, such as "
                f"{name!r}; name another folder, or add --force to remove all that is in it"
            )


def _put_in_place(part: Path, target: Path) -> None:
    """Rename the new site: whenever this is killed, the old one is there, or the new one."""
    with suppress(OSError):
        part.rename(target)  # nothing is there, or an empty folder
        return
    exchange(part, target)


def _remove(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def _content(path: Path, folder: Path) -> bytes:
    """Return the content of a report's own file; refuse links, and what is no regular file or too large."""
    if path.is_symlink() or (path.parent != folder and path.parent.is_symlink()):
        reason = "it is a link"
    elif not _FILE.fullmatch(path.name):
        reason = "its name must be letters, digits, '.', '_' and '-'"
    else:
        try:
            return read_small(path, _LARGEST)
        except OSError as error:
            reason = str(error.strerror)
    raise SpecError(f"{str(path)!r} cannot be published: {reason}; take it out")


def finished_reports(folder: Path, private: list[str]) -> Iterator[FinishedReport]:
    """Yield the whole reports in a folder; names of those about an analyst's own table go to ``private``."""
    for place in sorted(folder.iterdir()) if folder.is_dir() else ():
        needed = [place / name for name in ("manifest.json", "card.json", "report.html")]
        if not all(os.path.lexists(path) for path in needed):
            continue
        if place.is_symlink() or not _NAME.fullmatch(place.name):
            raise SpecError(f"{str(place)!r} must be a folder named by a-z, 0-9, '_' and '-', and no link")
        for path in needed:
            _content(path, place)
        manifest = read_strictly(needed[0], PublishedManifest, "the manifest of a report")
        card = read_strictly(needed[1], Card, "the card of a report")
        if manifest.warning is not None or card.warning:
            private.append(card.name)
        else:
            yield FinishedReport(place, card, manifest.commit, card.source or _source(folder))


def _source(folder: Path) -> str:
    """Return what a folder of reports is called: that of the checkout or of the site."""
    resolved = folder.resolve()
    return resolved.parents[1].name if resolved.name == "out" else resolved.name
