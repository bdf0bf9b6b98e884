"""The commands that run studies and show runs and stored results."""

import gc
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from data.store.folders import REPORTS, home
from flows.cli import options
from flows.progress import say
from tasks import SpecError
from tasks.run_options import DAYS, TASKS, RunOptions


def run(
    studies: Annotated[list[str], options.argument("STUDY", "Study names, or paths of study files.")],
    engine: options.Engine = "local",
    plugins: options.Plugins = None,
    profile: options.ProfileOption = options.DEFAULTS.profile,
    reps: options.Reps = None,
    seed: options.Seed = options.DEFAULTS.seed,
    workers: options.Workers = None,
    out: options.Out = None,
    offline: options.Offline = False,
) -> None:
    """Run studies from raw data to report."""
    gc.disable()  # until all is loaded: looking for garbage takes a fifth of that time, and there is none
    options.use_plugins(plugins or [], engine)
    from flows.launch import launch
    from tasks.study.spec import SCORECARD

    if is_judged := SCORECARD in studies:  # no other run needs its pages
        from flows.studies.results import print_headline
        from flows.studies.scorecard import folder_of_scorecard, with_evidence, write_scorecard

        studies = with_evidence(studies)
        out = folder_of_scorecard(studies, profile, out)
    run_options = RunOptions(profile=profile, reps=reps, seed=seed, workers=workers, out=out, offline=offline)
    index = launch(studies, run_options, engine=engine, command=shlex.join(["dpcost", *sys.argv[1:]]))
    if is_judged:
        print_headline(write_scorecard(run_options.reports.resolve()))
    options.echo(str(index))


def rerun(
    study: options.StudyArgument,
    task: Annotated[str, options.option(f"[{'|'.join(TASKS)}]", "Task to run again.")],
    cell: Annotated[
        str | None, options.option("KEY", "Cell whose block runs again, with --task run_block; default: all.")
    ] = None,
    plugins: options.Plugins = None,
    out: options.Out = None,
    offline: options.Offline = False,
) -> None:
    """Run one task, or the block of one cell, again; the rest comes from the cache."""
    options.use_plugins(plugins or [])
    from flows.launch import launch
    from flows.studies.results import rerun_options
    from tasks.cache import Again

    reports = Path(out or REPORTS).resolve()
    run_options, command = rerun_options(study, task, cell, reports, out=out, offline=offline)
    options.echo(str(launch([study], run_options, command=command, again=Again(task, cell))))


def ingest(
    datasets: Annotated[list[str] | None, options.argument("DATASET", "Dataset names; default: all.")] = None,
    again: Annotated[
        bool,
        options.flag("--again", "Download and convert again; stored data are kept if the download fails."),
    ] = False,
    offline: options.Offline = False,
) -> None:
    """Download datasets, verify them, and convert them to Parquet."""
    from data.store.folders import private_folder
    from tasks.run.datasets import bring_datasets, dropped_rows, fetch

    fetching = partial(fetch, progress=sys.stderr.isatty())
    tables = bring_datasets(datasets or (), fetch=fetching, again=again, offline=offline)
    private_folder(home())
    for table in tables:
        rows = f"{table.n_rows:,} of {table.rows_read:,} rows"
        repaired = dropped_rows(table) or "no row dropped"
        options.echo(f"{table.name}: {rows}, {table.data_source}, {repaired} → {table.path}")
        for reason in table.reasons:
            say(f"  {reason}")


def report(
    studies: Annotated[
        list[str] | None, options.argument("STUDY", "Study names; default: all with results.")
    ] = None,
    plugins: options.Plugins = None,
    out: options.Out = None,
) -> None:
    """Write reports again from stored results; runs no estimator."""
    options.use_plugins(plugins or [])
    from flows.launch import check_index
    from flows.studies.results import rebuild_reports

    check_index(Path(out or REPORTS))
    index, rebuilt = rebuild_reports(studies, out)
    options.echo(f"rebuilt {', '.join(rebuilt) or 'no report'}; see {index}")


def compare(
    runs: Annotated[
        list[Path],
        options.argument(
            "RUN", "Report folders or results.parquet of one study; the first is the reference."
        ),
    ],
    as_json: options.AsJson = False,
) -> None:
    """List differences between runs of a study that exceed their standard errors."""
    from data.results.comparison import describe_differences
    from flows.studies.results import compare_runs

    if len(runs) < 2:
        raise SpecError(
            "RUN must be given at least twice, got one; pass e.g. reports/out/housing and another folder"
        )
    differences = compare_runs(runs)
    lines = [describe_differences(change) for change in differences]
    if len(lines) > 1:
        lines = [f"{run}: {line}" for run, line in zip(runs[1:], lines, strict=True)]
    options.show(differences[0] if len(differences) == 1 else differences, lines, as_json)


def status(as_json: options.AsJson = False) -> None:
    """Show the last runs and the stored results."""
    from data.store.folders import totals
    from flows.history import recent_runs

    runs, stored = recent_runs(home(), REPORTS), totals(home())
    width = 2 + max((len(item["study"]) for item in runs), default=0)
    lines = []
    for item in runs:
        remark = f", {item['publication']}" if item["publication"] else ""
        started = item["started"][:16].replace("T", " ")
        lines.append(f"{started}  {item['study']:<{width}}{item['profile']:<10}{item['status']}{remark}")
    if not runs:
        lines.append(
            f"no report in {REPORTS}; runs with --out are not listed. Start with: dpcost run housing"
        )
    for kind, total in stored.items():
        lines.append(f"{kind}: {total['files']} files, {total['bytes'] / 1e6:.1f} MB")
    options.show({"runs": runs, "stored": stored}, lines, as_json)


cache_app = typer.Typer(help="Delete stored results.")
cache_app.callback(invoke_without_command=True)(options.help_without_command)


@cache_app.command("prune")
def cache_prune(
    everything: Annotated[bool, options.flag("--all", "Also delete current results.")] = False,
    days: Annotated[
        int, options.option("INTEGER", "Days without use after which a result is deleted.", min=0)
    ] = DAYS,
    out: options.Out = None,
) -> None:
    """Delete results that are damaged, incomplete or stale."""
    from flows.lock import exclusive_run
    from tasks.cache import prune

    with exclusive_run(home()):
        removed, freed = prune(home(), Path(out or REPORTS), everything=everything, days=days)
    options.echo(f"removed {removed} stored results, {freed / 1e6:.1f} MB")
