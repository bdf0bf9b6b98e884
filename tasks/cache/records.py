"""What a task returns: paths and sha256 of files, small enough for any result store."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from data.store import atomic_write, sha256_file
from tasks.cache.keys import CacheKey

Record = dict[str, Any]

SERIALIZER = {
    "type": "json",
    "jsonlib": "json",
    "object_encoder": "prefect.serializers.prefect_json_object_encoder",
    "object_decoder": "prefect.serializers.prefect_json_object_decoder",
    "dumps_kwargs": {},
    "loads_kwargs": {},
}

_log = logging.getLogger(__name__)


def written(key: CacheKey, path: Path, content: bytes, **facts: Any) -> Record:
    """Write a file whole and return its record: path, sha256, the code that made it, facts."""
    atomic_write(path, content)
    return {"path": str(path), "sha256": sha256_file(path), "code": key.code(), **facts}


def intact(record: Any) -> bool:
    """Whether the file of a record, and those beside it that it names, are there and as they were written."""
    try:
        path = Path(record["path"])
        beside: Mapping[str, str] = record.get("beside", {})
        return sha256_file(path) == record["sha256"] and all(
            sha256_file(path.parent / name) == sha256 for name, sha256 in beside.items()
        )
    except (OSError, TypeError, KeyError, AttributeError):
        return False


def records_folder(home: Path) -> Path:
    """Return where the result store keeps one file per record, named by its key."""
    return home / "cache" / "records"


def refuse_unless_plain(path: Path) -> None:
    """Remove a file of the result store that holds anything but plain JSON, so that nobody reads it.

    The file itself says how it is to be read: by unpickling, or with any function or class that it names. Who
    can write into the cache could so run code of theirs.
    """
    try:
        content = json.loads(path.read_bytes())
        result = json.loads(content["result"], object_hook=_plain_object)
        about = content["metadata"]
        plain = about["serializer"] == SERIALIZER and about["storage_block_id"] is None
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError):
        plain, result = False, None
    if not (plain and isinstance(result, dict)):
        _log.warning("the stored result %s is not plain JSON; it is refused and made again", path.name)
        path.unlink(missing_ok=True)


def _plain_object(found: dict[str, Any]) -> dict[str, Any]:
    if found.keys() & {"__class__", "__exc_type__"}:
        raise ValueError("names a class")
    return found


def stored_record(path: Path) -> Record | None:
    """Return the record in a file of the result store, or None if it cannot be read."""
    try:
        result = json.loads(path.read_bytes())["result"]
        record = json.loads(result) if isinstance(result, str) else result
        return record if isinstance(record["path"], str) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
