"""The scorecard: a page that evaluates the claims of papers on the results in a report folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data.store.folders import REPORTS, home, sha256_file
from data.store.output_files import claim_report
from flows.history import last_run
from flows.lock import exclusive_run
from flows.progress import say
from flows.studies.find_study import readable_studies
from tasks.report.manifest import now
from tasks.report.write import write_index
from tasks.run.collect import RESULTS, read_results
from tasks.run_options import RunOptions
from tasks.scorecard.claims import Evidence, load_scorecard
from tasks.scorecard.judging import scorecard_page
from tasks.study.spec import SCORECARD, StudySpec


def with_evidence(studies: Sequence[str]) -> list[str]:
    """Return studies with the scorecard replaced by the studies that it needs."""
    judged = load_scorecard().studies
    return [name for name in dict.fromkeys([*studies, *judged]) if name != SCORECARD]


def folder_of_scorecard(studies: Sequence[str], profile: str, out: str | None) -> str | None:
    """Return the report folder of the scorecard; next to another profile, a folder named by the profile."""
    if profile == "smoke":
        say(
            "note: profile smoke only checks that everything works; three repetitions decide few claims; "
            "use --profile standard to test them"
        )
    folder = Path(out or REPORTS).resolve()
    others = [study for study in studies if last_run(folder / study).get("profile", profile) != profile]
    if not others:
        return out
    say(f"note: {folder} has reports of another profile, of {others[0]} for example; see {folder / profile}")
    return str(folder / profile)


def write_scorecard(folder: Path) -> Path:
    """Evaluate every claim on the results in a report folder; return the page of the scorecard."""
    with exclusive_run(home()):
        claim_report(folder / SCORECARD)
        studies = readable_studies()
        evidence, context = _evidence_in(folder, studies)
        page = scorecard_page(load_scorecard(), evidence, studies, folder / SCORECARD, context)
        write_index(folder)
        return page


def _evidence_in(folder: Path, studies: Sequence[StudySpec]) -> tuple[dict[str, Evidence], dict[str, Any]]:
    """Return the whole results in a folder by study of the claims, and a context with their facts."""
    readable = {spec.name: spec for spec in studies}
    evidence, facts = dict[str, Evidence](), dict[str, dict[str, Any]]()
    for name in (name for name in load_scorecard().studies if name in readable):
        if manifest := _whole_run(folder / name):
            evidence[name] = Evidence(readable[name], read_results(folder / name))
            facts[name] = {
                "sha256": manifest["results_sha256"],
                **{key: manifest.get(key) for key in ("profile", "seed", "commit")},
            }
    first = next(iter(facts.values()), {"profile": "", "seed": RunOptions().seed})
    same = {key: first[key] for key in ("profile", "seed")}
    command = f"dpcost run {SCORECARD}"
    context = {"study": SCORECARD, **same, "command": command, "started": now(), "evidence": facts}
    return evidence, context


def _whole_run(report: Path) -> dict[str, Any]:
    """Return the manifest of a report whose results are those that the run wrote, else an empty one."""
    table, manifest = report / RESULTS, last_run(report)
    if table.exists() and manifest.get("results_sha256") == sha256_file(table):
        return manifest
    return {}
