"""Verdicts of the claims about some studies, which are run first as far as the home lacks them."""

from pathlib import Path
from tempfile import TemporaryDirectory

from data.store.folders import home
from flows.studies.find_study import find_study
from tasks.run.collect import read_results
from tasks.scorecard.claims import Evidence, load_scorecard
from tasks.scorecard.judging import judge
from tests.bench.commands import run_dpcost
from tests.bench.goals import Goal, Measurement

STUDIES = ("housing", "glm_sparse", "swarm")


def bench_accuracy(small: bool = False) -> Measurement:
    """Judge every claim about the studies, a goal each: 1 holds, 0 does not, NaN cannot be tested."""
    studies, profile = (("user_selection",), "smoke") if small else (STUDIES, "standard")
    with TemporaryDirectory() as folder:
        run_dpcost(
            Path(folder) if small else home(), "run", *studies, "--profile", profile, "--out", f"{folder}/out"
        )
        runs = {name: read_results(Path(folder) / "out" / name) for name in studies}
        evidence = {name: Evidence(find_study(name), run) for name, run in runs.items()}
    judged = {
        f"{claim.id} ({calibration})": verdict
        for entry in load_scorecard().claims
        if entry.study in studies
        for claim in entry.on_panels(evidence[entry.study])
        for calibration, verdict in judge(claim, evidence[entry.study]).items()
    }
    sources = {source for each in evidence.values() for source in each.results["data_source"]}
    return Measurement(
        figure=f"{sum(each.value == 1 for each in judged.values())} of {len(judged)} verdicts hold",
        goals=[Goal(what=what, values=[each.value], wanted=1, unit="") for what, each in judged.items()],
        data=f"{', '.join(studies)} ({', '.join(sorted(sources))})",
    )
