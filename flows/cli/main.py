"""The command line: ``dpcost``.

Only what every command needs is imported here: each starts at once, and understands Ctrl-C from then on.
"""

import errno
import io
import json
import logging
import os
import re
import shlex
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from data.errors import StoreError
from data.store.folders import home, private_folder
from flows.cli.advise import advise
from flows.cli.cache import cache_app
from flows.cli.catalogs import register as register_catalogs
from flows.cli.local import local_app
from flows.cli.options import (
    AsJson,
    Engine,
    Offline,
    Out,
    ProfileOption,
    Reps,
    Seed,
    Workers,
    help_without_command,
    whole_number,
)
from flows.cli.privacy import register as register_privacy
from flows.record.progress import say
from flows.server.supervision import ServerError

app = typer.Typer(
    help="Measure what privacy costs: private and non-private estimators side by side on real data.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_CommandLineError: Any = typer.BadParameter.__mro__[2]  # the parser's own base class; typer exports none
_CTRL_C = 130  # what the parser makes of it
_MENDABLE_FAULTS = {
    getattr(errno, name)
    for name in [
        "EACCES",
        "EPERM",
        "EROFS",
        "ENOSPC",
        "EDQUOT",
        "ENOTDIR",
        "EISDIR",
        "EEXIST",
        "ELOOP",
        "ENAMETOOLONG",
    ]
}


app.callback(invoke_without_command=True)(help_without_command)


@app.command()
def run(
    studies: Annotated[list[str], typer.Argument(help="Study names, or paths of study files.")],
    profile: ProfileOption = "standard",
    reps: Reps = None,
    seed: Seed = None,
    workers: Workers = None,
    engine: Engine = "local",
    out: Out = None,
    offline: Offline = False,
) -> None:
    """Run studies, ingest to report."""
    command = shlex.join(["dpcost", *sys.argv[1:]])
    options = {"profile": profile, "reps": reps, "seed": seed, "offline": offline, "command": command}
    _run_studies(studies, options, workers=workers, engine=engine, out=out)


@app.command()
def plan(
    study: Annotated[str, typer.Argument(help="A study's name, or the path of its file.")],
    profile: ProfileOption = "standard",
    reps: Reps = None,
    workers: Workers = None,
    offline: Offline = False,
    as_json: AsJson = False,
) -> None:
    """Tell how long a study will take and how much memory: from short runs of it on this machine."""
    from flows.cli.launch import check_options
    from flows.cli.plan import described, plan_study

    options: dict[str, Any] = {"profile": profile, "reps": reps, "offline": offline}
    check_options({**options, "seed": None}, workers=workers, engine="local")
    found = plan_study(study, workers=workers, **options)
    typer.echo(json.dumps(found, indent=1) if as_json else described(found))


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="Of the study; NAME.toml is written here.")],
    data: Annotated[Path, typer.Option(help="CSV or Parquet file.")],
    response: Annotated[str, typer.Option(help="The column to explain; without one, means.")] = "",
    family: Annotated[
        str,
        typer.Option(help="linear, logistic, poisson or multinomial; by the response's type if left out."),
    ] = "",
    user_id: Annotated[
        str, typer.Option(help="The column that says whose row it is: whole users are protected.")
    ] = "",
    sparsity: Annotated[
        int | None,
        typer.Option(parser=whole_number, help="How many entries of the answer are not zero."),
    ] = None,
) -> None:
    """Write a study of your own table, to be completed: reads names and types of columns, keeps no value."""
    from flows.cli.init_study import init_study

    options: dict[str, Any] = {"response": response, "family": family, "user_id": user_id}
    for line in init_study(name, data, sparsity=sparsity, folder=Path(), **options):
        typer.echo(line)


