"""Start studies from the command line: check the options, bring a server, run, wait for the records."""

import ctypes
import gc
import importlib.util
import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import copy_context
from pathlib import Path
from typing import Any

from data.errors import StoreError
from data.store.folders import atomic_write, home, private_folder, read_small, require_own_home
from data.store.output_files import claim_report
from data.store.shared import check_shared_store
from flows.local_server import full_disk, home_tag, leave, prefect_server, wait_until_recorded
from flows.lock import exclusive_run
from flows.record.progress import say, show_turn
from flows.server.interruption import prompt_end
from flows.studies.find_study import SCORECARD, find_study, with_evidence
from flows.studies.results import folder_of_run, reports_of_scorecard
from flows.studies.stored import run_from_store
from tasks.cache import records_folder
from tasks.errors import MENDABLE, SpecError
from tasks.ingest import analyst_parquet
from tasks.run_options import RunOptions
from tasks.turns import STOPPED, TURN

ENGINES = "'local', 'dask' or 'dask://HOST:PORT'"

# What a run needs at least; a disk that fills up later is told about then.
SPACE_FOR_HOME = 50_000_000
SPACE_FOR_REPORTS = 5_000_000
# Seconds. At .05 two blocks in threads, as at `smoke`, took half as long again as at .005; what this gains
# over .005 is within noise.
SWITCH_INTERVAL = 5e-4
_STUDIES_AT_ONCE = 3  # the first is drawn while the second computes and the third brings its data

INDEX_TITLE = b"<title>What privacy costs: all studies</title>"  # of every index page
MAX_INDEX = 50_000_000  # bytes

