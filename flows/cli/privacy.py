"""The commands that spend privacy: ``dpcost release``, ``dpcost ledger``."""

import json
import math
import os
import select
import sys
import tomllib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from data.store.folders import home
from flows.cli.options import AsJson, Engine, Workers

if TYPE_CHECKING:
    from data.ledger import VerifyReport
    from data.tables.reading import Source
    from tasks.advise import ReleaseForecast
    from tasks.release.plan import PlannedRelease

_COPIES = (
    "this ledger knows what is charged in it alone: a copy of its home, or another ledger, would answer with "
    "fresh noise and cost the same people once more; keep one ledger for a dataset"
)
_SECONDS_FOR_AN_ANSWER = 1.0  # that is piped in
Epsilon = Annotated[float, typer.Option(help="Privacy loss ε, positive.")]

ledger_app = typer.Typer(help="Datasets' privacy budgets, and what was spent of them.", no_args_is_help=True)


def release(
    estimator: Annotated[str, typer.Argument(help="A private estimator; see dpcost estimators.")],
    data: Annotated[str, typer.Option(help="CSV or Parquet file, or folder of Parquet files.")],
    config: Annotated[Path, typer.Option(help="TOML file: [dataset], [columns], [bounds], [params].")],
    epsilon: Epsilon,
    delta: Annotated[float, typer.Option(help="δ, above 0 and well below 1 over the number of rows.")],
    interval: Annotated[
        float | None, typer.Option(help="Confidence level, e.g. 0.95: also an interval, paid for from ε.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Pay again for an answer that was lost.")] = False,
    new_content: Annotated[
        bool, typer.Option("--new-content", help="These other data are meant; they share the budget.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Without a question, for scripts.")] = False,
    none_expected: Annotated[
        bool, typer.Option("--none-expected", help="Also if no coefficient is expected to have an interval.")
    ] = False,
    record: Annotated[
        Path | None, typer.Option(help="Folder for release.json and release.html: what was done, to publish.")
    ] = None,
    table: Annotated[
        Path | None, typer.Option(help="File for the coefficients: .txt, .md, .csv, .tex, .html or .docx.")
    ] = None,
    engine: Engine = "local",
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Release one private answer about your own data, charged to the dataset's budget.

    With an interval and a study file, it says first how wide intervals will be and how many signs will be
    known, and asks.

    Of a folder, or its address, workers of --engine dask make the partial sums; the noise is drawn here.
    """
    from data.ledger import open_ledger
    from data.tables.reading import is_address
    from flows.record.progress import counter
    from tasks.release.coefficients import table_format, write_table
    from tasks.release.record import write_record
    from tasks.release.release import release as release_one

    source = data if is_address(data) else Path(data)
    if table:
        table_format(table)  # refused before anything is charged
    with _workers_for(engine, workers, source):
        released = release_one(
            open_ledger(home()),
            estimator,
            source,
            config,
            epsilon=epsilon,
            delta=delta,
            interval=interval,
            again=again,
            allow_new_content=new_content,
            progress=counter(f"reading {data.rstrip('/').rpartition('/')[2]}", "rows"),
            before_charge=partial(_confirm_intervals, yes, none_expected),
        )
    if record:
        write_record(released.record, record)
    if table:
        write_table([released.record], table)
    shown = released.to_dict()
    typer.echo(json.dumps(shown, indent=1) if as_json else "\n".join(_lines(shown, released.level)))


def table(
    records: Annotated[
        list[Path], typer.Argument(help="release.json of one or several releases, or their folders.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="File: .txt, .md, .csv, .tex, .html or .docx; the terminal by default."),
    ] = None,
) -> None:
    """Set the coefficients of releases into a table for publication, several side by side."""
    from tasks.release.coefficients import read_record, text_of, write_table

    found = [read_record(record) for record in records]
    if out is None:
        typer.echo(text_of(found), nl=False)
        return
    write_table(found, out)
    typer.echo(str(out))


def _lines(shown: dict[str, Any], level: float | None) -> Iterator[str]:
    """Yield what a release says on a terminal."""
    estimate, interval = shown["estimate"], shown["interval"]
    width = max([24, *(2 + len(column) for column in estimate)])
    if interval and level:
        yield f"{'':<{width}}{'estimate':>14}{f'{100 * level:g} % from':>14}{'to':>14}"
    for column, value in estimate.items():
        ends = ("?" if end is None else f"{end:.6g}" for end in interval.get(column, ()))
        yield f"{column:<{width}}{value:>14.6g}" + "".join(f"{end:>14}" for end in ends)
    if shown["interval_note"]:
        yield shown["interval_note"]
    if shown["public_shape"] is not None:
        yield f"the shape of the public rows was {'' if shown['public_shape'] else 'not '}used"
    how = "the stored answer to this request, at no cost" if shown["replayed"] else "drawn now and charged"
    yield f"\n({shown['epsilon']:g}, {shown['delta']:g})-differentially private; {how}"
    yield str(shown["risk"]["sentence"])
    yield (
        f"spent of the budget: epsilon {shown['spent_epsilon']:.4g} of {shown['budget_epsilon']:g} "
        f"at delta {shown['budget_delta']:g}"
    )
    if shown["spent_note"]:
        yield shown["spent_note"]


def _workers_for(engine: str, workers: int | None, source: "Source") -> AbstractContextManager[object]:
    """Provide the workers of an engine for a folder's files; refuse them for one file."""
    if engine == "local":
        return nullcontext()
    from data.tables.reading import is_folder
    from flows.cli.launch import check_engine, check_scheduler, workers_of
    from tasks.faults import SpecError

    check_engine(engine)
    if not is_folder(source):
        raise SpecError(
            f"--engine {engine} needs a folder of Parquet files as --data, got one file, which one process "
            "reads; leave --engine out, or write the rows into several files"
        )
    check_scheduler(engine)
    return workers_of(workers, engine, _leave_release)


def _leave_release(sentence: str) -> NoReturn:
    """End a release that waits for a scheduler which is gone."""
    from flows.record.progress import say

    say(f"dpcost: {sentence}; dpcost ledger show says whether the release was charged, --again repeats it")
    os._exit(1)


def _confirm_intervals(yes: bool, none_expected: bool, plan: "PlannedRelease") -> None:
    """Say from public declarations which intervals to expect, and ask whether to charge."""
    from flows.record.progress import say
    from tasks.advise import forecast_release
    from tasks.faults import SpecError

    request = plan.request
    if request.study is None or not plan.keywords.get("interval"):
        return
    budget = request.epsilon, request.delta
    foreseen = forecast_release(
        request.study, request.estimator.name, plan.keywords, *budget, request.config.columns.x
    )
    say("\n".join(_forecast_lines(foreseen, plan)))
    if not foreseen.intervals[0] and not none_expected:
        raise SpecError(
            "nothing was charged, for no coefficient is expected to have an interval; take more epsilon, "
            "more rows, fewer columns or no --interval, or add --none-expected to have the answer anyway"
        )
    if yes:
        return
    if not _is_confirmed(f"charge epsilon {request.epsilon:g}?"):
        raise SpecError("nothing was charged; more rows, more epsilon or fewer columns give more intervals")


def _is_confirmed(question: str) -> bool:
    """Ask at a terminal, or take the answer that is piped in; refuse where there is neither."""
    from tasks.faults import SpecError

    try:
        if sys.stdin.isatty() or select.select([sys.stdin], [], [], _SECONDS_FOR_AN_ANSWER)[0]:
            return typer.confirm(question, err=True)
    except (typer.Abort, OSError, ValueError):  # the end of what is piped in, or nothing to read from
        pass
    raise SpecError("nothing was charged, for nobody can be asked here; add --yes if that is enough")


def _forecast_lines(foreseen: "ReleaseForecast", plan: "PlannedRelease") -> Iterator[str]:
    """Yield the half-widths to expect in the units of the columns, and how many signs will be known."""
    factors = dict(zip(plan.rows.units.names, plan.rows.units.factor, strict=True))
    yield "expected from public declarations, on made-up tables:"
    for name, half_width in zip(foreseen.names, foreseen.half_widths, strict=True):
        text = "no interval" if math.isnan(half_width) else f"± {half_width * factors.get(name, 1.0):.3g}"
        yield f"  {name:<28}{text:>14}"
    (mean, least, most), k = (round(each) for each in foreseen.signs), len(foreseen.names)
    yield f"the signs of about {mean} of {k} coefficients will be known (made-up tables: {least} to {most})"


@ledger_app.command("open")
def ledger_open(
    name: str,
    epsilon: Epsilon,
    delta: Annotated[
        float, typer.Option(help="δ, well below 1 over the number of rows; 0 allows pure ε only.")
    ],
    data: Annotated[
        Path | None, typer.Option(help="Its file; by default the one that NAME.toml declares, if it is here.")
    ] = None,
) -> None:
    """Set a dataset's total budget, once and for all; rows that have a budget get no second one."""
    from data.ledger import ContentRefused, open_ledger
    from tasks.release.table import known_as

    file = data or _file_of(Path(f"{name}.toml"))
    known = known_as(open_ledger(home()), file) if file else ""
    if known not in ("", name):
        raise ContentRefused(
            f"the rows of {file} are known to the ledger as {known!r} and cannot have a second budget as "
            f"{name!r}; charge {known!r}: name = {json.dumps(known)} under [dataset] of the release file"
        )
    budget = open_ledger(home()).open_dataset(name, epsilon, delta)
    typer.echo(f"{budget.name}: epsilon {budget.epsilon:g} at delta {budget.delta:g}, opened {budget.opened}")
    typer.echo(_COPIES)


def _file_of(study: Path) -> Path | None:
    """Return the file that a study file declares, finished or not, if there is one."""
    try:
        file = study.parent / tomllib.loads(study.read_text(encoding="utf-8"))["data"]["path"]
        return file if file.is_file() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


@ledger_app.command("show")
def ledger_show(name: Annotated[str | None, typer.Argument()] = None, as_json: AsJson = False) -> None:
    """Show budgets and charges."""
    from data.ledger import open_ledger
    from tasks.release.spending import charged_unit, spent_epsilon, why_more

    ledger = open_ledger(home())
    rows: list[dict[str, Any]] = []
    for row in ledger.show(name):
        charges = ledger.charges(row["name"])
        spent = spent_epsilon(charges, row["delta"])
        facts = {"unit": charged_unit(charges), "note": why_more(charges, row["delta"])}
        rows.append({**row, "epsilon_spent": spent, **facts})
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        typer.echo(
            f"{row['name']}: epsilon {row['epsilon_spent']:.4g} of {row['epsilon']:g} spent at delta "
            f"{row['delta']:g}, {len(row['charges'])} charge{'s' * (len(row['charges']) != 1)}"
            + (f", protects each {row['unit']}" if row["unit"] else "")
        )
        for charge in row["charges"]:
            asked = f"epsilon {charge['epsilon']:g}, delta {charge['delta']:g}"
            typer.echo(f"  {charge['charged']}  {charge['estimator']:<28}{asked}  {charge['state']}")
        if row["note"]:
            typer.echo(f"  {row['note']}")
    if rows:
        typer.echo(_COPIES)
    else:
        typer.echo("no dataset has a budget yet; start with: dpcost ledger open NAME --epsilon E --delta D")


@ledger_app.command("backup")
def ledger_backup(file: Path, as_json: AsJson = False) -> None:
    """Copy the whole ledger, with its key, into one file; it replaces none but an earlier backup."""
    from data.ledger import open_ledger

    report = open_ledger(home()).backup(file)
    _tell(report, f"{file} holds the ledger and its key: keep it as secret", as_json)


@ledger_app.command("restore")
def ledger_restore(
    file: Path,
    noted: Annotated[
        str | None, typer.Option(help="The last head that you noted: it must be in FILE.")
    ] = None,
    forget_newer: Annotated[
        bool,
        typer.Option("--forget-newer", help="An older state is meant; what was charged since is forgotten."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Put a backup in the place of the ledger, unless that forgets what was charged since."""
    from data.ledger import open_ledger

    report = open_ledger(home()).restore(file, noted=noted, forget_newer=forget_newer)
    _tell(report, f"the ledger is that of {file}", as_json)


def _tell(report: "VerifyReport", sentence: str, as_json: bool) -> None:
    """Print a report on a whole ledger, and the head that shows later that nothing was rolled back."""
    shown = f"{sentence}: {report.n_charges} charges of {report.n_datasets} datasets\nhead {report.head}"
    typer.echo(json.dumps(asdict(report), indent=1) if as_json else shown)


@ledger_app.command("verify")
def ledger_verify(
    noted: Annotated[str | None, typer.Option(help="The head that an earlier verify printed.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check that the chain of records is whole; exit 1 if it is not."""
    from data.ledger import open_ledger

    report = open_ledger(home()).verify(noted)
    if as_json:
        typer.echo(json.dumps(asdict(report), indent=1))
    elif report.ok:
        typer.echo(f"the ledger is whole: {report.n_charges} charges, head {report.head or '(empty)'}")
    else:
        typer.echo("the ledger is NOT whole:\n" + "\n".join(f"  {problem}" for problem in report.problems))
    if not report.ok:
        raise typer.Exit(1)
