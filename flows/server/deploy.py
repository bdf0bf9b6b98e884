"""``python -m flows.server.deploy``: deploys ``prefect.yaml``, and every study that it does not list."""

import importlib
import sys
from pathlib import Path
from typing import Any

import yaml

from tasks.faults import MENDABLE, SpecError

PROJECT = Path(__file__).resolve().parents[2]
POOL = "dpcost"

STUDY = "flows/study.py:run_study"
UNLISTED_AT = "0 6 * * 1"  # when studies run that prefect.yaml does not list, UTC


def listed_deployments() -> list[dict[str, Any]]:
    return list(yaml.safe_load((PROJECT / "prefect.yaml").read_bytes())["deployments"])


def deployments() -> list[dict[str, Any]]:
    """Return the deployments as ``prefect.yaml`` writes them, with the studies that it does not list."""
    from flows.studies.find_study import readable_studies, study_names

    listed, readable = listed_deployments(), [spec.name for spec in readable_studies()]
    known = [each["parameters"]["study"] for each in listed if each["entrypoint"] == STUDY]
    if wrong := next((study for study in known if study not in study_names()), None):
        raise SpecError(f"prefect.yaml lists the study {wrong!r}, which flows/studies does not have")
    unlisted = [
        {
            "name": study,
            "entrypoint": STUDY,
            "parameters": {"study": study},
            "schedules": [{"cron": UNLISTED_AT, "timezone": "UTC"}],
        }
        for study in readable
        if study not in known
    ]
    return [
        *(each for each in listed if each["entrypoint"] != STUDY or each["parameters"]["study"] in readable),
        *unlisted,
    ]


def deploy() -> list[str]:
    """Create the work pool and the deployments, or bring them up to date; return the deployments' names."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
    from prefect.exceptions import ObjectAlreadyExists

    with get_client(sync_client=True) as client:
        one_at_a_time: dict[str, Any] = {"concurrency_limit": 1}  # a home has one place for a run
        try:
            client.create_work_pool(WorkPoolCreate(name=POOL, type="process", **one_at_a_time))
        except ObjectAlreadyExists:
            client.update_work_pool(POOL, WorkPoolUpdate(**one_at_a_time))
        names = []
        for each in deployments():
            flow = load_flow(each["entrypoint"])
            client.create_deployment(flow_id=client.create_flow(flow), **described(each, flow))
            names.append(f"{flow.name}/{each['name']}")
    return names


def load_flow(entrypoint: str) -> Any:
    file, _, function = entrypoint.partition(":")
    return getattr(importlib.import_module(file.removesuffix(".py").replace("/", ".")), function)


def described(listed: dict[str, Any], flow: Any) -> dict[str, Any]:
    """Return a deployment as the server takes it: with a form that refuses what the flow would not take."""
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.schedules import CronSchedule
    from prefect.exceptions import ParameterBindError, ParameterTypeError, SignatureMismatchError
    from pydantic import ValidationError

    from flows.studies.find_study import find_study
    from flows.studies.parameters import form

    parameters, about = listed.get("parameters", {}), ""
    schema = form(flow)
    if listed["entrypoint"] == STUDY:
        study = find_study(parameters["study"])
        end = "" if study.title.endswith(("?", "!")) else "."
        about = f"**{study.title}{end}** {study.question.strip()}"
        schema["properties"]["study"]["enum"] = [parameters["study"]]
    try:
        if parameters:  # the form asks for the others when a run is started
            flow.validate_parameters(parameters)
        schedules = [
            DeploymentScheduleCreate(
                schedule=CronSchedule(cron=each["cron"], timezone=each.get("timezone", "UTC")),
                active=each.get("active", True),
            )
            for each in listed.get("schedules", [])
        ]
    except (ParameterTypeError, ParameterBindError, SignatureMismatchError) as wrong:
        raise SpecError(f"prefect.yaml, deployment {listed['name']}: {wrong}") from None
    except ValidationError as wrong:
        problem = wrong.errors()[0]["msg"]
        raise SpecError(f"prefect.yaml, the schedule of deployment {listed['name']}: {problem}") from None
    return {
        "name": listed["name"],
        "entrypoint": listed["entrypoint"],
        "description": listed.get("description", about),
        "parameters": parameters,
        "parameter_openapi_schema": schema,
        "enforce_parameter_schema": True,
        "schedules": schedules,
        "work_pool_name": POOL,
        "pull_steps": [{"prefect.deployments.steps.set_working_directory": {"directory": str(PROJECT)}}],
    }


def main() -> int:
    try:
        print("\n".join(deploy()))
    except MENDABLE as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
