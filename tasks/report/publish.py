"""Collect finished reports into a static site; never a page of an analyst's own table."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.store.folders import atomic_write, read_json, read_small
from reports.pages.index import Card
from reports.pages.site import arranged, broken_links, render_site
from tasks.faults import SpecError
from tasks.report.write import card_of

_COPIED = ("report.html", "report.md", "results.parquet", "summary.csv", "manifest.json", "card.json")
_ALSO = ("history.html", "history.json", "data-*.html", "figures/*")
MARK = "dpcost-site.txt"  # what a folder that this command wrote holds


@dataclass(frozen=True)
class FinishedReport:
    """A report that may be published, in its folder."""

    folder: Path
    card: Card
    manifest: dict[str, Any]
    source: str

    def files(self) -> Iterator[Path]:
        yield from (path for name in _COPIED if (path := self.folder / name).exists())
        yield from (path for pattern in _ALSO for path in sorted(self.folder.glob(pattern)))


def publish(target: Path, folders: Sequence[Path]) -> tuple[Path, list[str], list[str]]:
    """Write the site; return its index, the studies on it, and those left out because they are private.

    ``folders`` hold reports, each in a folder of its study's name: ``reports/out``, or another site.
    """
    if target.exists() and any(target.iterdir()) and not (target / MARK).exists():
        raise SpecError(f"{target} must be empty or a site that dpcost published, and holds other files")
    private: list[str] = []
    reports = [one for folder in folders for one in finished_reports(folder, private)]
    if not reports:
        raise SpecError(
            f"no report to publish in {', '.join(map(str, folders))}; run e.g.: dpcost run housing"
        )
    by_card = {id(one.card): one for one in reports}
    runs = arranged((one.card, str(one.manifest.get("commit", "")), one.source) for one in reports)
    written, pages = set[str](), dict[str, bytes]()
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    for run in runs:
        report = by_card[id(run.card)]
        for path in report.files():
            name = f"{run.folder}/{path.relative_to(report.folder)}"
            content = path.read_bytes()
            atomic_write(part / name, content)
            written.add(name)
            if path.suffix == ".html":
                pages[name] = content
    pages |= render_site(runs)
    for name in pages.keys() - written:
        atomic_write(part / name, pages[name])
    written |= pages.keys()
    if faults := broken_links(pages, written):
        shutil.rmtree(part, ignore_errors=True)
        raise SpecError(f"the site would have links to nothing: {'; '.join(faults[:3])}; run: dpcost report")
    atomic_write(part / MARK, b"Written by dpcost publish; it may be written again.\n")
    shutil.rmtree(target, ignore_errors=True)
    part.rename(target)
    return target / "index.html", [run.folder for run in runs], private


def finished_reports(folder: Path, private: list[str]) -> Iterator[FinishedReport]:
    """Yield the whole reports in a folder; names of those about an analyst's own table go to ``private``."""
    for path in sorted(folder.glob("*/manifest.json")):
        try:
            manifest = read_json(path)
            card = card_of(read_small(path.parent / "card.json"), str(path.parent / "card.json"))
        except (OSError, ValueError):
            continue
        if card is None or not (path.parent / "report.html").exists():
            continue
        if "warning" in manifest or card.warning:
            private.append(card.name)
        else:
            yield FinishedReport(path.parent, card, manifest, card.source or _source(folder))


def _source(folder: Path) -> str:
    """Return what a folder of reports is called: that of the checkout or of the site."""
    resolved = folder.resolve()
    return resolved.parents[1].name if resolved.name == "out" else resolved.name
