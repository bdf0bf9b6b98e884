"""What is stored at ``DPCOST_STORE`` for all machines, and what of it may go."""

import time

from data.store.shared import (
    VARIABLE,
    SharedFile,
    read_all_shared,
    remove_shared,
    shared_address,
    shared_files,
)
from tasks.cache.keys import is_current
from tasks.cache.records import SHARED_RECORDS, plain_record
from tasks.faults import SpecError

_ON_ITS_WAY = 86_400.0  # seconds in which a file without a record may still get one


def prune_shared(*, everything: bool, keep: int | None = None) -> tuple[int, int]:
    """Delete shared results that are damaged or made by other code than here; return how many, and bytes.

    With `keep`, what is current goes as well, the oldest first, until so many bytes are left. Files of the
    cache that no record names go once they are a day old: another machine may be writing them. Prepared
    tables and reports stay. A run that misses what went computes it again.

    Raises
    ------
    SpecError
        If there is no shared store.
    StoreError
        If it cannot be used.
    """
    if not shared_address():
        raise SpecError(f"--store needs the address of a shared store; set {VARIABLE}, or leave it out")
    files = {file.name: file for file in shared_files("cache")}
    contents = read_all_shared([name for name in files if name.startswith(SHARED_RECORDS)])
    kept: set[str] = set()
    going: list[str] = []
    left = 0
    for name in sorted(contents, key=lambda name: files[name].written, reverse=True):
        record = plain_record(contents[name])
        named = [name, *_named(record)]
        size = sum(files[each].bytes for each in named if each in files)
        whole = record is not None and is_current(record) and all(each in files for each in named)
        if whole and not everything and (keep is None or left + size <= keep):
            left += size
            kept |= {*named}
        else:
            going += named
    stray = [name for name, file in files.items() if _is_old(file)]
    gone = [name for name in dict.fromkeys([*going, *stray]) if name in files and name not in kept]
    remove_shared(gone)  # each record before its files
    return sum(name in contents for name in gone), sum(files[name].bytes for name in gone)


def _named(record: dict[str, object] | None) -> list[str]:
    """Return the files that a record names."""
    if record is None:
        return []
    path, beside = str(record["path"]), record.get("beside", {})
    assert isinstance(beside, dict)  # checked when the record was read
    return [path, *(f"{path.rpartition('/')[0]}/{name}" for name in beside)]


def _is_old(file: SharedFile) -> bool:
    return time.time() - file.written > _ON_ITS_WAY
