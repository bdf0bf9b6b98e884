"""The study files of tables that were opened last on a page."""

import json
from contextlib import suppress
from pathlib import Path

from data.store.folders import atomic_write, home, read_json

MOST = 20  # files of the list


def recent_studies() -> list[Path]:
    """Return the study files that were opened last and still exist, the last one first."""
    with suppress(OSError, ValueError):
        return [path for path in map(Path, read_json(home() / "recent_tables.json")) if path.exists()]
    return []


def remember(study: Path) -> None:
    """Put a study file on the list of recent tables."""
    study = study.resolve()
    others = [each for each in recent_studies() if each != study]
    listed = json.dumps([str(each) for each in [study, *others][:MOST]])
    atomic_write(home() / "recent_tables.json", listed.encode(), private=True)