@app.command()
def rerun(
    study: Annotated[str, typer.Argument(help="A study's name, or the path of its file.")],
    task: Annotated[
        str, typer.Option(help="fetch, parquet, prepare, run_block, data_limit, audit, collect or render.")
    ],
    cell: Annotated[str | None, typer.Option(help="Key of one cell, with --task run_block.")] = None,
    profile: Annotated[str | None, typer.Option(help="The last run's by default.")] = None,
    reps: Reps = None,
    seed: Seed = None,
    out: Out = None,
    offline: Offline = False,
) -> None:
    """Run one task, or one cell of it, again; everything else comes from the cache."""
    from flows.last_run import rerun_options

    options = rerun_options(study, task, cell, out, profile=profile, reps=reps, seed=seed)
    _run_studies([study], {**options, "offline": offline}, workers=None, engine="local", out=out)


@app.command()
def ingest(
    datasets: Annotated[list[str] | None, typer.Argument(help="All by default.")] = None,
    offline: Offline = False,
    again: Annotated[
        bool, typer.Option("--again", help="Anew, whatever is stored; it stays if nothing else is found.")
    ] = False,
) -> None:
    """Fetch, verify and convert datasets to Parquet, and no more."""
    from data.errors import Unreachable
    from data.fetch.ingest import to_parquet
    from data.fetch.raw_files import fetch_anew, fetch_or_stand_in, mirror_from_environment
    from data.registry import get_dataset, load_registry

    wanted = [get_dataset(name) for name in datasets or sorted(load_registry())]
    private_folder(home())
    for dataset in wanted:
        places: dict[str, Any] = {
            "home": home(),
            "mirror": mirror_from_environment(),
            "offline": offline,
            "progress": sys.stderr.isatty(),
        }
        try:
            raw = (fetch_anew if again else fetch_or_stand_in)(dataset, **places)
        except Unreachable:
            raw = fetch_or_stand_in(dataset, **places)
        ref = to_parquet(dataset, raw, home=home(), again=again)
        repaired = (
            "; ".join(f"{repair.count} rows: {repair.reason}" for repair in ref.repairs) or "no row dropped"
        )
        rows = f"{ref.n_rows:,} of {ref.rows_read:,} rows"
        typer.echo(f"{dataset.name}: {rows}, {ref.data_source}, {repaired} → {ref.path}")
        for reason in ref.reasons:
            say(f"  {reason}")


