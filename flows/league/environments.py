"""Environments of the league's methods: one for each list of requirements, made where it is missing."""

import hashlib
import subprocess
import sys
from pathlib import Path

from flows.progress import say
from tasks.errors import SpecError


def interpreter(requirements: tuple[str, ...], folder: Path) -> Path:
    """Return the Python of an environment that has what is required; this one where nothing is."""
    if not requirements:
        return Path(sys.executable)
    place = _place(requirements, folder)
    python, done = place / "bin" / "python", place / "done"
    if not done.exists():
        say(f"making an environment with {', '.join(requirements)}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        quiet = ["--quiet", "--disable-pip-version-check"]
        command = [str(python), "-m", "pip", "install", *quiet, *requirements]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            last = made.stderr.strip().splitlines()[-1:]
            raise SpecError(f"{', '.join(requirements)} cannot be installed: {' '.join(last)}")
        frozen = subprocess.run(
            [str(python), "-m", "pip", "freeze"], capture_output=True, text=True, check=True
        )
        done.write_text(frozen.stdout)
    return python


def installed(requirements: tuple[str, ...], folder: Path) -> list[str]:
    """Return the resolved versions of an environment, as ``pip freeze`` prints them; none of this one."""
    done = _place(requirements, folder) / "done"
    return done.read_text().split() if requirements and done.exists() else []


def _place(requirements: tuple[str, ...], folder: Path) -> Path:
    digest = hashlib.sha256("\n".join((sys.version, *requirements)).encode()).hexdigest()[:12]
    return folder / "environments" / digest
