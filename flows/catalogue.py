"""Finding studies: ``flows/studies/*.toml`` by name, or any study file by path."""

import difflib
from pathlib import Path

from tasks.spec import SpecError, StudySpec, load_study

STUDIES = Path(__file__).parent / "studies"


def study_names() -> list[str]:
    """Return the names of the studies that come with the project."""
    return sorted(path.stem for path in STUDIES.glob("*.toml"))


def find_study(name: str) -> StudySpec:
    """Return a study by name, or by the path of a ``.toml`` file.

    Raises
    ------
    SpecError
        If there is none of that name (the message names the nearest match), or the file is wrong.
    """
    if name.endswith(".toml"):
        return load_study(Path(name))
    known = study_names()
    if name not in known:
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"choose one of: {', '.join(known)}"
        raise SpecError(f"study must be a known name or a .toml file, got {name!r}; {hint}")
    return load_study(STUDIES / f"{name}.toml")
