"""The last runs of a home and the size of its store."""

import os
from contextlib import suppress
from pathlib import Path

from flows.record import journal


def recent_runs(home: Path, limit: int = 10) -> list[dict[str, str]]:
    """Return the latest runs, the newest first; a run whose process is gone without an end has crashed."""
    latest = journal.history(home)[:limit]
    dead = {entry.flow_run_id for entry in journal.dead_runs(home)}
    return [
        {
            "started": entry.started,
            "ended": entry.ended or "",
            "study": entry.study,
            "profile": str(entry.details.get("profile", "")),
            "status": "crashed" if entry.flow_run_id in dead else entry.status,
            "publication": "not for publication" if entry.details.get("own_data") else "",
            "flow_run_id": entry.flow_run_id,
        }
        for entry in latest
    ]


def totals(home: Path) -> dict[str, dict[str, int]]:
    """Return the number of files and bytes per kind."""
    kinds = {"data": home / "store", "cache": home / "cache", "server": home / "prefect"}
    return {kind: _total(path) for kind, path in kinds.items()}


def _total(folder: Path) -> dict[str, int]:
    sizes = []
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # a run may remove what it has just made
                sizes.append(os.stat(os.path.join(parent, name)).st_size)
    return {"files": len(sizes), "bytes": sum(sizes)}
