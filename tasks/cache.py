"""The cache: a result is a file, named by all that it is made of.

The name contains a digest of the inputs and of the code that the result depends on. Therefore an existing
file is right. It appears whole or not at all, and one that does not read any more is made again. A shared
store (`data.store.shared`) has the same files. How long a file was not used says whether it is stale.
"""

import hashlib
import json
import os
import socket
import time
import zipfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.errors import StoreError
from data.store.code_digest import code_digest
from data.store.folders import atomic_write, home, remove_leftovers, store_dir
from data.store.shared import VARIABLE, bring, share
from tasks.errors import SpecError
from tasks.run_options import DAYS

FOLDER = "cache"
FACTS = b"dpcost"  # what a Parquet file of the cache says of itself, as JSON
_DAY = 86_400.0


@dataclass(frozen=True)
class CachedFile:
    """The file of a result, which may be there or not."""

    name: str  # below the home, e.g. cache/blocks/block-0123….parquet
    modules: tuple[str, ...]  # where its code begins
    code: str  # the digest of that code where the file was named

    @property
    def path(self) -> Path:
        return home() / self.name

    def is_stored(self) -> bool:
        """Whether the file is there and whole, here or in the shared store; note that it is used."""
        if not is_whole(self.path) and not (bring(self.path) and is_whole(self.path)):
            self.path.unlink(missing_ok=True)
            return False
        with suppress(OSError):
            os.utime(self.path)
        return True

    def require_same_code(self) -> None:
        """Refuse to compute where other code is installed than where the file was named."""
        if code_digest(self.modules) != self.code:
            raise SpecError(
                f"the worker on {socket.gethostname()} (process {os.getpid()}) runs another version of "
                "the code or of a numerical library than this run; install the same versions there, and "
                "restart it"
            )

    def write(self, content: bytes) -> None:
        atomic_write(self.path, content)
        share(self.path)

    def stored_path(self) -> Path:
        """Return the file's path, after fetching it from the shared store if this machine lacks it."""
        if not self.path.exists() and not self.is_stored():
            raise StoreError(
                f"{self.path} does not exist; name one shared store in {VARIABLE} on all machines, or run it "
                "again"
            )
        return self.path


def result(kind: str, modules: Iterable[str], *inputs: Any, suffix: str = ".parquet") -> CachedFile:
    """Return the file of a result: of its kind, the code that some modules lead to, and plain inputs."""
    roots = tuple(sorted(set(modules)))
    name = f"{FOLDER}/{kind}s/{kind}-{digest(roots, kind, *inputs)}{suffix}"
    return CachedFile(name, roots, code_digest(roots))


def digest(modules: Iterable[str], *inputs: Any, of_page: bool = False) -> str:
    """Return 32 digits of plain inputs and of the code that some modules lead to."""
    content = [*inputs, code_digest(modules, of_page=of_page)]
    blob = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(blob.encode()).hexdigest()[:32]


_AGAIN: ContextVar[tuple[str, str | None]] = ContextVar("again", default=("", None))


@contextmanager
def computed_again(task: str, cell: str | None = None) -> Iterator[None]:
    """Ignore stored results of a task, or of one cell's block."""
    before = _AGAIN.set((task, cell))
    try:
        yield
    finally:
        _AGAIN.reset(before)


def is_any_again() -> bool:
    return _AGAIN.get() != ("", None)


def is_again(task: str, cells: Collection[str] = ()) -> bool:
    """Whether a task is to compute again what is stored, of these cells where results have cells."""
    name, cell = _AGAIN.get()
    return name == task and (cell is None or cell in cells)


def is_whole(path: Path) -> bool:
    """Whether a file is there and reads: Parquet and npz have checksums of their own."""
    if not path.exists():
        return False
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq  # not every command reads tables

            pq.read_table(path, page_checksum_verification=True)
        elif path.suffix == ".npz":
            with zipfile.ZipFile(path) as file:
                return file.testzip() is None
        else:
            json.loads(path.read_bytes())
    except Exception:  # whatever a reader of damaged files raises
        return False
    return True


def facts_of(path: Path) -> dict[str, Any]:
    """Return the metadata of a Parquet file of the cache; nothing for other files."""
    with suppress(Exception):
        import pyarrow.parquet as pq

        return dict(json.loads(pq.read_schema(path).metadata[FACTS]))
    return {}


def state_of(path: Path, days: int = DAYS) -> str:
    """Return whether a stored result is "current", "stale" (long unused) or "damaged"."""
    if time.time() - path.stat().st_mtime > days * _DAY:
        return "stale"
    return "current" if is_whole(path) else "damaged"


def stored_results(home: Path) -> list[Path]:
    return [path for path in sorted((home / FOLDER).rglob("*")) if path.is_file() and path.name[0] != "."]


def prune(home: Path, out: Path, *, everything: bool, days: int = DAYS) -> tuple[int, int]:
    """Delete what is damaged or stale (or everything) and return how many results and bytes went.

    Stale or damaged tables, and what killed runs left half written, go as well.
    """
    going = [path for path in stored_results(home) if everything or state_of(path, days) != "current"]
    tables = [
        each for each in (store_dir(home) / "parquet").glob("*.parquet") if state_of(each, days) != "current"
    ]
    freed = clear_leftovers(home, out)
    for path in [*going, *tables, *(each.with_suffix(".json") for each in tables)]:
        with suppress(OSError):
            size = path.stat().st_size
            path.unlink()
            freed += size
    return len(going), freed


def clear_leftovers(home: Path, *reports: Path) -> int:
    """Delete what killed runs left half written, and return how many bytes went."""
    return sum(remove_leftovers(folder) for folder in (store_dir(home), home / FOLDER, *reports))
