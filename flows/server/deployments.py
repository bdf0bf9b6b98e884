"""The deployments: every study, and the other flows, with their schedules in ``flows/schedules.toml``."""

import tomllib
from pathlib import Path
from typing import Any

from tasks.faults import SpecError

SCHEDULES = Path(__file__).resolve().parents[1] / "schedules.toml"
UNLISTED_AT = "0 6 * * 1"  # when studies run that the file does not list, UTC


def deployments(tag: str, schedules: Path = SCHEDULES) -> list[Any]:
    """Return the deployments; each run carries the tag, and one of a study its name and profile."""
    from prefect.schedules import Cron
    from prefect.types.entrypoint import EntrypointType
    from prefect.utilities.annotations import freeze

    from flows import study as flows
    from flows.studies.find_study import SCORECARD, readable_studies, study_names

    try:
        crons = tomllib.loads(schedules.read_text())
    except ValueError as error:
        raise SpecError(f"{schedules} is not a TOML file: {error}; mend it there") from None
    if odd := next((name for name, cron in crons.items() if not isinstance(cron, str)), None):
        raise SpecError(f"{schedules}: {odd} must be five fields of cron, got {str(crons[odd])[:60]!r}")
    others = {
        "ingest": flows.run_ingest,
        SCORECARD: flows.run_scorecard,
        "report": flows.run_report,
        "rerun": flows.run_part,
    }
    if wrong := next((name for name in crons if name not in {*study_names(), *others}), None):
        raise SpecError(f"{schedules} lists {wrong!r}, which is no study or flow; remove the line")

    def deployment(flow: Any, name: str, default: str = "", **about: Any) -> Any:
        cron = crons.get(name, default)
        try:
            schedule = Cron(cron, timezone="UTC") if cron else None
        except ValueError:
            raise SpecError(f"{schedules}: {name} must be five fields of cron, got {cron!r}") from None
        tags = [tag, *about.pop("tags", [])]
        module = EntrypointType.MODULE_PATH
        return flow.to_deployment(name, schedule=schedule, tags=tags, entrypoint_type=module, **about)

    of_studies = [
        deployment(
            flows.run_study,
            study.name,
            UNLISTED_AT,
            parameters={"study": freeze(study.name), "profile": "standard"},
            description=f"**{study.title}** {study.question.strip()}",
            tags=[study.name, "standard"],
        )
        for study in readable_studies()
    ]
    return of_studies + [deployment(flow, name) for name, flow in others.items()]
