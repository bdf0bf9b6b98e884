"""Prefect's cache policy of all tasks: a result is found by the key that the flow computed for it.

The key's name is the name of the record file in the result store, so that it serves to look a result up or to
delete it. There is no lock: one run at a time uses a home folder.
"""

import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect.cache_policies import CachePolicy
from prefect.filesystems import LocalFileSystem

from data.errors import StoreError
from data.store.folders import atomic_write, home
from tasks.cache.records import records_folder, refuse_unless_plain, shared_record

_log = logging.getLogger(__name__)
_told: set[Path] = set()


class RecordFolder(LocalFileSystem):
    """The folder of records; a failed write is logged.

    Prefect goes on without a word where a record is lost: its result is used, and computed again by the next
    run.
    """

    _block_type_name = "dpcost records"  # a name of its own, or Prefect's folders would be taken for these
    _block_type_slug = "dpcost-records"

    def write_path(self, path: str, content: bytes, **_: Any) -> str:  # type: ignore[override]
        """Write a record; warn once per folder if that fails."""
        file = records_folder(home()) / path
        try:
            atomic_write(file, content)
        except StoreError as error:
            if file.parent not in _told:
                _told.add(file.parent)
                _log.warning("%s; this run goes on, but the next one will compute this again", error)
            raise
        return str(file)


@dataclass
class ByKey(CachePolicy):
    """Cache on the task's own ``key`` argument, a `tasks.cache.keys.CacheKey`."""

    def compute_key(
        self, task_ctx: Any, inputs: dict[str, Any], flow_parameters: Any, **_: Any
    ) -> str | None:
        """Return the name of the argument ``key``; what is stored under it is plain JSON from here on.

        A record that is in the shared store alone is written in the form in which Prefect looks for it.
        """
        key, folder = str(inputs["key"]), records_folder(home())
        path, results = folder / key, task_ctx.result_store
        results.result_storage = RecordFolder(basepath=str(folder))
        refuse_unless_plain(path)
        if path.exists():
            with suppress(OSError):
                os.utime(path)  # a record's time is its last use, by which `dpcost cache prune` chooses
        elif record := shared_record(key):
            results.write(record, key=key)
        return key


BY_KEY: dict[str, Any] = {
    "cache_policy": ByKey(),
    "persist_result": True,
    "result_serializer": "json",
}
