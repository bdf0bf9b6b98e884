"""What is stored below ``DPCOST_HOME`` and at ``DPCOST_STORE``: cached results, and what of them is stale."""

import re
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from data.store.folders import remove_leftovers, store_dir
from data.store.shared import VARIABLE, read_all_shared, remove_shared, shared_address, shared_files
from tasks.cache import (
    SHARED_RECORDS,
    intact,
    is_current,
    is_key,
    located,
    plain_record,
    records_folder,
    stored_record,
)
from tasks.errors import SpecError

_ON_ITS_WAY = 86_400.0  # seconds in which a shared file without a record may still get one


@dataclass(frozen=True)
class CacheEntry:
    """A stored result: stale if of other code or replaced since, damaged if record or file is not whole."""

    name: str  # its cache key
    state: str  # "current", "stale" or "damaged"
    bytes: int  # of the record, its file and the files written with it
    path: str  # of its file; empty if the record cannot be read
    used: str  # when it was made or last found; UTC, ISO 8601
    what: str = ""  # of a block: study, size and estimators
    where: str = ""  # the machine and process that computed it last
    seconds: float | None = None  # that it took, by the clock


def entries(home: Path) -> list[CacheEntry]:
    records = records_folder(home)
    return [_entry(path, home) for path in sorted(records.iterdir())] if records.is_dir() else []


def prune(home: Path, out: Path, *, everything: bool, keep: int | None = None) -> tuple[int, int]:
    """Delete what is damaged or stale (or everything) and return how many results and bytes went.

    With `keep`, the least recently used go as well, until so many bytes are left. So do tables of other
    code, raw files that were refused, files that no record names, and what killed runs left half written.
    """
    kept, removed, freed, left = set[str](), 0, 0, 0
    reports = {out}
    for entry in sorted(entries(home), key=lambda entry: entry.used, reverse=True):
        record = records_folder(home) / entry.name
        if entry.path and not Path(entry.path).is_relative_to(home):
            reports.add(Path(entry.path).parents[1])
        fits = keep is None or left + entry.bytes <= keep
        if entry.state == "current" and fits and not everything:
            left += entry.bytes
            kept |= {entry.path, *(str(file) for file in _beside(stored_record(record) or {}, entry.path))}
        else:
            record.unlink(missing_ok=True)
            removed, freed = removed + 1, freed + entry.bytes
    for folder in ("blocks", "designs", "audits"):
        for path in (home / "cache" / folder).glob("*"):
            if str(path) not in kept:
                path.unlink(missing_ok=True)
    refused = [path for path in (store_dir(home) / "refused").rglob("*") if path.is_file()]
    from data.fetch.ingest import stale_tables  # late: it loads pandas

    for path in [*stale_tables(home), *refused]:
        with suppress(OSError):
            freed += path.stat().st_size
            path.unlink()
    return removed, freed + clear_leftovers(home, *reports)


def prune_shared(*, everything: bool, keep: int | None = None) -> tuple[int, int]:
    """Delete shared results that are damaged or made by other code than here; return how many, and bytes.

    With `keep`, the oldest go as well, until so many bytes are left. Files that no record names go once they
    are a day old: another machine may be writing them. Prepared tables and reports stay.
    """
    if not shared_address():
        raise SpecError(f"--store needs the address of a shared store; set {VARIABLE}, or leave it out")
    files = {file.name: file for file in shared_files("cache")}
    contents = read_all_shared([name for name in files if name.startswith(SHARED_RECORDS)])
    kept, going, left = set[str](), list[str](), 0
    for name in sorted(contents, key=lambda name: files[name].written, reverse=True):
        record = plain_record(contents[name])
        path = str(record["path"]) if record else ""
        named = [name, *([path, *map(str, _beside(record, path))] if record else [])]
        size = sum(files[each].bytes for each in named if each in files)
        whole = record is not None and is_current(record) and all(each in files for each in named)
        if whole and not everything and (keep is None or left + size <= keep):
            left += size
            kept |= {*named}
        else:
            going += named
    stray = [name for name, file in files.items() if time.time() - file.written > _ON_ITS_WAY]
    gone = [name for name in dict.fromkeys([*going, *stray]) if name in files and name not in kept]
    remove_shared(gone)  # each record before its files
    return sum(name in contents for name in gone), sum(files[name].bytes for name in gone)


def n_bytes(size: str) -> int:
    """Return the bytes that a person means by e.g. ``2GB`` or ``500 MB``."""
    parts = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(k|M|G|T)?B", size.strip())
    if not parts:
        raise SpecError(f"--keep-size must be a number of B, kB, MB, GB or TB, got {size!r}; pass e.g. 2GB")
    return int(float(parts[1]) * 1000 ** " kMGT".index(parts[2] or " "))


def clear_leftovers(home: Path, *reports: Path) -> int:
    """Delete what killed runs left half written, and return how many bytes went."""
    return sum(remove_leftovers(folder) for folder in (store_dir(home), home / "cache", *reports))


def _entry(path: Path, home: Path) -> CacheEntry:
    record, about = stored_record(path), path.stat()
    used = datetime.fromtimestamp(about.st_mtime, UTC).isoformat(timespec="milliseconds")
    if record is None:
        # Prefect keeps the errors of failed runs, too, under names that are no keys.
        return CacheEntry(path.name, "damaged" if is_key(path.name) else "stale", about.st_size, "", used)
    file = located(record)
    if not intact(record):
        in_cache = file.is_relative_to(home / "cache")
        return CacheEntry(path.name, "damaged" if in_cache else "stale", about.st_size, str(file), used)
    size = about.st_size + sum(each.stat().st_size for each in [file, *_beside(record, file)])
    state, made = "current" if is_current(record) else "stale", record.get("made")
    entry = CacheEntry(path.name, state, size, str(file), used)
    if not isinstance(made, dict):
        return entry
    where = f"{made.get('host')} (process {made.get('process')})"
    return replace(entry, what=str(made.get("what")), where=where, seconds=record.get("seconds"))


def _beside(record: dict[str, Any], path: str | Path) -> list[Path]:
    return [Path(path).parent / name for name in record.get("attached", {})]
