"""Finding studies: ``flows/studies/*.toml`` by name, or any study file by path."""

import difflib
import logging
import re
from pathlib import Path

from data.errors import DataError
from tasks.faults import SpecError
from tasks.study.spec import StudySpec
from tasks.study.study_file import load_study

STUDIES = Path(__file__).parent


_log = logging.getLogger(__name__)

SCORECARD = "scorecard"  # no study of its own: it judges the results of others


def study_names() -> list[str]:
    """Return the names of the studies that come with the project."""
    return sorted(path.stem for path in STUDIES.glob("*.toml"))


def readable_studies() -> list[StudySpec]:
    """Return the studies that come with the project; one with faults is left out and named."""
    found = []
    for name in study_names():
        try:
            found.append(find_study(name))
        except (SpecError, DataError) as error:
            _log.warning("the study flows/studies/%s.toml is left out: %s", name, error)
    return found


def with_evidence(studies: list[str]) -> list[str]:
    """Return the studies to run: where the scorecard is among them, those that it judges come first."""
    if SCORECARD not in studies:
        return studies
    from tasks.scorecard.claims import load_scorecard

    others = [study for study in studies if study != SCORECARD]
    return [*dict.fromkeys([*others, *load_scorecard().studies]), SCORECARD]


def find_study(name: str) -> StudySpec:
    """Return a study by name, or by the path of a ``.toml`` file.

    Raises
    ------
    SpecError
        If there is none of that name (the message names the nearest match), or the file is wrong.
    DataError
        If its dataset, or a column of it, is unknown.
    """
    if name.endswith(".toml"):
        spec = load_study(Path(name))
        if spec.name in (*study_names(), SCORECARD) and Path(name).resolve().parent != STUDIES:
            raise SpecError(
                f"{name} must not be called {spec.name!r}, for its report would take the place of another; "
                f"rename the file, or set another name in it, e.g. name = 'my_{spec.name}'"
            )
        return _suiting_its_data(spec)
    known = study_names()
    if name == SCORECARD:
        raise SpecError(
            "scorecard has no blocks of its own: it judges the results of other studies; "
            "use dpcost run scorecard, dpcost report scorecard, or name the study that a claim is about"
        )
    if name not in known:
        known = [*known, SCORECARD]
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        if re.fullmatch(r"[\w-]+", name) and Path(f"{name}.toml").is_file():
            nearest = [f"{name}.toml"]
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"choose one of: {', '.join(known)}"
        raise SpecError(f"study must be a known name or a .toml file, got {name!r}; {hint}")
    return _suiting_its_data(load_study(STUDIES / f"{name}.toml"))


def _suiting_its_data(spec: StudySpec) -> StudySpec:
    spec.check_data()
    return spec
