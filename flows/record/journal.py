"""The durable journal: which runs began, which ended, and which died without saying so.

Each run has a file ``home/journal/<flow run id>.json``, which names its process by more than its number.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from data.store import folders
from data.store.folders import (
    LOCK,
    account,
    atomic_write,
    private_folder,
    read_json,
    require_local_disk,
    require_own_home,
)
from data.store.processes import ProcessIdentity
from flows.record.progress import say

RUNNING = "running"
COMPLETED = "completed"
CRASHED = "crashed"  # found dead
FAILED = "failed"
INTERRUPTED = "interrupted"

_HELD: set[Path] = set()  # the homes that this process has the place in


@dataclass(frozen=True, kw_only=True)
class JournalEntry:
    """The journal's record of one run of a flow.

    `ended` is None until the run, or the start that finds it dead, says so. The results of a run on an
    analyst's table (`own_data`) are not for publication.
    """

    flow_run_id: str
    study: str
    process: ProcessIdentity
    started: str
    ended: str | None = None
    status: str = RUNNING
    profile: str = ""
    own_data: bool = False

    @property
    def died(self) -> bool:
        return self.ended is None and not self.process.is_alive()


def begin(
    home: Path, flow_run_id: UUID | str, study: str, profile: str = "", *, own_data: bool = False
) -> JournalEntry:
    entry = JournalEntry(
        flow_run_id=str(UUID(str(flow_run_id))),
        study=study,
        process=ProcessIdentity.of(os.getpid()),
        started=_now(),
        profile=profile,
        own_data=own_data,
    )
    return _written(home, entry)


def end(home: Path, entry: JournalEntry, status: str = COMPLETED) -> JournalEntry:
    return _written(home, replace(entry, ended=_now(), status=status))


def history(home: Path) -> list[JournalEntry]:
    """Return every run in the journal, the newest first; a damaged file is passed over."""
    entries = [_read(path) for path in (home / "journal").glob("*.json")]
    return sorted((e for e in entries if e is not None), key=lambda e: e.started, reverse=True)


def recent_runs(home: Path, limit: int = 10) -> list[dict[str, str]]:
    """Return the latest runs as ``dpcost status`` shows them, the newest first."""
    return [
        {
            "started": entry.started,
            "ended": entry.ended or "",
            "study": entry.study,
            "profile": entry.profile,
            "status": CRASHED if entry.died else entry.status,
            "publication": "not for publication" if entry.own_data else "",
            "flow_run_id": entry.flow_run_id,
        }
        for entry in history(home)[:limit]
    ]


def from_server() -> bool:
    """Say whether this flow run is one of a deployment, and not of the command line."""
    from prefect import runtime

    return runtime.deployment.id is not None


@contextlib.contextmanager
def recorded(study: str, profile: str = "", *, own_data: bool = False) -> Iterator[None]:
    """Keep this flow run in the journal, and the home's one place for a run until it ends."""
    from prefect import runtime

    home, status = folders.home(), INTERRUPTED
    entry = begin(home, str(runtime.flow_run.id), study, profile, own_data=own_data)
    try:
        with exclusive_run(home):
            yield
        status = COMPLETED
    except Exception:
        status = FAILED
        raise
    finally:
        end(home, entry, status)


def home_tag(home: Path) -> str:
    """Return the tag that the server shows at every run started from this home, on this machine."""
    place = f"{socket.gethostname()}:{home.resolve()}"
    return "home-" + hashlib.sha256(place.encode()).hexdigest()[:12]


def holds_place(home: Path) -> bool:
    return home.resolve() in _HELD


@contextlib.contextmanager
def exclusive_run(home: Path) -> Iterator[None]:
    """Hold the one place in `home` for a run; wait for it if another process has it. It may be nested."""
    if holds_place(home):
        yield
        return
    waits = f"is using {home}; waiting for it to end (Ctrl-C to give up)"
    with locked(home, LOCK, lambda holder: say(f"another run (process {holder}) {waits}")):
        _HELD.add(home.resolve())
        try:
            yield
        finally:
            _HELD.discard(home.resolve())


@contextlib.contextmanager
def locked(home: Path, name: str, taken: Callable[[str], object]) -> Iterator[None]:
    """Hold a file of `home` locked; where another process has it, `taken` gets its number, and then wait.

    The lock belongs to the open file, so the kernel frees it however the process ends. A home on a network
    file system, where locks are not to be trusted, or of another account is refused.
    """
    require_local_disk("DPCOST_HOME", home)
    require_own_home(home)
    private_folder(home)
    descriptor = _locked(home / name, taken)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} of {account(os.getuid())}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _locked(path: Path, taken: Callable[[str], object]) -> int:
    """Return an open file, locked; open it again if it was deleted during the wait."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                taken(os.pread(descriptor, 100, 0).decode(errors="replace").strip() or "unknown")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        private_folder(path.parent)


def _written(home: Path, entry: JournalEntry) -> JournalEntry:
    atomic_write(home / "journal" / f"{entry.flow_run_id}.json", json.dumps(asdict(entry), indent=1).encode())
    return entry


def _read(path: Path) -> JournalEntry | None:
    try:
        content = read_json(path)
        given = {**content.pop("details", {}), **content}  # earlier versions kept some details apart
        known = {each.name: given[each.name] for each in fields(JournalEntry) if each.name in given}
        return JournalEntry(**{**known, "process": ProcessIdentity(**content["process"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
