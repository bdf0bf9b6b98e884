"""Parameters of the flows, as the server's form lists and checks them.

The command line accepts any study file and any folder. A run from the server must name a study of this
project, and its reports stay below ``reports/out``.
"""

import json
import os
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

from prefect import runtime
from pydantic import Field

from data.datasets import load_registry
from data.store.folders import REPORTS, closed_folder, home
from flows.local_server import SERVED, from_server
from flows.progress import say
from flows.studies.find_study import study_names
from flows.studies.results import folder_of_run
from tasks.cache import clear_leftovers
from tasks.errors import SpecError
from tasks.report.manifest import RunOfStudy
from tasks.run_options import BELOW_REPORTS, RunOptions
from tasks.study.spec import SCORECARD, StudySpec

_STUDIES: list[str] = json.loads(os.environ.get(SERVED, "null")) or study_names()
STANDARD = RunOptions()
TYPED: ContextVar[str] = ContextVar("typed", default="")


def _several_of(names: list[str]) -> Any:
    return Field(json_schema_extra={"items": {"type": "string", "enum": [*names]}, "uniqueItems": True})


StudyName = Annotated[str, Field(json_schema_extra={"enum": [*_STUDIES]})]
StudyNames = Annotated[list[str], _several_of([*_STUDIES, SCORECARD])]
Datasets = Annotated[list[str], _several_of(sorted(load_registry()))]
CellKey = Annotated[str | None, Field(max_length=300)]
Folder = Annotated[str | None, Field(json_schema_extra={"pattern": BELOW_REPORTS})]


"""The typed command, for the record; empty for a run from the server. No form has this field."""


def check_studies(*studies: str) -> None:
    """Refuse a study that this deployment does not offer, in case the server's validation is off."""
    if not from_server():
        return
    deployment = runtime.deployment.name
    allowed = [deployment] if deployment in _STUDIES else [*_STUDIES, SCORECARD]
    mine = (each for each in studies if deployment not in _STUDIES and Path(each).stem == deployment)
    if wrong := next((study for study in studies if study not in [*allowed, *mine]), None):
        text = f"{wrong[:80]!r}"
        raise SpecError(f"study must be one of {', '.join(allowed)}, got {text}; choose one of them")


def run_of(study: str, options: RunOptions) -> RunOfStudy:
    """Return the record of a run; its report folder is relative to the project."""
    check_studies(study)
    if options.out and from_server():
        reports_folder(options.out)
        options = options.model_copy(update={"out": f"reports/out/{options.out}"})
    return RunOfStudy(study=study, options=options, command=TYPED.get())


def report_folder(spec: StudySpec, options: RunOptions) -> Path:
    """Return the folder of a study's report; next to a report of a larger profile, a separate folder."""
    folder = reports_folder(options.out, spec.name)
    reports = folder_of_run(folder, spec.name, options.profile)
    if reports != folder:
        say(f"note: {folder} has a report of {spec.name} at a larger profile; this report goes to {reports}")
    if spec.analyst_table is not None:
        closed_folder(reports / spec.name)
    clear_leftovers(home(), reports)
    return reports / spec.name


def reports_folder(out: str | None, study: str = "") -> Path:
    """Return the folder of a report: any for the command line, one below ``reports/out`` for the server."""
    if not from_server():
        return (Path(out) if out else REPORTS).resolve()
    folder = REPORTS / out if out else REPORTS
    for path in (folder, folder / study):
        if not path.resolve().is_relative_to(REPORTS.resolve()):
            raise SpecError(
                f"out must be a folder below reports/out, got {out!r}, and {path.name} is a link to another "
                "place; pass another name, e.g. trial, or remove the link"
            )
    return folder.resolve()
