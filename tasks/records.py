"""What a task returns: the path and sha256 of a file, small enough for any result store."""

from pathlib import Path
from typing import Any

from data.store import atomic_write, sha256_file
from tasks.digest import COMPUTING, code_digest

Record = dict[str, Any]


def written(path: Path, content: bytes, *, code: tuple[str, ...] = COMPUTING, **facts: Any) -> Record:
    """Write a file whole and return its record: path, sha256, digest of the code that made it, facts."""
    atomic_write(path, content)
    return {"path": str(path), "sha256": sha256_file(path), "code": code_digest(code), **facts}


def intact(record: Record) -> bool:
    """Whether the file of a record is there and as it was written."""
    try:
        return sha256_file(Path(record["path"])) == str(record["sha256"])
    except OSError:
        return False
