"""The flow of the scorecard: read the studies' results, judge every claim, write the page."""

from pathlib import Path
from typing import Any

from prefect import flow, runtime

from data.store.folders import read_json, sha256_file
from flows.record.journal import recorded
from flows.server.dead_runs import HOOKS
from flows.studies.find_study import readable_studies
from flows.studies.parameters import (
    DEFAULT_SEED,
    Command,
    OutFolder,
    ProfileChoice,
    Seed,
    reports_folder,
    run_name,
)
from tasks.cache.keys import cache_key
from tasks.cache.records import Record, intact
from tasks.faults import guarded
from tasks.report.manifest import now
from tasks.report.shared_reports import share_report
from tasks.report.write import write_index
from tasks.scorecard.claims import load_scorecard
from tasks.scorecard.judging import NAME, read_evidence, score, write_scorecard
from tasks.study.spec import StudySpec

COMMAND = f"dpcost run {NAME}"


@flow(name=NAME, flow_run_name=run_name, persist_result=False, **HOOKS)
@guarded
def run_scorecard(
    profile: ProfileChoice = "standard",
    seed: Seed = DEFAULT_SEED,
    out: OutFolder = None,
    command: Command = "",
) -> dict[str, Any]:
    """Judge every claim on the results in ``out``, and return the path of the scorecard.

    The parameters are those of :func:`flows.study.run_study`; nothing is computed here but the verdicts, so
    that ``profile`` and ``seed`` are for the record.
    """
    folder = reports_folder(out, NAME)
    with recorded(NAME, profile):
        record = judged(folder, {"profile": profile, "seed": seed, "command": command or COMMAND})
        index = write_index(folder)
        share_report(folder / NAME)
    return {
        "report": record["report"],
        "index": str(index),
        "headline": record["headline"],
        "flow_run_id": str(runtime.flow_run.id),
        "n_task_runs": record["n_task_runs"],
    }


def judged(folder: Path, context: dict[str, Any]) -> dict[str, Any]:
    """Judge every claim as a task, found in the cache where nothing changed."""
    specs, tables, context = evidence_in(folder, context)
    plain = [spec.model_dump(mode="json") for spec in specs]
    inputs = [plain, context["evidence"], str(folder), context["profile"], context["seed"]]
    code = [score.fn.__module__, *{module for spec in specs for module in spec.modules()}]
    key = cache_key("scorecard", code, *inputs, of_page=True)
    arguments = (key, specs, {name: str(path) for name, path in tables.items()}, str(folder / NAME), context)
    record: Record = score(*arguments)
    runs = 1
    if not intact(record):
        record, runs = score.with_options(refresh_cache=True)(*arguments), 2
    return {**record, "n_task_runs": runs}


def rebuild_scorecard(folder: Path) -> None:
    """Judge every claim again on the results in a folder, without a server."""
    try:
        last = read_json(folder / NAME / "manifest.json")
    except (OSError, ValueError):
        last = {}
    unknown = {"profile": "", "seed": DEFAULT_SEED, "command": COMMAND}
    context = {key: last.get(key, value) for key, value in unknown.items()}
    specs, tables, context = evidence_in(folder, context)
    write_scorecard(load_scorecard(), read_evidence(specs, tables), folder / NAME, context)


def evidence_in(
    folder: Path, context: dict[str, Any]
) -> tuple[list[StudySpec], dict[str, Path], dict[str, Any]]:
    """Return the claims' studies, the whole results in a folder, and a context that names them."""
    readable = {spec.name: spec for spec in readable_studies()}
    specs = [readable[name] for name in load_scorecard().studies if name in readable]
    evidence, tables = dict[str, dict[str, Any]](), dict[str, Path]()
    for name in (spec.name for spec in specs):
        table = folder / name / "results.parquet"
        try:
            manifest, sha256 = read_json(folder / name / "manifest.json"), sha256_file(table)
        except (OSError, ValueError):
            continue
        if manifest.get("results_sha256") == sha256:
            evidence[name] = {"sha256": sha256, **{key: manifest.get(key) for key in ("profile", "commit")}}
            tables[name] = table
    return specs, tables, {"study": NAME, **context, "started": now(), "evidence": evidence}
