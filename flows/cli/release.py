"""The command that spends privacy: ``dpcost release``."""

import math
import os
import select
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from data.store.folders import atomic_write, home
from data.store.output_files import check_outputs, files_named_by
from flows.cli import options
from tasks import SpecError

if TYPE_CHECKING:
    from data.tables.sources import Source
    from tasks.advice.releases import ReleaseForecast
    from tasks.release.release import PlannedRelease

_SECONDS_FOR_AN_ANSWER = 1.0  # that is piped in


def release(
    estimator: Annotated[str, options.argument("ESTIMATOR", "Private estimator; see dpcost estimators.")],
    data: Annotated[str, options.option("FILE", "CSV or Parquet file, or folder of Parquet files.")],
    config: Annotated[
        Path, options.option("FILE", "TOML file with [dataset], [columns], [bounds], [params].")
    ],
    epsilon: options.Epsilon,
    delta: Annotated[float, options.option("NUMBER", "δ, above 0 and well below 1 / number of rows.")],
    interval: Annotated[
        float | None,
        options.option("NUMBER", "Confidence level of intervals, e.g. 0.95, paid from ε; default: none."),
    ] = None,
    again: Annotated[bool, options.flag("--again", "Charge again after a release that failed.")] = False,
    new_content: Annotated[
        bool, options.flag("--new-content", "Accept changed data; they share this budget.")
    ] = False,
    yes: options.Yes = False,
    none_expected: Annotated[
        bool,
        options.flag(
            "--none-expected", "Release even if more than 25% of simulated releases have no interval."
        ),
    ] = False,
    record: Annotated[
        Path | None,
        options.option("FOLDER", "Folder for release.json and release.html, a record to publish."),
    ] = None,
    table: Annotated[
        list[Path] | None,
        options.option(
            "FILE", "File for the coefficients: .txt, .md, .csv, .tex, .html or .docx. Repeatable."
        ),
    ] = None,
    engine: options.Engine = "local",
    force: options.Force = False,
    as_json: options.AsJson = False,
    workers: options.Workers = None,
) -> None:
    """Make one private release about your own data, charged to the budget of the dataset.

    With --interval and a study file, the command first forecasts the interval widths and the number of known
    signs, and asks for confirmation.

    If --data is a folder or its address, workers of --engine dask compute partial sums. The noise is always
    drawn in this process.
    """
    from data.ledger import open_ledger
    from data.tables.sources import is_address
    from flows.progress import counter
    from tasks.release.record import FILES, record_of
    from tasks.release.release import release as release_one
    from tasks.release.request import read_request
    from tasks.report.coefficients import table_format

    source = data if is_address(data) else Path(data)
    for each in table or ():
        table_format(each)  # refused before anything is charged
    files = [*([record / name for name in FILES] if record else []), *(table or ())]
    check_files = partial(check_outputs, files, inputs=[data, *files_named_by(config)])
    check_files(force=force or not again)  # a repeated request may write the same again

    def before_charge(plan: "PlannedRelease") -> None:
        check_files(force=force)
        _confirm_intervals(yes, none_expected, plan)

    with _workers_for(engine, workers, source):
        released = release_one(
            open_ledger(home()),
            read_request(config, estimator, epsilon=epsilon, delta=delta, interval=interval),
            source,
            again=again,
            allow_new_content=new_content,
            before_charge=before_charge,
            progress=counter(f"reading {data.rstrip('/').rpartition('/')[2]}", "rows"),
        )
        made = record_of(released)
        _write(made, record, table or (), force=force)
    options.show(made, _lines(made), as_json)


def _write(made: dict[str, Any], folder: Path | None, tables: Sequence[Path], *, force: bool) -> None:
    """Write a record into a folder, and its tables; a table may be there with the same content."""
    from tasks.release.record import FILES, write_record
    from tasks.report.coefficients import table_of

    contents = {file: table_of([made], file) for file in tables}
    changed = [file for file in tables if not file.exists() or file.read_bytes() != contents[file]]
    check_outputs([*([folder / name for name in FILES] if folder else []), *changed], force=force)
    if folder:
        write_record(made, folder)
    for file in changed:
        atomic_write(file, contents[file])


