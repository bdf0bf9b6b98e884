"""The last runs, by their reports, and the run that holds the home's lock."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from data.store.folders import read_json
from flows.lock import holder


def recent_runs(home: Path, reports: Path, limit: int = 10) -> list[dict[str, str]]:
    """Return the latest runs as ``dpcost status`` shows them, newest first.

    A report is the last finished run of its study. An unfinished run is named by its process.
    """
    runs = []
    for path in reports.rglob("manifest.json"):  # `--out` may name a folder below
        manifest = last_run(path.parent)
        if {"started", "finished", "profile"} <= manifest.keys():  # skip a damaged one
            run = {
                "started": str(manifest["started"]),
                "ended": str(manifest["finished"]),
                "study": path.parent.relative_to(reports).as_posix(),
                "profile": str(manifest["profile"]),
                "status": "completed",
                "publication": "not for publication" if manifest.get("warning") else "",
            }
            runs.append(run)
    newest = sorted(runs, key=lambda run: run["started"], reverse=True)[:limit]
    if not (process := holder(home)):
        return newest
    facts = dict.fromkeys(("started", "ended", "profile", "publication"), "")
    return [{"study": f"process {process}", "status": "running", **facts}, *newest]


def last_run(report: Path) -> dict[str, Any]:
    """Return the manifest in the folder of a report, or an empty one if it is missing or damaged."""
    with suppress(OSError, ValueError, TypeError):
        return dict(read_json(report / "manifest.json"))
    return {}
