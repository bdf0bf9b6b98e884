"""Write all generated pages; a page that did not change keeps its date, so that it is not built again."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from generate import catalog_pages, commands, evidence, gallery, league


def write_pages(docs: Path, reports: Path) -> None:
    """Write ``docs/generated``, and copy the pages of studies to ``reports``."""
    folder = docs / "generated"
    gallery.copy_reports(reports)
    league.copy_page(reports)
    parts = (
        catalog_pages.pages(),
        commands.pages(),
        evidence.pages(),
        league.pages(),
        gallery.pages(reports),
    )
    pages = {path: content for part in parts for path, content in part.items()}
    pages["changes.txt"] = _news(docs.parent)
    for path, content in pages.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text(encoding="utf-8") != content:
            file.write_text(content, encoding="utf-8")
    for file in set(folder.rglob("*")) - {folder / path for path in pages}:
        if file.is_file():
            file.unlink()


def digest_of_code(project: Path) -> str:
    """Return a digest of all that tutorials run: the packages with their data, and the pinned versions."""
    digest = hashlib.sha256((project / "constraints.txt").read_bytes())
    for package in ("data", "dpalgos", "flows", "reports", "tasks"):
        for path in sorted((project / package).rglob("*")):
            if path.is_file() and not {"__pycache__", "out"} & set(path.relative_to(project).parts):
                digest.update(path.relative_to(project).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _news(project: Path) -> str:
    if not list(project.glob("docs/changes/+*.md")):
        return ""
    options = ["--draft", "--version", "Next release", "--date", "to come"]
    command = [sys.executable, "-m", "towncrier", "build", *options]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=True).stdout
