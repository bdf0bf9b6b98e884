"""Write a study's report, and the index over all studies."""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import pandas as pd

from data.results.table import EXHIBITS
from data.store.folders import atomic_write, closed_folder, read_json, read_small, sha256_file
from reports.page import StudyPage
from tasks.cache import Written, digest
from tasks.errors import guarded
from tasks.report.manifest import MANIFEST, RunOfStudy, build_manifest, is_sealed, sealed
from tasks.run.datasets import Tables
from tasks.study.spec import StudySpec

_TABLES = ("results.parquet", "timings.parquet")

_log = logging.getLogger(__name__)


@guarded
def write_page(spec: StudySpec, run: RunOfStudy, tables: Tables, results: Written, exhibits: Path) -> Written:
    """Write the report of a run; see `write_report`."""
    manifest = build_manifest(spec, run, tables, results)
    return write_report(spec, results.path, manifest, exhibits.read_bytes())


def write_report(
    spec: StudySpec, results_path: Path, manifest: dict[str, Any], exhibits: bytes | None = None
) -> Written:
    """Write all files of a report except the results table, the manifest last; the first is the page."""
    out = results_path.parent
    if spec.analyst_table is not None:
        closed_folder(out)
    if exhibits is not None:
        atomic_write(out / EXHIBITS, exhibits)
    page, results = page_of(spec, results_path, manifest)
    from reports.pages.study import render_study  # what draws is loaded where something is drawn

    report = render_study(results, page)
    for name, content in report.files.items():
        atomic_write(out / name, content)
    write_script(out.parent)
    names = [*report.files, EXHIBITS, *_TABLES]
    digests = {name: sha256_file(out / name) for name in names if (out / name).exists()}
    content = sealed({**manifest, "page": report.about, "files": digests})
    atomic_write(out / MANIFEST, content)
    files = {"report.html": "", **digests, MANIFEST: hashlib.sha256(content).hexdigest()}
    return Written(tuple((str(out / name), each) for name, each in files.items()))


def page_of(spec: StudySpec, results_path: Path, manifest: dict[str, Any]) -> tuple[StudyPage, pd.DataFrame]:
    """Return the page and the results table of a run, with the panels that ran."""
    from tasks.report.build_page import build_page

    results = pd.read_parquet(results_path)
    left_out = {panel.name for panel in spec.panels} - {p.name for p in spec.panels_at(manifest["profile"])}
    spec = spec.without(left_out | set(manifest.get("not_run", {})))
    return build_page(spec, results, manifest, load_exhibits(results_path.parent)), results


def load_exhibits(folder: Path) -> dict[str, Any]:
    """Return the content of each exhibit that `tasks.run.compute` wrote, by name."""
    try:
        return dict(read_json(folder / EXHIBITS))
    except FileNotFoundError:
        return {}


def write_script(folder: Path) -> None:
    """Write what pages run next to their folders, unless it is there."""
    from reports.render import SCRIPT, page_script

    if _content(folder / SCRIPT) != page_script():
        atomic_write(folder / SCRIPT, page_script())


def write_index(out: Path) -> Path:
    """Write the index if a manifest changed; private if any folder is."""
    from reports.pages import index as page

    paths, index = sorted(out.glob(f"*/{MANIFEST}")), out / "index.html"
    private = any(not path.parent.stat().st_mode & 0o077 for path in paths)
    contents = {path: _content(path) for path in paths}
    made_of = [private, *(hashlib.sha256(content).hexdigest() for content in contents.values())]
    mark = f"<!-- {digest([page.__name__], 'index', made_of, of_page=True)} -->\n".encode()
    if index.exists() and _content(index).endswith(mark):
        return index
    entries = []
    for path, content in contents.items():
        study = path.parent.name
        try:
            if not is_sealed(manifest := json.loads(content)):
                raise ValueError("it is not as a run wrote it")
            summary = _content(path.with_name("summary.csv"))
            entries.append(page.Entry.of(study, manifest, summary))
        except ValueError:
            _log.warning("%s is damaged and not listed in the index; run: dpcost report %s", path, study)
    is_complete = len(entries) == len(paths)  # a damaged manifest is reported each time
    html = page.render_index(entries)["index.html"]
    atomic_write(index, html + (mark if is_complete else b""), private=private)
    write_script(out)
    return index


def _content(path: Path) -> bytes:
    try:
        return read_small(path, limit=10**8)
    except OSError:
        return b""