def _lines(record: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that a release prints on a terminal."""
    release, level = record["release"], record["release"]["level"]
    ledger, model, fit = release["ledger"], release["model"], release["fit"]
    width = max([24, *(2 + len(each["name"]) for each in release["answer"])])
    if release["by_group"]:
        from tasks.report.coefficients import text_of

        yield text_of([record])
        release = {**release, "answer": ()}
    elif level:
        yield f"{'':<{width}}{'estimate':>14}{f'{100 * level:g} % from':>14}{'to':>14}"
    for each in release["answer"]:
        ends = ("?" if each[end] is None else f"{each[end]:.6g}" for end in ("lower", "upper") if level)
        yield f"{each['name']:<{width}}{each['estimate']:>14.6g}" + "".join(f"{end:>14}" for end in ends)
    if release["covers"]:
        from dpalgos.coefficients import CENTERED, SHRUNK

        centered = any(each["lower"] is not None for each in release["answer"])
        yield f"{release['covers']} {CENTERED if centered else SHRUNK}."
    if release["interval_note"]:
        yield release["interval_note"]
    for name, title in (("r_squared", "R²"), ("residual_std", "residual standard deviation")):
        if fit:
            yield f"{title}: {fit[name]:.4g}, from {fit[f'{name}_low']:.4g} to {fit[f'{name}_high']:.4g}"
    if release["fit_note"]:
        yield f"There is {release['fit_note']}."
    yield from release["cautions"]
    yield f"{model['n']:,} {model['counted']}. {model['preparation']}"
    how = "stored result of this request, at no cost" if ledger["replayed"] else "drawn now and charged"
    promise = record["deployment"]["privacy_loss"]["privacy_parameters"]
    yield f"\n({promise['epsilon']:g}, {promise['delta']:g})-differentially private; {how}"
    yield str(release["risk"]["sentence"])
    yield (
        f"spent of the budget: epsilon {ledger['epsilon_spent']:.4g} of {ledger['epsilon_budget']:g} "
        f"at delta {ledger['delta_budget']:g}" + (f"; {ledger['spent_note']}" if ledger["spent_note"] else "")
    )


def _workers_for(engine: str, workers: int | None, source: "Source") -> AbstractContextManager[object]:
    """Provide the workers of an engine for a folder's files; refuse them for one file."""
    if engine == "local":
        return nullcontext()
    from data.tables.sources import is_folder
    from flows.launch import check_engine, workers_of

    check_engine(engine)
    if not is_folder(source):
        raise SpecError(
            f"--engine {engine} needs a folder of Parquet files as --data, got one file; leave --engine out, "
            "or write the rows into several files"
        )
    return workers_of(workers, engine, _leave_release)


def _leave_release(sentence: str) -> NoReturn:
    """End a release that waits for a scheduler that disappeared."""
    from flows.progress import say

    say(f"dpcost: {sentence}; dpcost ledger show lists the charge, if any; --again repeats the release")
    os._exit(1)


def _confirm_intervals(yes: bool, none_expected: bool, plan: "PlannedRelease") -> None:
    """Print the forecast of the intervals from public declarations, and ask whether to charge."""
    from dpalgos.central.preconditioned.plan import ROBUST
    from dpalgos.protocol.split import MOST_LIKELY_NONE
    from flows.progress import say
    from tasks.advice.releases import forecast_release, needed_epsilon

    request = plan.request
    if request.own is None or not request.level or request.by_group:
        return
    if (design := request.by_formula) and design.times and (len(design.times) > 1 or request.columns.user_id):
        say("there is no forecast of intervals for persons with several rows or entry times")
        if not yes and not is_confirmed(f"charge epsilon {request.epsilon:g}?"):
            raise SpecError("nothing was charged; repeat the command to release")
        return
    number, units = request.own.data.units
    foreseen = forecast_release(request)
    none = foreseen.none
    say("\n".join(_forecast_lines(foreseen, plan)))
    say(f"probability that no coefficient has an interval, on simulated tables: {none:.0%}")
    if none > MOST_LIKELY_NONE and not none_expected:
        minimum = needed_epsilon(request)
        enough = (
            f"half of the coefficients have one at epsilon about {minimum:.2g}"
            if minimum
            else f"no epsilon up to {16_384 * request.epsilon:,.7g} gives half of the coefficients one"
        )
        is_robust = getattr(plan.params, "interval_target", ROBUST) == ROBUST
        remedies = ["that epsilon"] * bool(minimum) + ["a robust interval_target"] * (not is_robust)
        raise SpecError(
            f"nothing was charged: with probability {none:.0%}, no coefficient has an interval; {enough}, on "
            f"synthetic tables of {number:,} {units}; use {', '.join([*remedies, f'more {units}'])}, or no "
            "--interval, or pass --none-expected to release anyway"
        )
    if yes:
        return
    if not is_confirmed(f"charge epsilon {request.epsilon:g}?"):
        raise SpecError(
            f"nothing was charged; for more intervals, use more {units}, more epsilon or fewer columns"
        )


def is_confirmed(question: str) -> bool:
    """Ask at a terminal or read the reply from a pipe; refuse if there is neither."""

    try:
        if sys.stdin.isatty() or select.select([sys.stdin], [], [], _SECONDS_FOR_AN_ANSWER)[0]:
            return typer.confirm(question, err=True)
    except (typer.Abort, OSError, ValueError):  # the end of what is piped in, or nothing to read from
        pass
    raise SpecError("nothing was charged: there is no terminal for the confirmation; pass --yes to skip it")


def _forecast_lines(foreseen: "ReleaseForecast", plan: "PlannedRelease") -> Iterator[str]:
    """Yield the forecast half-widths in the units of the columns, and the number of known signs."""
    from dpalgos.central.preconditioned.plan import ROBUST
    from dpalgos.coefficients import covered

    request = plan.request
    yield "forecast from public declarations, on simulated tables:"
    if target := str(getattr(plan.params, "interval_target", "")):
        yield covered(target, request.family)
        if target != ROBUST and not request.family:
            yield "the forecast assumes that positive responses have a long tail; dpcost advise does not"
    guesses = request.own.guesses if request.own else None
    is_sure = bool(guesses and guesses.std)
    for name, low, expected, high in foreseen.terms:
        least, about, most = (f"{float(f'{width:.2g}'):g}" for width in (low, expected, high))
        text = f"± {least} to {most}" + f", about {about}" * is_sure
        if math.isnan(low):
            text = f"about ± {about}, more with rare categories; for a range, state their shares"
        yield f"  {name:<28}{'no interval' if math.isnan(expected) else text:>20}"
    if not is_sure:
        yield "the ranges are wide; state std and shares of columns under [guesses] in the study file"
    if guesses and request.family in ("logistic", "poisson") and not guesses.means:
        guess = "the event's share" if request.family == "logistic" else "the typical count"
        yield f"the ranges are wide; state {guess} as mean.{request.columns.y} under [guesses]"
    if foreseen.guess:
        yield f"the guess that matters most: {foreseen.guess}"
    mean, fewest, largest = (round(each) for each in foreseen.signs)
    has_any = foreseen.intervals[2] > 0  # on a simulated table
    signs = f"about {mean} of {len(foreseen.names)} ({fewest} to {largest})"
    yield (
        "number of known signs of coefficients, on simulated tables: "
        f"{signs if has_any else f'none of {len(foreseen.names)}'}"
    )
