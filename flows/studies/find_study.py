"""Find studies by name (``flows/studies/*.toml``) or by path, and check task and cell options."""

import logging
import re
from collections.abc import Sequence
from pathlib import Path

from data.errors import DataError, known_names, nearest_name
from dpalgos import get_estimator
from dpalgos.catalog import from_outside
from tasks.errors import SpecError
from tasks.run_options import Profile
from tasks.study.estimators import EstimatorSpec
from tasks.study.spec import StudySpec
from tasks.study.study_file import load_study

STUDIES = Path(__file__).parent

_log = logging.getLogger(__name__)


def study_names() -> list[str]:
    return sorted(path.stem for path in STUDIES.glob("*.toml"))


def readable_studies() -> list[StudySpec]:
    """Return the project's studies; a study with faults is left out and named in a warning."""
    studies = []
    for name in study_names():
        try:
            studies.append(find_study(name))
        except (SpecError, DataError) as error:
            _log.warning("the study flows/studies/%s.toml is skipped: %s", name, error)
    return studies


def find_study(name: str) -> StudySpec:
    known = study_names()
    if not name.endswith(".toml") and name not in known:
        hint = known_names(name, known)
        if re.fullmatch(r"[\w-]+", name) and Path(f"{name}.toml").is_file():
            hint = f"; did you mean '{name}.toml'?"
        raise SpecError(f"study must be a known name or a .toml file, got {name!r}{hint}")
    path = Path(name) if name.endswith(".toml") else STUDIES / f"{name}.toml"
    spec = load_study(path)
    if fault := name_fault(spec, path):
        raise SpecError(fault)
    spec = with_outside_estimators(spec)
    spec.check_data()
    return spec


def name_fault(spec: StudySpec, file: Path) -> str:
    """Return what is wrong with the name of a study in a user's file, or an empty string."""
    if spec.name not in study_names() or file.resolve().parent == STUDIES:
        return ""
    return (
        f"{file} must not have the name {spec.name!r}: its report would replace another one; rename "
        f"the file, or set another name in it, e.g. name = 'my_{spec.name}'"
    )


def with_outside_estimators(spec: StudySpec) -> StudySpec:
    """Return a study with the plugin estimators for its task added, with the keywords of their examples."""
    if not spec.estimators:
        return spec
    known = {item.name for item in spec.estimators}
    tasks = {get_estimator(name).task for name in known}
    added = tuple(
        EstimatorSpec.model_validate(
            {"name": entry.name, "calibrations": entry.calibrations, "params": entry.example}
        )
        for entry in from_outside()
        if entry.name not in known and entry.task in tasks
    )
    return spec.model_copy(update={"estimators": (*spec.estimators, *added)}) if added else spec


def plugins_left_out(studies: Sequence[StudySpec]) -> str:
    """Return a note on the plugin estimators that none of these studies runs, or an empty string."""
    used = {item.name for study in studies for panel in study.panels for item in study.estimators_of(panel)}
    if not (left_out := [f"{each.name} ({each.task})" for each in from_outside() if each.name not in used]):
        return ""
    return (
        f"note: in no study of this run: {', '.join(left_out)}; a plugin estimator joins the studies of its "
        "task that have [[estimators]] for all panels"
    )


def check_cell(spec: StudySpec, task: str, cell: str | None, profile: Profile) -> None:
    if cell is None:
        return
    if task != "run_block":
        raise SpecError(f"--cell needs --task run_block, got --task {task}; leave --cell out")
    keys = [item.key for block in spec.blocks(profile, replicates=1, seed=0) for item in block.cells]
    if cell not in keys:
        raise SpecError(
            f"--cell must be a cell of {spec.name} at profile {profile}, got {cell!r}"
            f"{nearest_name(cell, keys) or '; the column cell of its summary.csv lists them'}"
        )
