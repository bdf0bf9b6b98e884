"""The command that spends privacy: ``dpcost release``."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from data.store.folders import atomic_write, home
from data.store.output_files import check_outputs, files_named_by
from flows.cli import options
from tasks import SpecError

if TYPE_CHECKING:
    from data.tables.sources import Source
    from tasks.release.release import PlannedRelease
    from tasks.release.request import ReleaseRequest


def release(
    estimator: Annotated[str, options.argument("ESTIMATOR", "Private estimator; see dpcost estimators.")],
    data: Annotated[
        str, options.option("FILE", "CSV or Parquet file, folder of Parquet files, or address of a query.")
    ],
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
    from data.tables.sources import file_of, name_of, source_of
    from flows.confirm import confirm_typed_query
    from flows.progress import counter
    from tasks.release.record import FILES, record_of
    from tasks.release.release import release as release_one
    from tasks.release.request import read_request
    from tasks.report.coefficients import table_format

    source = source_of(data)
    confirm_typed_query(source)
    for each in table or ():
        table_format(each)  # refused before anything is charged
    files = [*([record / name for name in FILES] if record else []), *(table or ())]
    check_files = partial(check_outputs, files, inputs=[file_of(source), *files_named_by(config)])
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
            progress=counter(f"reading {name_of(source)}", "rows"),
        )
        record_content = record_of(released)
        _write(record_content, record, table or (), force=force)
    options.show(record_content, text_of_release(record_content), as_json)


def _write(content: dict[str, Any], folder: Path | None, tables: Sequence[Path], *, force: bool) -> None:
    """Write a record into a folder, and its tables; those that are there with the same content stay."""
    from tasks.release.record import FILES, is_recorded, write_record
    from tasks.report.coefficients import table_of

    if folder and not is_recorded(content, folder):  # first: a table can be written from it again
        check_outputs([folder / name for name in FILES], force=force)
        write_record(content, folder)
    contents = {file: table_of([content], file) for file in tables}
    changed = [file for file in tables if not file.exists() or file.read_bytes() != contents[file]]
    check_outputs(changed, force=force)
    for file in changed:
        atomic_write(file, contents[file])


def text_of_release(record: dict[str, Any]) -> str:
    """Return what a release prints on a terminal."""
    from dpalgos.coefficients import CENTERED, SHRUNK
    from tasks.report.coefficients import text_of

    answer = record["release"]["answer"]
    return options.rendered(
        "released.txt.jinja",
        record=record,
        guarantee=record["deployment"]["privacy_loss"]["privacy_parameters"],
        table=text_of([record]) if record["release"]["by_group"] else "",
        center_note=CENTERED if any(each["lower"] is not None for each in answer) else SHRUNK,
        first=f"<{max([24, *(2 + len(each['name']) for each in answer)])}",
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
    """Print the forecast of the intervals from public declarations, and ask whether to charge.

    With ``--yes --none-expected`` nothing depends on the forecast, and none is computed.
    """
    from dpalgos.central.preconditioned.plan import ROBUST
    from dpalgos.coefficients import covered
    from flows.confirm import agrees_to_charge
    from flows.progress import say
    from tasks.advice.releases import forecast_release, needed_epsilon
    from tasks.protocol.split import MOST_LIKELY_NONE

    request = plan.request
    if request.own is None or not request.level or (yes and none_expected):
        return
    number, units = request.own.data.units
    foreseen = forecast_release(request)
    none = foreseen.none
    target = str(getattr(plan.params, "interval_target", ""))
    has_long_tail = target not in ("", ROBUST) and not request.family
    say(
        options.rendered(
            "forecast.txt.jinja",
            foreseen=foreseen,
            covers=covered(target, request.family) if target else "",
            has_long_tail=has_long_tail,
            guesses=request.own.guesses,
            family=request.family,
            response=options.toml(request.columns.y or ""),
            event=options.toml(_event_of(request)),
        )
    )
    if none > MOST_LIKELY_NONE and not none_expected:
        minimum = needed_epsilon(request)
        enough = (
            f"half of the coefficients have one at epsilon about {minimum:.2g}"
            if minimum
            else f"no epsilon up to {16_384 * request.epsilon:,.7g} gives half of the coefficients one"
        )
        remedies = ["that epsilon"] * bool(minimum)
        remedies += ["a robust interval_target"] * has_long_tail
        raise SpecError(
            f"nothing was charged: on {none:.0%} of the synthetic tables of {number:,} {units}"
            f"{', whose responses have a long tail,' * has_long_tail} no coefficient has an interval; "
            f"{enough}; use {', '.join([*remedies, f'more {units}'])}, or no "
            "--interval, or pass --none-expected to release anyway"
        )
    if yes:
        return
    if not agrees_to_charge(f"charge epsilon {request.epsilon:g}?"):
        which_intervals = "more" if foreseen.intervals[0] < len(foreseen.names) else "narrower"
        raise SpecError(
            f"nothing was charged; for {which_intervals} intervals, use more {units}, more epsilon or fewer "
            "columns"
        )


def _event_of(request: "ReleaseRequest") -> str:
    """Return the column of a release's event, "" if its response is none."""
    if request.by_formula and request.by_formula.survival:
        return request.by_formula.survival.event
    return request.columns.y or "" if request.family == "logistic" else ""
