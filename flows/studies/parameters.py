"""Parameters of the flows as the server's form describes, lists and checks them.

The command line may name any study file and any folder; a run from the server has to name a study that is
here, and its reports stay below ``reports/out``.
"""

import re
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from prefect import runtime
from prefect.client.orchestration import get_client
from prefect.context import get_run_context
from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema

from data.datasets import load_registry
from data.store.folders import REPORTS
from flows.local_server import from_server
from flows.studies.find_study import SCORECARD, study_names
from tasks.errors import SpecError
from tasks.run_options import PROFILES, Option, TaskName

_LARGEST_SEED = 2**53 - 1  # of a browser's numbers; the command line takes any
_FOLDER = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$(?!\n)"


class FormField:
    """What the server's form says about a parameter, and checks beyond its type.

    Of a choice between a type and nothing the pages would make two tabs: the form has one field for it,
    which may be left empty.
    """

    def __init__(self, description: str, **schema: Any) -> None:
        self._about = {"description": description, **schema}

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core)
        given = schema.pop("anyOf", [{}])[0]
        return {**schema, **given, **self._about}


_BELOW_REPORTS = "A folder below reports/out, e.g. trial: letters, digits, - and _; reports/out by default."
_ON_FORM: dict[str, dict[str, Any]] = {  # what differs from the command line
    "study": {"enum": study_names()},
    "seed": {"maximum": _LARGEST_SEED},
    "out": {"description": _BELOW_REPORTS, "pattern": _FOLDER},
    "refresh_cell": {"maxLength": 300},
}


def on_form(option: Option) -> Any:
    """Return an option of a run as the server's form shows it."""
    field = FormField(**{"description": option.help, **_ON_FORM.get(option.name, {})})
    return Annotated[option.type, *option.bounds, field]


def _several(description: str, names: list[str]) -> Any:
    return FormField(description, items={"type": "string", "enum": names}, uniqueItems=True)


ReportChoices = Annotated[
    list[str],
    _several(
        "Studies whose reports to write again from stored results; empty: all that have results.",
        [*study_names(), SCORECARD],
    ),
]
DatasetChoices = Annotated[list[str], _several("The datasets to bring; empty: all.", sorted(load_registry()))]
Again = Annotated[
    bool,
    FormField("Fetch and convert anew, whatever is stored; what is stored stays if nothing else is found."),
]
TaskChoice = Annotated[TaskName, FormField("The task to run again; all that depends on it follows.")]
CellKey = Annotated[
    str | None,
    FormField(
        "Of the task run_block, the one cell to run again: the column cell of summary.csv lists them; all "
        "cells by default.",
        maxLength=300,
    ),
]
TYPED: ContextVar[str] = ContextVar("typed", default="")
"""The command that was typed, for the record; empty for a run from the server. No form asks for it."""


def check_studies(*studies: str) -> None:
    """Refuse a study that this deployment does not offer, in case the server was told not to look."""
    if not from_server():
        return
    own = runtime.deployment.name
    allowed = [own] if own in study_names() else [*study_names(), SCORECARD]
    mine = (each for each in studies if own not in study_names() and Path(each).stem == own)
    if wrong := next((study for study in studies if study not in [*allowed, *mine]), None):
        shown = f"{wrong[:80]!r}"
        raise SpecError(f"study must be one of {', '.join(allowed)}, got {shown}; choose one of them")


def reports_folder(out: str | None, study: str = "") -> Path:
    """Return the folder of a report: any for the command line, one below ``reports/out`` for the server."""
    if not from_server():
        return (Path(out) if out else REPORTS).resolve()
    folder = REPORTS / out if out else REPORTS
    for path in (folder, folder / study):
        if not path.resolve().is_relative_to(REPORTS.resolve()):
            raise SpecError(
                f"out must be a folder below reports/out, got {out!r}, and {path.name} leads elsewhere; "
                "take another name, e.g. trial, or remove that link"
            )
    return folder.resolve()


def run_name() -> str:
    """Return what the server's pages call a run that nobody named: ``housing standard 2026-11-20``.

    A run that was started by hand keeps its name, in brackets if Prefect may have made it up.
    """
    context: Any = get_run_context()
    name = "" if context.flow_run.auto_scheduled or not from_server() else str(context.flow_run.name)
    if name and not re.fullmatch(r"[a-z]+-[a-z]+", name):
        return name
    given = runtime.flow_run.parameters
    many = given.get("studies") or given.get("datasets") or []
    named = [Path(given["study"]).stem] if "study" in given else [runtime.flow_run.flow_name, *many[:3]]
    again = given.get("task") or given.get("refresh_task")
    words = [", ".join(named), given.get("profile"), f"{again} again" if again else None]
    date = runtime.flow_run.scheduled_start_time.date().isoformat()
    return " ".join([*filter(None, words), date, *([f"({name})"] if name else [])])


def tag_with_profile(profile: str) -> None:
    """Replace the profile among the run's tags, which are those of its deployment."""
    tags = runtime.flow_run.tags
    if from_server() and profile not in tags:
        with get_client(sync_client=True) as client:
            kept = [tag for tag in tags if tag not in PROFILES]
            client.update_flow_run(UUID(runtime.flow_run.id), tags=[*kept, profile])
