"""The gallery: the pages of studies that ran here, or, where none did, of a smoke run."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from data.store.folders import REPORTS
from generate.evidence import table
from tasks.report.write import write_index

SMOKE_STUDY = "fair"  # it needs no network, and takes seconds


def copy_reports(folder: Path) -> None:
    """Copy the pages of studies on public data into a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    reports = REPORTS
    if not any(REPORTS.glob("*/manifest.json")):
        reports = folder.parents[1] / "smoke"
        options = ["--profile", "smoke", "--offline", "--workers", "1", "--out", str(reports)]
        subprocess.run(["dpcost", "run", SMOKE_STUDY, *options], check=True)
    for manifest in reports.glob("*/manifest.json"):
        if "warning" not in json.loads(manifest.read_text(encoding="utf-8")):  # of an analyst's own table
            shutil.copytree(manifest.parent, folder / manifest.parent.name)
    write_index(folder)


def pages(folder: Path) -> dict[str, str]:
    rows = []
    for manifest in sorted(folder.glob("*/manifest.json")):
        ran, study = json.loads(manifest.read_text()), manifest.parent.name
        profile = ran.get("profile") or "–"
        smoke = (
            "**smoke**: shows what a page looks like; its numbers are no evidence"
            if profile == "smoke"
            else profile
        )
        link = f'<a href="gallery/{study}/report.html">{study}</a>'
        rows.append((link, smoke, str(ran.get("replicates") or "–"), str(ran.get("started", ""))[:10]))
    return {"gallery.txt": table(("report", "profile", "repetitions", "run on"), rows)}
