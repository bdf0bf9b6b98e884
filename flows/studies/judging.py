"""The steps of the scorecard: find the studies' results, judge every claim."""

from pathlib import Path
from typing import Any

from data.store.folders import read_json, sha256_file
from flows.studies.find_study import readable_studies
from flows.studies.steps import Outcome, Tasks
from tasks.cache import cache_key
from tasks.limits import DEFAULT_SEED
from tasks.report.manifest import now
from tasks.report.write import share_report, write_index
from tasks.scorecard.claims import load_scorecard
from tasks.scorecard.judging import NAME, read_evidence, score, write_scorecard
from tasks.study.spec import StudySpec

COMMAND = f"dpcost run {NAME}"


def judged(folder: Path, tasks: Tasks, **asked: Any) -> Outcome:
    """Judge every claim on the results in a folder, and write the scorecard; `asked` is for the record."""
    specs, tables, context = evidence_in(folder, asked)
    plain = [spec.model_dump(mode="json") for spec in specs]
    inputs = [plain, context["evidence"], str(folder), context["profile"], context["seed"]]
    code = [score.__module__, *{module for spec in specs for module in spec.modules()}]
    key = cache_key("scorecard", code, *inputs, of_page=True)
    paths = {name: str(path) for name, path in tables.items()}
    record = tasks.run(score, key, specs, paths, str(folder / NAME), context, again=False)
    index = write_index(folder)
    share_report(folder / NAME)
    return Outcome(
        report=Path(record["report"]),
        index=index,
        headline=record["headline"],
        results=folder / NAME / "results.parquet",
        headline_cells=[],
    )


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
