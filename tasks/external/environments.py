"""Environments of foreign libraries: one below the home for each list of requirements."""

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from data.store.folders import home
from tasks.errors import SpecError

Requirements = Sequence[str]


def python_of(requires: Requirements) -> Path | None:
    """Return the Python of an environment, this one where nothing is required; None if it is not made."""
    if not requires:
        return Path(sys.executable)
    place = _place(requires)
    return place / "bin" / "python" if (place / "done").exists() else None


def make_environment(requires: Requirements) -> None:
    """Make the environment that has what is required."""
    place, listed = _place(requires), ", ".join(requires)
    python = place / "bin" / "python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    try:
        _run([sys.executable, "-m", "venv", "--clear", str(place)])
        _run([*pip, "install", "--quiet", *requires])
        (place / "done").write_text(_run([*pip, "freeze"]))
    except (OSError, subprocess.CalledProcessError) as error:
        last = str(getattr(error, "stderr", "") or error).strip().splitlines()[-1:]
        raise SpecError(f"{listed} cannot be installed: {' '.join(last)}") from None


def installed(requires: Requirements) -> list[str]:
    """Return the resolved versions of an environment, as ``pip freeze`` prints them."""
    marker = _place(requires) / "done"
    return marker.read_text().split() if marker.exists() else []


def _run(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _place(requires: Requirements) -> Path:
    digest = hashlib.sha256("\n".join((sys.version, *requires)).encode()).hexdigest()[:12]
    return home() / "league" / "environments" / digest
