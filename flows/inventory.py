"""What is stored below ``DPCOST_HOME``: cached results, whether they are whole, and what is stale."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flows import journal
from tasks.cache.keys import is_current, is_key
from tasks.cache.records import intact, records_folder, stored_record


@dataclass(frozen=True)
class CacheEntry:
    """A stored result of a task.

    Attributes
    ----------
    name : str
        Its cache key.
    state : str
        ``"current"``; ``"stale"``: made by other code, or its report was replaced since; ``"damaged"``:
        its record or file is not whole.
    bytes : int
        Of the record and its file.
    path : str
        Of its file; empty if the record cannot be read.
    """

    name: str
    state: str
    bytes: int
    path: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def entries(home: Path) -> list[CacheEntry]:
    """Return every stored result, by name."""
    records = records_folder(home)
    return [_entry(path, home) for path in sorted(records.iterdir())] if records.is_dir() else []


def prune(home: Path, *, everything: bool) -> tuple[int, int]:
    """Delete what is damaged or stale (or everything) and return how many results and bytes went.

    Reports lie outside ``DPCOST_HOME`` and are never touched; files that no record names are removed.
    """
    kept, removed, freed = set(), 0, 0
    for entry in entries(home):
        if entry.state == "current" and not everything:
            kept.add(entry.path)
            continue
        (records_folder(home) / entry.name).unlink(missing_ok=True)
        removed, freed = removed + 1, freed + entry.bytes
    for folder in ("blocks", "designs", "audits"):
        for path in (home / "cache" / folder).glob("*"):
            if str(path) not in kept:
                path.unlink(missing_ok=True)
    return removed, freed


def totals(home: Path) -> dict[str, dict[str, int]]:
    """Return the number of files and bytes per kind."""
    kinds = {"data": home / "store", "cache": home / "cache", "server": home / "prefect"}
    return {kind: _total(path) for kind, path in kinds.items()}


def recent_runs(home: Path, limit: int = 10) -> list[dict[str, str]]:
    """Return the latest runs, the newest first; a run whose process is gone without an end has crashed."""
    dead = {entry.flow_run_id for entry in journal.dead_runs(home)}
    return [
        {
            "started": entry.started,
            "ended": entry.ended or "",
            "study": entry.study,
            "profile": str(entry.details.get("profile", "")),
            "status": "crashed" if entry.flow_run_id in dead else entry.status,
            "flow_run_id": entry.flow_run_id,
        }
        for entry in journal.history(home)[:limit]
    ]


def _entry(path: Path, home: Path) -> CacheEntry:
    record, size = stored_record(path), path.stat().st_size
    if record is None:
        # Prefect keeps the errors of failed runs, too, under names that are no keys.
        return CacheEntry(path.name, "damaged" if is_key(path.name) else "stale", size, "")
    file = Path(record["path"])
    if not intact(record):
        in_cache = file.is_relative_to(home / "cache")
        return CacheEntry(path.name, "damaged" if in_cache else "stale", size, str(file))
    return CacheEntry(
        path.name, "current" if is_current(record) else "stale", size + file.stat().st_size, str(file)
    )


def _total(folder: Path) -> dict[str, int]:
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    return {"files": len(files), "bytes": sum(path.stat().st_size for path in files)}