@app.command()
def report(
    studies: Annotated[list[str] | None, typer.Argument(help="All that have results by default.")] = None,
    out: Out = None,
) -> None:
    """Rebuild reports from stored results; computes no estimator."""
    from flows.last_run import rebuild_reports

    index, rebuilt = rebuild_reports(studies, out)
    typer.echo(f"rebuilt {', '.join(rebuilt) or 'no report'}; see {index}")


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(help="Folder of a study's report, or its results.parquet.")],
    second: Annotated[Path, typer.Argument(help="Another such folder, e.g. of another --out.")],
    as_json: AsJson = False,
) -> None:
    """Say what differs between two runs, beyond their error bars."""
    from flows.record.stored_results import read_results
    from reports.analysis.compare import compare_results, describe

    tables = read_results(first), read_results(second)
    differences = compare_results(*tables)
    typer.echo(json.dumps(differences, indent=1) if as_json else describe(differences))


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show what ran, and what is stored."""
    from flows.record.status import recent_runs, totals

    runs, stored = recent_runs(home()), totals(home())
    if as_json:
        typer.echo(json.dumps({"runs": runs, "stored": stored}, indent=1))
        return
    width = 2 + max((len(item["study"]) for item in runs), default=0)
    for item in runs:
        remark = f", {item['publication']}" if item["publication"] else ""
        started = item["started"][:16].replace("T", " ")
        typer.echo(f"{started}  {item['study']:<{width}}{item['profile']:<10}{item['status']}{remark}")
    if not runs:
        typer.echo("nothing has run yet; start with: dpcost run housing")
    for kind, total in stored.items():
        typer.echo(f"{kind}: {total['files']} files, {total['bytes'] / 1e6:.1f} MB")


@app.command("stop")
def stop_all() -> None:
    """End all that runs for DPCOST_HOME: the standing server with its worker and database, and runs."""
    from flows.cli.stop import stop

    if not stop(home(), say):
        typer.echo(f"nothing was running for {home()}")


app.add_typer(cache_app, name="cache")
app.add_typer(local_app, name="local")
register_catalogs(app)
register_privacy(app)
app.command()(advise)


def main() -> None:
    """Run the command line: exit status 0, 2 for what the user can mend, 1 for anything else."""
    _prepare_streams()
    _show_warnings()
    try:
        status = app(standalone_mode=False) or 0
        sys.stdout.flush()
    except _CommandLineError as error:
        where = f"; see {error.ctx.command_path} --help" if error.ctx else ""
        _fail(f"{_plain(error.format_message())}{where}")
    except SystemExit as left:
        status = 1 if left.code == 1 else _CTRL_C  # 1: whoever read the output went away
    except (KeyboardInterrupt, typer.Abort):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough
        status = _CTRL_C
    except Exception as error:
        _fail(*_explained(error))
    if status == _CTRL_C:
        say("\ndpcost: interrupted; finished blocks are stored, run the same command again to go on")
        status = 1
    sys.exit(status)


def _run_studies(
    studies: list[str], options: dict[str, Any], *, workers: int | None, engine: str, out: Path | None
) -> None:
    from flows.cli.launch import check_options, launch
    from flows.last_run import reports_of_scorecard
    from flows.studies.find_study import SCORECARD, find_study, with_evidence
    from tasks.faults import SpecError

    check_options(options, workers=workers, engine=engine)
    studies = with_evidence(list(dict.fromkeys(studies)))
    names = [study if study == SCORECARD else find_study(study).name for study in studies]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SpecError(
            f"studies must differ in name, since it names the report's folder, got {twice!r} twice; "
            "run one after another with different --out, or rename one"
        )
    if SCORECARD in studies:
        out = reports_of_scorecard(names, options["profile"], out)
    index = launch(studies, options, workers=workers or os.cpu_count() or 1, engine=engine, out=out)
    typer.echo(index)


def _prepare_streams() -> None:
    """Open what was closed, for the next file would take its place; show odd characters by their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _show_warnings() -> None:
    """Show what the packages below have to say as notes on standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("note: %(message)s"))
    for name in ("data", "dpalgos", "tasks", "flows"):
        logging.getLogger(name).handlers = [handler]
        logging.getLogger(name).propagate = False


def _plain(message: str) -> str:
    """Return the parser's message without what only repeats the option's name."""
    message = message.rstrip(".")
    for option in ("--reps", "--seed", "--workers"):
        message = message.replace(f"Invalid value for '{option}': must be", f"{option} must be")
    return message


def _explained(error: Exception) -> tuple[str, int]:
    """Return one sentence about an error, and the exit status."""
    from tasks.faults import MENDABLE, without_message

    if isinstance(error, MENDABLE):
        return str(error), 2
    if isinstance(error, ServerError):
        return str(error), 1
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"cannot use {error.filename}: {error.strerror}", 2 if error.errno in _MENDABLE_FAULTS else 1
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            "there is no space left for the files or the output; free some and run the same command again",
            2,
        )
    fault = without_message(error)
    try:
        log = home() / "faults.log"
        with log.open("a") as file:
            print(
                datetime.now(UTC).isoformat(timespec="seconds"), fault, *fault.frames, sep="\n  ", file=file
            )
    except (OSError, StoreError):
        return f"internal error, {fault}; please report it", 1
    return f"internal error, {fault}; please report it with the last entry of {log}", 1


def _fail(sentence: str, status: int = 2) -> NoReturn:
    say("dpcost: " + re.sub(r"[\x00-\x1f\x7f]", lambda found: repr(found[0])[1:-1], sentence))
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python tries again at its end, and says so
    sys.exit(status)
