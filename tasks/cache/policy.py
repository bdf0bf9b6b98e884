"""Prefect's cache policy of all tasks: a result is found by the key that the flow computed for it.

The key's name is the name of the record file in the result store, so that it serves to look a result up or to
delete it. There is no lock: one run at a time uses a home folder.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from prefect.cache_policies import CachePolicy

from data.store import home
from tasks.cache.records import records_folder, refuse_unless_plain


@dataclass
class ByKey(CachePolicy):
    """Cache on the task's own ``key`` argument, a `tasks.cache.keys.CacheKey`."""

    def compute_key(
        self, task_ctx: Any, inputs: dict[str, Any], flow_parameters: Any, **_: Any
    ) -> str | None:
        """Return the name of the argument ``key``; what is stored under it is plain JSON from here on."""
        key = str(inputs["key"])
        path = records_folder(home()) / key
        refuse_unless_plain(path)
        with suppress(OSError):
            os.utime(path)  # a record's time is its last use, by which `dpcost cache prune` chooses
        return key


BY_KEY: dict[str, Any] = {
    "cache_policy": ByKey(),
    "persist_result": True,
    "result_serializer": "json",
}
