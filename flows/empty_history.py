"""An empty database of Prefect's history: made once for an installation, and copied into new homes.

Prefect makes a database by some hundred migrations, which take longer than a small study. The empty one is
kept next to the installed packages. Where it cannot be kept, a server makes its own.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from flows import NO_ANALYTICS

_UPGRADE = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "--yes"]
_DIGEST = ".sha256"


def start_history(file: Path) -> None:
    """Copy the empty database to a file of a new home; without one, the server makes its own."""
    template, part = _kept(), file.with_name(f"{file.name}.{os.getpid()}")
    try:
        if not _fits(template):
            _keep(template)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for journal in ("-wal", "-shm"):  # of a history that was moved away: SQLite would replay them
            file.with_name(file.name + journal).unlink(missing_ok=True)
        shutil.copyfile(template, part)
        part.chmod(0o600)
        part.replace(file)
    except (OSError, subprocess.SubprocessError):
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _kept() -> Path:
    """Return where the empty database of the installed Prefect is kept."""
    return Path(sys.prefix) / "share" / "dpcost" / f"prefect-{version('prefect')}.db"


def _fits(template: Path) -> bool:
    """Return whether the kept database is whole: a crash, or a full disk, may leave a part of it."""
    stated = template.with_name(template.name + _DIGEST)
    return template.exists() and stated.exists() and stated.read_text() == _digest(template)


def _keep(template: Path) -> None:
    """Let Prefect's own command make an empty database, and keep it with its digest."""
    template.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=template.parent) as folder:
        database = Path(folder) / "prefect.db"
        others = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        own = {
            "PREFECT_HOME": folder,
            "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{database}",
            **NO_ANALYTICS,
        }
        subprocess.run(_UPGRADE, env=others | own, cwd=folder, capture_output=True, check=True, timeout=300)
        digest = Path(folder) / "digest"
        digest.write_text(_digest(database))
        database.replace(template)
        digest.replace(template.with_name(template.name + _DIGEST))


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
