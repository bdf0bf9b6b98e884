"""Prefect's cache policy of all tasks: a result is found by the key that the flow computed for it.

The key's name is the name of the record file in the result store, so that it serves to look a result up or to
delete it. There is no lock: one run at a time uses a home folder. Prefect's settings say that the store is
the home's folder of records.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from prefect.cache_policies import CachePolicy

from data.store.folders import home
from tasks.cache.records import records_folder, refuse_unless_plain, shared_record


@dataclass
class ByKey(CachePolicy):
    """Cache on the task's own ``key`` argument, a `tasks.cache.keys.CacheKey`."""

    def compute_key(
        self, task_ctx: Any, inputs: dict[str, Any], flow_parameters: Any, **_: Any
    ) -> str | None:
        """Return the name of the argument ``key``; what is stored under it is plain JSON from here on.

        A record that is in the shared store alone is written in the form in which Prefect looks for it.
        """
        key = str(inputs["key"])
        path = records_folder(home()) / key
        refuse_unless_plain(path)
        if path.exists():
            with suppress(OSError):
                os.utime(path)  # a record's time is its last use, by which `dpcost cache prune` chooses
        elif record := shared_record(key):
            task_ctx.result_store.write(record, key=key)
        return key


BY_KEY: dict[str, Any] = {
    "cache_policy": ByKey(),
    "persist_result": True,
    "result_serializer": "json",
}
