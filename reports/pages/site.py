"""A static site of finished reports: which files it holds, and its index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from reports.pages.index import Card, render_index

_LINK = re.compile(r'(?:href|src)="([^"#]*)(?:#[^"]*)?"')
_ELSEWHERE = re.compile(r"[a-z]+:|//")


@dataclass(frozen=True)
class PublishedRun:
    """A run of a study on the site: its card, its folder there, and where it came from."""

    card: Card
    folder: str
    commit: str
    source: str

    @property
    def shown(self) -> Card:
        return replace(self.card, href=f"{self.folder}/report.html", source=self.source, commit=self.commit)


def arranged(runs: Iterable[tuple[Card, str, str]]) -> list[PublishedRun]:
    """Return runs (card, commit, source) with their folders: the newest of a study has the study's name.

    Runs of one study and commit stand next to each other, under ``study/COMMIT-SOURCE``, the newest first.
    """
    ordered = sorted(runs, key=lambda run: (run[0].name, _reversed(run[0].when), run[1], run[2]))
    found, seen = [], set[str]()
    for card, commit, source in ordered:
        folder = card.name
        if card.name in seen:
            folder = f"{card.name}-{commit[:8] or 'unknown'}-{re.sub('[^a-z0-9]+', '-', source.lower())}"
        while folder in seen:
            folder += "-2"
        seen.add(folder)
        found.append(PublishedRun(card, folder, commit, source))
    return found


def _reversed(when: str) -> str:
    """Return a key that sorts times from the newest to the oldest."""
    return "".join(chr(0x10FFF - ord(char)) for char in when)


def render_site(runs: Sequence[PublishedRun]) -> dict[str, bytes]:
    return render_index([run.shown for run in runs])


def broken_links(pages: Mapping[str, bytes], files: Iterable[str]) -> list[str]:
    """Return "page: link" of each link to a file that the site does not hold."""
    there, found = set(files), []
    for page, content in pages.items():
        folder = page.rpartition("/")[0]
        for link in _LINK.findall(re.sub(r"<script.*?</script>", "", content.decode(), flags=re.DOTALL)):
            if link and not _ELSEWHERE.match(link) and _joined(folder, link) not in there:
                found.append(f"{page}: {link}")
    return found


def _joined(folder: str, link: str) -> str:
    parts = [part for part in folder.split("/") if part]
    for part in link.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)
