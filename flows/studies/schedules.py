"""What ``flows/schedules.toml`` lists: studies and other flows by name, studies of one's own by file."""

import tomllib
from pathlib import Path
from typing import Any

from tasks.errors import SpecError

SCHEDULES = Path(__file__).resolve().parents[1] / "schedules.toml"


def listed(schedules: Path) -> dict[str, Any]:
    """Return each line's key with its cron, unchecked."""
    try:
        return tomllib.loads(schedules.read_text())
    except ValueError as error:
        raise SpecError(f"{schedules} is not a TOML file: {error}; mend it there") from None


def own_studies(schedules: Path = SCHEDULES) -> dict[str, str]:
    """Return the full path of each study file that is listed, by the path as it is written."""
    files = (key for key in listed(schedules) if key.endswith(".toml"))
    return {key: str((schedules.parent / key).resolve()) for key in files}
