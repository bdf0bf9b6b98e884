"""The deployments: every study, and the other flows, with their schedules in ``flows/schedules.toml``.

A line may name the file of a study of one's own table: ``"/srv/costs.toml" = "0 4 * * *"``.
"""

from pathlib import Path
from typing import Any

from flows.studies.schedules import SCHEDULES, listed, own_studies
from tasks.errors import SpecError

UNLISTED_AT = "0 6 * * 1"  # when studies run that the file does not list, UTC


def deployments(tag: str, schedules: Path = SCHEDULES) -> list[Any]:
    """Return the deployments; each run carries the tag, and one of a study its name and profile."""
    from prefect.schedules import Cron
    from prefect.types.entrypoint import EntrypointType
    from prefect.utilities.annotations import freeze

    from flows import study as flows
    from flows.studies.find_study import SCORECARD, find_study, readable_studies, study_names

    crons = listed(schedules)
    if odd := next((name for name, cron in crons.items() if not isinstance(cron, str)), None):
        raise SpecError(f"{schedules}: {odd} must be five fields of cron, got {str(crons[odd])[:60]!r}")
    others = {
        "ingest": flows.ingest,
        SCORECARD: flows.scorecard,
        "report": flows.report,
        "rerun": flows.rerun,
    }
    own = own_studies(schedules)
    if wrong := next((name for name in crons if name not in {*study_names(), *others, *own}), None):
        raise SpecError(f"{schedules} lists {wrong!r}, which is no study or flow; remove the line")

    def deployment(flow: Any, name: str, default: str = "", key: str = "", **about: Any) -> Any:
        cron = crons.get(key or name, default)
        try:
            schedule = Cron(cron, timezone="UTC") if cron else None
        except ValueError:
            raise SpecError(f"{schedules}: {name} must be five fields of cron, got {cron!r}") from None
        tags = [tag, *about.pop("tags", [])]
        module = EntrypointType.MODULE_PATH
        return flow.to_deployment(name, schedule=schedule, tags=tags, entrypoint_type=module, **about)

    named = [(study.name, study.name, study) for study in readable_studies()]
    of_studies = [
        deployment(
            flows.study,
            study.name,
            UNLISTED_AT,
            key,
            parameters={"study": freeze(file), "options": {"profile": "standard"}},
            description=f"**{study.title}** {study.question.strip()}",
            tags=[study.name, "standard"],
        )
        for key, file, study in (*named, *((key, file, find_study(file)) for key, file in own.items()))
    ]
    return of_studies + [deployment(flow, name) for name, flow in others.items()]