# Prefect prints tracebacks of failed tasks; the command line says one sentence instead.
_QUIET = {"PREFECT_LOGGING_LEVEL": "INFO", "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}


def check_engine(engine: str) -> None:
    if engine == "local":
        return
    if engine != "dask" and not re.fullmatch(r"dask://[^:/]+:\d{1,5}", engine):
        raise SpecError(f"--engine must be {ENGINES}, got {engine!r}")
    if importlib.util.find_spec("distributed") is None:
        raise SpecError(f"--engine {engine} needs the package distributed; install dpcost[dask]")


def check_scheduler(engine: str) -> None:
    """Refuse a standing cluster that does not answer or whose workers cannot share this process's work."""
    if scheduler := _scheduler(engine):
        from flows.server.dask_workers import check_workers

        check_workers(scheduler)


def check_folder(what: str, folder: Path, space: int, *, private: bool = False) -> None:
    """Refuse a folder that cannot be written or is as good as full, before anything is started."""
    probe = folder / f".probe-{os.getpid()}"
    try:
        if private:
            private_folder(folder)
        atomic_write(probe, b"")
        probe.unlink()
    except (StoreError, OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).rpartition(": ")[2]
        raise SpecError(f"{what} must be a folder that can be written, got {folder}: {reason}") from None
    free = shutil.disk_usage(folder).free
    if free < space:
        raise SpecError(
            f"{what} needs {space / 1e6:.0f} MB of free space, got {free / 1e6:.1f} MB in {folder}; "
            "free some, or choose another folder"
        )


def check_index(folder: Path) -> None:
    """Refuse a folder of reports whose index page this program did not write."""
    index = folder / "index.html"
    try:
        foreign = index.exists() and INDEX_TITLE not in read_small(index, MAX_INDEX)
    except OSError as error:
        raise SpecError(f"--out holds {index}, which cannot be replaced: {error.strerror}") from None
    if foreign:
        raise SpecError(
            f"--out must be a folder of reports or a new one, got {folder}: its index.html is another page"
        )


def check_table_is_no_output(table: Path, report: Path) -> None:
    """Refuse a table that lies in its own report's folder, where a file of the report could replace it."""
    if table.resolve().is_relative_to(report.resolve()):
        raise SpecError(
            f"--out must not put the report into the folder of the study's table, got {report}; move one"
        )


def launch(
    studies: Sequence[str], options: dict[str, Any], *, engine: str = "local", command: str = ""
) -> str:
    """Run studies with the same options; return the path of the index page."""
    check_engine(engine)
    studies = with_evidence(list(dict.fromkeys(studies)))
    names = _distinct_names(studies)
    if SCORECARD in studies:
        options = options | {"out": reports_of_scorecard(names, options["profile"], options.get("out"))}
    asked = [RunOptions(study=study, **options) for study in studies]
    _prepare_folders(asked[0], names)
    check_shared_store()
    check_scheduler(engine)
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    logging.raiseExceptions = False  # or Prefect prints why its server did not take some lines of a log
    with _full_disk_told(), prompt_end(), exclusive_run(home()):
        _check_tables(asked)
        index, left = _show_stored(asked, command)
        if left:
            index = _compute(left, command, engine)
    if folder := _full_disk():
        say(
            f"note: the disk of {folder} is full; the results are whole, but what is kept of this run "
            "may not be; free some space"
        )
    return index


def _distinct_names(studies: Sequence[str]) -> list[str]:
    """Return the names of studies; refuse two of the same name, whose reports would be one folder."""
    names = [study if study == SCORECARD else find_study(study).name for study in studies]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SpecError(
            f"studies must differ in name, since it names the report's folder, got {twice!r} twice; "
            "run one after another with different --out, or rename one"
        )
    return names


def _prepare_folders(options: RunOptions, names: Sequence[str]) -> None:
    """Check the home and the folder of reports, and claim the folder of each study's report."""
    require_own_home(home())
    check_folder("DPCOST_HOME", home(), SPACE_FOR_HOME, private=True)
    check_folder("--out", options.reports, SPACE_FOR_REPORTS)
    check_index(options.reports)
    for name in names:
        claim_report(folder_of_run(options.reports, name, options.profile) / name)


def _show_stored(asked: Sequence[RunOptions], command: str) -> tuple[str, Sequence[RunOptions]]:
    """Show the first studies whose results are all stored; return the index page and the other studies."""
    index = ""
    for n_shown, options in enumerate(asked):
        done = run_from_store(options, command)
        if not done:
            return index, asked[n_shown:]
        _tell(done.shown())
        index = str(done.index)
    return index, ()


def _compute(asked: Sequence[RunOptions], command: str, engine: str) -> str:
    """Run studies with a server and with workers; return the index page."""
    with (
        prefect_server(home(), meanwhile=_load),
        _where_blocks_run(asked[0], engine) as at_once,
    ):
        gc.enable()
        sys.setswitchinterval(SWITCH_INTERVAL)
        return _run_each(asked, command, at_once)


def _tell(outcome: dict[str, str]) -> None:
    say(f"{outcome['headline']}\nreport: {outcome['report']}")


def _where_blocks_run(options: RunOptions, engine: str) -> AbstractContextManager[int]:
    """Provide what computes blocks, and say how many are to be under way."""
    if engine != "local":
        return workers_of(options.workers, engine, leave)
    from flows.study import local_workers

    return local_workers(options)


def workers_of(
    workers: int | None, engine: str, when_lost: Callable[[str], object]
) -> AbstractContextManager[int]:
    """Provide Dask workers, one per core if not said, and say how many blocks are to be under way."""
    workers = workers or os.cpu_count() or 1
    from flows.server.dask_workers import own_workers, standing_cluster

    scheduler = _scheduler(engine)
    return standing_cluster(scheduler, when_lost) if scheduler else own_workers(workers)


def _run_each(asked: Sequence[RunOptions], command: str, at_once: int) -> str:
    """Run studies, several in threads, and tell of each in order; one that fails stops no other."""
    from flows.studies.parameters import TYPED

    TYPED.set(command)
    studies = [options for options in asked if options.study != SCORECARD]
    index, failures = "", dict[str, Exception]()
    pool = ThreadPoolExecutor(_STUDIES_AT_ONCE, thread_name_prefix="study")
    try:
        runs = [
            pool.submit(copy_context().run, _run_one, options, at_once, turn)
            for turn, options in enumerate(studies if len(studies) > 1 else ())
        ]
        for turn, options in enumerate(asked):
            if options.study == SCORECARD and failures:
                break  # it judges what the others found
            show_turn(turn)
            try:
                outcome = runs[turn].result() if turn < len(runs) else _run_one(options, at_once)
            except Exception as error:
                failures[options.study] = error
            else:
                index = _tell_of_run(outcome)
                _return_memory()
    except BaseException:
        STOPPED.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        show_turn(0)
    for failed in list(failures)[1:]:
        say(f"note: {failed} failed, too; run it alone to see why")
    if failures:
        raise next(iter(failures.values()))
    return index


def _run_one(options: RunOptions, at_once: int, turn: int = 0) -> dict[str, Any]:
    from prefect import tags
    from prefect.task_runners import ThreadPoolTaskRunner

    from flows.study import run_scorecard, run_study

    TURN.set(turn)
    runner: Any = ThreadPoolTaskRunner(max_workers=at_once)
    flow = run_scorecard if options.study == SCORECARD else run_study.with_options(task_runner=runner)
    taken = options.model_dump(include=set(flow.parameters.properties), exclude_none=True)
    with tags(home_tag(home()), Path(options.study).stem, options.profile):
        return dict(flow(**taken))


def _tell_of_run(outcome: dict[str, Any]) -> str:
    """Say what a run found once its tasks are on record, and return the index page."""
    n_task_runs = outcome["n_task_runs"]
    n_recorded = wait_until_recorded(outcome["flow_run_id"], n_task_runs)
    if n_recorded < n_task_runs:
        say(f"note: the server recorded {n_recorded} of this run's {n_task_runs} task runs")
    _tell(outcome)
    return str(outcome["index"])


def _load() -> None:
    """Load what the flows need; a server takes longer to start."""
    import reports.pages.study  # noqa: F401 (what draws, too)


def _check_tables(asked: Sequence[RunOptions]) -> None:
    """Read the analyst's tables, so that their faults are reported at once."""
    for options in asked:
        spec = None if options.study == SCORECARD else find_study(options.study)
        if spec is not None and spec.analyst_table is not None:
            from data.ledger import open_ledger
            from tasks.release.table import known_as

            reports = options.reports
            for folder in {reports, folder_of_run(reports, spec.name, options.profile)}:
                check_table_is_no_output(Path(spec.analyst_table.path), folder / spec.name)
            spec.check_rows(analyst_parquet(spec.name, spec.analyst_table))
            known = known_as(open_ledger(home()), Path(spec.analyst_table.path))
            if known not in ("", spec.name):
                say(
                    f"note: the ledger knows the rows of {spec.name} as {known!r}; releases are charged there"
                )


def _return_memory() -> None:
    """Give back what a study's arrays held: C's allocator keeps it, and many studies would add up."""
    gc.collect()
    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def _full_disk_told() -> Iterator[None]:
    """Say that the disk is full where that made something fail: neither Prefect nor its server says why."""
    try:
        yield
    except MENDABLE:
        raise
    except Exception:
        if folder := _full_disk():
            raise StoreError(_told(folder)) from None
        raise


def _told(folder: Path) -> str:
    return f"the disk of {folder} is full; free some space and run the same command again"


def _full_disk() -> Path | None:
    """Return a folder of the home on a disk that is almost full, if there is one."""
    folders = (home(), home() / "prefect", records_folder(home()))  # perhaps disks of their own
    return next((each for each in folders if full_disk(each)), None)


def _scheduler(engine: str) -> str | None:
    return engine.replace("dask://", "tcp://") if engine.startswith("dask://") else None
