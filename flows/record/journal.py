"""The journal of a home: which runs began, which ended, and which died without saying so.

One file, ``home/journal.json``, holds the runs of the last days and the last one of each study. The process
that runs writes it, and holds the home's lock meanwhile: a run without an end has died if nobody holds it.
"""

import contextlib
import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from uuid import UUID

from data.errors import StoreError
from data.store.folders import (
    LOCK,
    account,
    atomic_write,
    private_folder,
    read_json,
    require_local_disk,
    require_own_home,
)
from data.store.folders import home as current_home
from flows.record.progress import say

RUNNING = "running"
COMPLETED = "completed"
CRASHED = "crashed"  # found dead
FAILED = "failed"
INTERRUPTED = "interrupted"

KEEP_DAYS = "DPCOST_KEEP_DAYS"  # how long history is kept, here and by the server
_DEFAULT_DAYS = 90
_HELD: set[Path] = set()  # the homes whose lock this process holds
_UNDER_WAY: set[str] = set()  # the flow runs of this process that have begun and not ended
_WRITING = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class JournalEntry:
    """The journal's record of one run of a flow.

    The results of a run on an analyst's table (`own_data`) are not for publication.
    """

    flow_run_id: str
    study: str
    started: str
    ended: str = ""
    status: str = RUNNING
    profile: str = ""
    own_data: bool = False


def keep_days() -> int:
    """Return for how many days history is kept: ``DPCOST_KEEP_DAYS``, or 90."""
    given = os.environ.get(KEEP_DAYS, str(_DEFAULT_DAYS))
    if not given.isdigit() or not 1 <= int(given) <= 36_500:
        raise StoreError(f"{KEEP_DAYS} must be a number of days from 1 to 36500, got {given!r}; pass e.g. 90")
    return int(given)


def begin(home: Path, flow_run_id: UUID | str, study: str, profile: str = "", *, own_data: bool) -> None:
    """Write down that a run begins; runs before it that did not end have crashed."""
    entry = JournalEntry(
        flow_run_id=str(flow_run_id), study=study, started=_now(), profile=profile, own_data=own_data
    )
    with _WRITING:
        entries = [entry]
        for each in history(home):
            dead = not each.ended and each.flow_run_id not in _UNDER_WAY
            entries.append(_ended(each, CRASHED) if dead else each)
            if dead:
                when = f"the {each.study} run of {each.started}"
                say(f"{when} ended without saying so; it is marked as {CRASHED}")
        _write(home, entries)
        _UNDER_WAY.add(entry.flow_run_id)


def end(home: Path, flow_run_id: UUID | str, status: str = COMPLETED) -> None:
    with _WRITING:
        run = str(flow_run_id)
        _write(home, [_ended(each, status) if each.flow_run_id == run else each for each in history(home)])
        _UNDER_WAY.discard(run)


def history(home: Path) -> list[JournalEntry]:
    """Return every run in the journal, the newest first; a damaged entry is passed over."""
    try:
        rows = read_json(home / "journal.json")
    except (OSError, ValueError):
        return []
    names = {each.name for each in fields(JournalEntry)}
    entries = []
    for row in rows if isinstance(rows, list) else []:
        with contextlib.suppress(TypeError, AttributeError):
            entries.append(JournalEntry(**{name: value for name, value in row.items() if name in names}))
    return entries


def recent_runs(home: Path, limit: int = 10) -> list[dict[str, str]]:
    """Return the latest runs as ``dpcost status`` shows them, the newest first."""
    entries, running = history(home)[:limit], is_held(home)
    unended = [each.flow_run_id for each in entries if not each.ended]
    alive = unended if running else []
    return [
        {
            **{name: getattr(entry, name) for name in ("started", "ended", "study", "profile")},
            "status": entry.status if entry.ended or entry.flow_run_id in alive else CRASHED,
            "publication": "not for publication" if entry.own_data else "",
            "flow_run_id": entry.flow_run_id,
        }
        for entry in entries
    ]


def from_server() -> bool:
    """Say whether this flow run is one of a deployment, and not of the command line."""
    from prefect import runtime

    return _is_deployed(str(runtime.flow_run.id))


@cache
def _is_deployed(flow_run_id: str) -> bool:
    from prefect import runtime

    return runtime.deployment.id is not None  # the server is asked each time


@contextlib.contextmanager
def recorded(study: str, profile: str = "", *, own_data: bool = False) -> Iterator[None]:
    """Hold the home's lock and keep this flow run in the journal until it ends."""
    from prefect import runtime

    home, flow_run_id, status = current_home(), str(runtime.flow_run.id), INTERRUPTED
    with exclusive_run(home):
        begin(home, flow_run_id, study, profile, own_data=own_data)
        try:
            yield
            status = COMPLETED
        except Exception:
            status = FAILED
            raise
        finally:
            end(home, flow_run_id, status)


def is_held(home: Path) -> bool:
    if home.resolve() in _HELD:
        return True
    try:
        with open(home / LOCK, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False


@contextlib.contextmanager
def exclusive_run(home: Path) -> Iterator[None]:
    """Hold the home's lock for a run; wait for it if another process has it. It may be nested."""
    if home.resolve() in _HELD:
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
    with open(home / name, "a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            taken(file.read(100).decode(errors="replace").strip() or "unknown")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(f"{os.getpid()} of {account(os.getuid())}\n".encode())
        file.flush()
        yield


def _write(home: Path, entries: list[JournalEntry]) -> None:
    """Write the newest entries, and the last one of each study."""
    oldest = (datetime.now(UTC) - timedelta(days=keep_days())).isoformat(timespec="milliseconds")
    kept, studies = [], set[str]()
    for each in sorted(entries, key=lambda each: each.started, reverse=True):
        if each.started >= oldest or each.study not in studies:
            kept.append(asdict(each))
        studies.add(each.study)
    atomic_write(home / "journal.json", json.dumps(kept, separators=(",", ":")).encode())


def _ended(entry: JournalEntry, status: str) -> JournalEntry:
    return replace(entry, ended=_now(), status=status)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
