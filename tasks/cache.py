"""The cache: the key of a result, and the record of it, which is what a task returns.

A key is a digest of a result's inputs and of all the code that it depends on. A record has paths and sha256
of files, small enough for any result store. A path is a file's place below the home, so that a record means
the same on every machine; a shared store (`data.store.shared`) has the files and, as plain JSON, their
records.
"""

import hashlib
import json
import logging
import os
import re
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.errors import StoreError
from data.store.code_digest import code_digest
from data.store.folders import atomic_write, home, read_json, sha256_file
from data.store.shared import (
    VARIABLE,
    bring,
    name_below_home,
    read_shared,
    share,
    shared_address,
    write_shared,
)
from tasks.errors import SpecError

Record = dict[str, Any]

SERIALIZER = {
    "type": "json",
    "jsonlib": "json",
    "object_encoder": "prefect.serializers.prefect_json_object_encoder",
    "object_decoder": "prefect.serializers.prefect_json_object_decoder",
    "dumps_kwargs": {},
    "loads_kwargs": {},
}

SHARED_RECORDS = "cache/records/"  # where the shared store has them

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CacheKey:
    """The name of a cached result, and which code made it."""

    name: str  # what it is, and 32 digits; the name of its record file
    modules: tuple[str, ...] = ()  # where its code begins
    of_page: bool = False  # whether it is a page, whose code includes templates
    sha256: str = ""  # of that code, where the key was made

    def __str__(self) -> str:
        return self.name

    def require_same_code(self) -> None:
        """Refuse to compute where other code is installed than where the key was made."""
        if self.sha256 and self.code()["sha256"] != self.sha256:
            raise SpecError(
                f"the worker on {socket.gethostname()} (process {os.getpid()}) has another version of the "
                "code, or of a library that computes, than the run; install it there and start it again"
            )

    def code(self) -> dict[str, Any]:
        sha256 = code_digest(self.modules, of_page=self.of_page)
        return {"modules": list(self.modules), "of_page": self.of_page, "sha256": sha256}


UNCACHED = CacheKey("uncached")  # of what is written without being kept in the cache


def cache_key(name: str, modules: Iterable[str], *inputs: Any, of_page: bool = False) -> CacheKey:
    """Return the key of a result: its kind, the code that some modules lead to, and plain inputs."""
    roots = tuple(sorted(set(modules)))
    sha256 = code_digest(roots, of_page=of_page)
    content = [name, inputs, sha256]
    blob = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return CacheKey(f"{name}-{hashlib.sha256(blob.encode()).hexdigest()[:32]}", roots, of_page, sha256)


def is_current(record: dict[str, Any]) -> bool:
    """Whether a stored record was made by the code as it is now."""
    code: Any = record.get("code")
    try:
        return bool(code["sha256"] == code_digest(code["modules"], of_page=code["of_page"]))
    except (TypeError, KeyError, OSError, SyntaxError):
        return False


def is_key(name: str) -> bool:
    return re.fullmatch(r"[a-z]+-[0-9a-f]{32}", name) is not None


def written(
    key: CacheKey, path: Path, content: bytes, attached: Mapping[str, bytes] | None = None, **facts: Any
) -> Record:
    """Write a file atomically, and before it other files of its folder; return its record.

    ``attached`` maps the names of those files to their contents. The record has the file's path below the
    home, the sha256 of each file, a digest of the code, and ``facts``.
    """
    digests = {}
    for name, other in (attached or {}).items():
        atomic_write(path.parent / name, other)
        digests[name] = hashlib.sha256(other).hexdigest()
    atomic_write(path, content)
    name = name_below_home(path)
    record = {"path": name, "sha256": hashlib.sha256(content).hexdigest(), "code": key.code(), **facts}
    if digests:
        record["attached"] = digests
    if shared_address() and name.startswith("cache/"):
        for file in _files(record):
            share(file)
        write_shared(_shared_name(key.name), json.dumps(record).encode())
    return record


def located(record: Record) -> Path:
    """Return where the file of a record lies, or would lie, on this machine."""
    return home() / str(record["path"])


def intact(record: Any) -> bool:
    """Whether all files of a record exist unchanged on this machine."""
    try:
        return all(sha256_file(path) == sha256 for path, sha256 in _files(record).items())
    except (OSError, TypeError, KeyError, AttributeError):
        return False


def at_hand(record: Any) -> bool:
    """Whether a record is intact, after fetching missing files from the shared store."""
    if intact(record):
        return True
    try:
        return all(bring(path, sha256) for path, sha256 in _files(record).items())
    except (TypeError, KeyError, AttributeError):
        return False


def brought(record: Record) -> Path:
    """Return the file of a record, fetched from the shared store if this machine lacks it."""
    path = located(record)
    if not path.exists() and not at_hand(record):
        raise StoreError(
            f"{path} is not there; let all machines name one shared store in {VARIABLE}, or run it again"
        )
    return path


def shared_record(name: str) -> Record | None:
    """Return a record of the shared store, or None if it is not plain data about cached files."""
    return plain_record(read_shared(_shared_name(name)) or b"null")


def plain_record(content: bytes) -> Record | None:
    """Parse a record from bytes; None if it is not plain data about cached files."""
    try:
        record = json.loads(content)
        files = [record["path"], *(f"cache/x/{file}" for file in record.get("attached", {}))]
        plain = all(re.fullmatch(r"cache/[a-z]+/[^/]+", file) and ".." not in file for file in files)
        return dict(record) if plain else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _files(record: Record) -> dict[Path, str]:
    """Return the files that a record names, and their sha256; its own comes last."""
    path = located(record)
    attached: Mapping[str, str] = record.get("attached", {})
    return {**{path.parent / name: sha256 for name, sha256 in attached.items()}, path: record["sha256"]}


def _shared_name(name: str) -> str:
    return f"{SHARED_RECORDS}{name}.json"


def records_folder(home: Path) -> Path:
    """Return where the result store keeps one file per record, named by its key."""
    return home / "cache" / "records"


def find_record(name: str) -> Record | None:
    """Return what the home's result store has under a key, and note its use; None if there is nothing.

    A file that is not plain JSON is removed: it says itself how it is to be read, by unpickling or with any
    function or class that it names, so that who can write into the cache could run code of theirs.
    """
    path = records_folder(home()) / name
    try:
        content = read_json(path)
        record = json.loads(content["result"], object_hook=_plain_object)
        about = content["metadata"]
        plain = about["serializer"] == SERIALIZER and about["storage_block_id"] is None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        plain, record = False, None
    if not (plain and isinstance(record, dict)):
        _log.warning("the stored result %s is not plain JSON; it is refused and made again", name)
        path.unlink(missing_ok=True)
        return None
    with suppress(OSError):
        os.utime(path)  # a record's time is its last use, by which `dpcost cache prune` chooses
    return record


def _plain_object(plain: dict[str, Any]) -> dict[str, Any]:
    if plain.keys() & {"__class__", "__exc_type__"}:
        raise ValueError("names a class")
    return plain


def stored_record(path: Path) -> Record | None:
    """Return the record in a file of the result store, or None if it cannot be read."""
    try:
        result = read_json(path)["result"]
        record = json.loads(result) if isinstance(result, str) else result
        return record if isinstance(record["path"], str) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
